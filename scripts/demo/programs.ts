/** The demo's sixth part: eBPF programs from an image, in a chain on an interface, over the end of the agent. */
import { mkdirSync, readdirSync } from 'node:fs';

import { bytecodeImage, countObject } from '../../guards/bpf-programs/image.fixture.ts';
import { RegistryFixture } from '../../lib/oci/registry.fixture.ts';
import { Running } from '../../lib/testing/running.fixture.ts';
import { kubectl, type Part } from './stage.ts';

/** A cable on this machine: what is sent into one end comes out of the other. */
const [near, far] = ['rmp-demo0', 'rmp-demo1'];
const probesObject = countObject.replace('count.bpf.o', 'probes.bpf.o');
const place = '--bpffs bpffs --bpf-state state';

const program = (kind: string, name: string, image: string, more: readonly string[]): string => `\
apiVersion: bpfman.io/v1alpha1
kind: ${kind}
metadata: { name: ${name} }
spec:
  nodeselector: {}
  ${more.join('\n  ')}
  bytecode: { image: { url: ${image} } }
`;
const placeOf = (priority: number): string[] => [
  'bpffunctionname: xdp_count',
  `interfaceselector: { interfaces: [${near}] }`,
  `priority: ${priority}`,
];
const probe = ['bpffunctionname: on_kprobe', 'func_name: try_to_wake_up'];

export const programs: Part = {
  name: 'programs',
  title: 'eBPF programs',
  packages: { ...kubectl, iproute2: ['ip'], mount: ['mount', 'umount'] },
  async play(stage) {
    const { screen } = stage;
    const registry = await stage.use('a registry starts', RegistryFixture.start());
    stage.traces.addProcess(registry.pid ?? 0, 'docker-registry');
    const push = async (name: string, object: string, types: Record<string, string>): Promise<string> => {
      const image = bytecodeImage(object, types, { packets: 'array' });
      return (await registry.push(`demo/${name}`, 'v1', image)).reference;
    };
    const count = await push('count', countObject, { xdp_count: 'xdp', tc_count: 'tc' });
    const probes = await push('probes', probesObject, { on_kprobe: 'kprobe' });
    screen.step(
      'A registry on this machine, and images made on the spot: object files with what is in them.',
    );
    screen.answer(`${count}\n${probes}`);

    // Commands of the stage end with its signal; these are to run then.
    const undo = (command: string): void =>
      stage.stack.defer(
        async () => void (await new Running(command.split(' '), { cwd: stage.directory }).ended),
      );
    mkdirSync(stage.at('bpffs'));
    undo('umount bpffs');
    undo(`ip link delete ${near}`);
    await stage.run(`mount -t bpf bpf bpffs; ip link add ${near} type veth peer name ${far}`);
    await stage.run(`ip link set ${near} up; ip link set ${far} up`);

    const start = async () =>
      await stage.standalone(`--guards bpf-programs ${place} --bpf-insecure-registry ${registry.host}`);
    const first = await start();
    const reconciled = async (kind: string, name: string): Promise<string> => {
      const path = '{.status.conditions[0].type}: {.status.conditions[0].message}';
      const until = kind === 'XdpProgram' ? /^ReconcileSuccess/ : /^Reconcile/;
      const asked = stage.run(`kubectl get ${kind} ${name} -o 'jsonpath=${path}'`, { until });
      return await screen.during(name, asked);
    };
    const apply = async (kind: string, name: string, image: string, more: string[]): Promise<string> => {
      stage.write(`${name}.yaml`, program(kind, name, image, more));
      await stage.type(`cat ${name}.yaml`);
      await stage.type(`kubectl apply -f ${name}.yaml`);
      return await reconciled(kind, name);
    };
    // Only here: it loads what eBPF programs need, which the other parts leave to rampart.
    const { send } = await import('../../guards/bpf-programs/kernel/lab.fixture.ts');
    const sendFrames = (): void => {
      send(far, 100);
      screen.answer(`100 frames sent out of ${far}`);
    };
    const counted = async (expected: number): Promise<void> => {
      const said = await stage.type(`rampart bpf map dump XdpProgram/count packets ${place}`);
      stage.check('frames counted', String(expected), /^0 +(\d+)$/m.exec(said)?.[1] ?? said);
    };

    screen.step(`A program that counts frames, on one end of a cable, ${near}:`);
    const ran = await apply('XdpProgram', 'count', count, placeOf(50));
    stage.check('count.yaml', 'ReconcileSuccess', ran.split(':')[0] ?? '');
    sendFrames();
    await counted(100);

    screen.step('Another one, before it by its priority. Both are one program for the kernel:');
    await apply('XdpProgram', 'first', count, placeOf(10));
    sendFrames();
    const chain = await stage.type(`rampart bpf chain ${near} ${place}`);
    const order = [...chain.matchAll(/^\d+ +XdpProgram\/(\w+)/gm)].map(([, name]) => name).join(', ');
    stage.check('order of the chain', 'first, count', order);
    await counted(200);

    screen.step('A kprobe, which some kernels refuse:');
    const probed = await apply('KprobeProgram', 'wakeups', probes, probe);
    screen.answer(probed);
    const isSaid = /^ReconcileSuccess: |^ReconcileError: .*NotLoaded: .{40}/s.test(probed);
    stage.check('the kprobe', 'runs, or the reason', isSaid || probed);

    screen.step('The agent is killed. The programs stay, and count on; the next agent adopts them:');
    stage.look();
    stage.ramparts.delete(first);
    await stage.type(`kill -9 ${first.pid}`);
    await first.ended;
    sendFrames();
    await start();
    await reconciled('XdpProgram', 'count');
    sendFrames();
    await counted(400);

    screen.step('Deleted, and nothing is left:');
    await stage.type('kubectl delete -f count.yaml -f first.yaml -f wakeups.yaml');
    const list = await stage.type(`rampart bpf list ${place}`);
    stage.check('programs in the kernel', 'none', list.startsWith('No eBPF programs') || list);
    const kept = readdirSync(stage.at('bpffs'), { recursive: true, encoding: 'utf8' });
    stage.check('pins', 'none', kept.filter((path) => path.split('/').length > 2).join(', ') || 'none');
  },
};
