/** The demo's fourth part: three pods, a NetworkPolicy, a request that is answered and one that is refused. */
import { runExamplePods } from '../../test/lab/throwaway-node.ts';
import { kubectl, type Part } from './stage.ts';

const policy = 'examples/network-policy.yaml';

export const network: Part = {
  name: 'network',
  title: 'Network',
  hasPods: true,
  packages: { ...kubectl, nftables: ['nft'] },
  async play(stage) {
    const { screen, signal } = stage;
    const lab = await stage.lab();
    const pods = await screen.during('the pods start', runExamplePods(lab, signal));
    const [frontend, backend, db] = pods;
    if (!frontend || !backend || !db) throw new TypeError('the lab has not run three pods');
    screen.step('Three pods on one bridge, each answers at port 5432. Rampart for their node, one guard:');
    screen.answer(pods.map(({ name, ip }) => `${name} ${ip}`).join('\n'));
    stage.networkOf = lab.runtimePid;
    await stage.standalone(`--guards network-policy --cri-socket ${lab.socketPath}`);
    const ask = async (from: typeof db, expected: 'answered' | 'refused'): Promise<void> => {
      const said = await stage.inPod(lab, from, `nc -w 2 ${db.ip} 5432 < /dev/null`);
      stage.check(`${from.name} to db`, expected, said === 'here is db' ? 'answered' : 'refused');
    };
    const rules = async (until: RegExp): Promise<string> =>
      await screen.during('the rules', stage.run('nft list table inet rampart-network-policy', { until }));

    await ask(frontend, 'answered');
    screen.step('Only backend may reach db:');
    await stage.type(`cat ${policy}`);
    await stage.type(`kubectl apply -f ${policy}`);
    stage.check('rules in the kernel', 'there', (await rules(/default\/db/)).includes('default/db'));
    await ask(frontend, 'refused');
    await ask(backend, 'answered');
    // It is there some 50 ms after the refusal.
    const drops = await stage.type('rampart network drops --data data -o pretty', { until: /refused/ });
    const refused = /default\/(\w+) \(.*Policy default\/(\w+) isolates/.exec(drops);
    stage.check('who was refused', 'frontend, by db', `${refused?.[1]}, by ${refused?.[2]}`);
    for (const { name } of [frontend, backend]) {
      const words = `--from default/${name} --to default/db --port 5432 --kernel --data data`;
      const command = `rampart network explain ${words}`;
      await stage.typeChecked(`explained: ${name} to db`, command, name === 'frontend' ? 1 : 0);
    }
    const status = await stage.type('rampart status --data data');
    stage.check('policy in status', 'enforced', /^default\/db +Ingress +1 +yes$/m.test(status));

    screen.step('Without the policy no packet passes a rule any more:');
    await stage.type(`kubectl delete -f ${policy}`);
    // The chain that tracks connections stays, without a jump to it.
    stage.check('rules in the kernel', 'gone', !(await rules(/^(?![^]* hook )/)).includes(' hook '));
    await ask(frontend, 'answered');
  },
};
