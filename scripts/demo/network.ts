/**
 * The demo's fourth part: three pods, a NetworkPolicy, a request that is answered and one that is refused.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { type Lab, type LabPod, startLab } from '../../test/lab/lab.ts';
import { type Answer, answerOf, find, inNetworkOf } from './commands.ts';
import { Kubectl, shownKubectl } from './kubectl.ts';
import { leavingNothing } from './leaving-nothing.ts';
import { RampartProcess, rampartProgram } from './rampart-process.ts';
import type { PartOptions, Shown } from './shown.ts';
import { orAborted, podsObstacle } from './stage.ts';
import { TemporaryDirectory } from './temporary-directory.ts';

const names = ['frontend', 'backend', 'db'] as const;
type Name = (typeof names)[number];

const policy = `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: db
  namespace: default
spec:
  podSelector: { matchLabels: { app: db } }
  ingress:
    - from: [{ podSelector: { matchLabels: { app: backend } } }]
      ports: [{ port: 5432 }]
`;
const port = 5432;
const table = ['nft', 'list', 'table', 'inet', 'rampart-network-policy'] as const;
/** Rules come within milliseconds; this is for a machine that is busy. */
const RULES_MS = 20_000;

/** Why it cannot be shown on this machine; undefined when it can. */
export function networkObstacle(): string | undefined {
  const obstacle = podsObstacle();
  if (obstacle !== undefined) return obstacle;
  try {
    find('nft');
    find('nsenter');
    return undefined;
  } catch {
    return 'missing packages: apt-get install nftables util-linux';
  }
}

/** All that it starts is gone when this settles, and it has looked whether it is. */
export async function showNetwork(options: PartOptions): Promise<Shown> {
  const { screen, signal } = options;
  return leavingNothing(options, async ({ stack, traces, checks }) => {
    screen.heading('4. Network');
    const directory = stack.use(new TemporaryDirectory()).path;
    traces.addDirectory(directory);
    const lab = stack.use(await screen.during('containerd starts', startLab({ signal })));
    traces.addLab(lab.directory);
    stack.defer(() => traces.look());
    const pods = new Map<Name, LabPod>();
    for (const name of names) pods.set(name, await screen.during(name, orAborted(runPod(lab, name), signal)));
    screen.step(
      'Three pods on one bridge, each answers at port 5432. Rampart for their node, with one guard:',
    );
    screen.answer(names.map((name) => `${name} ${pods.get(name)?.ip ?? ''}`).join('\n'));
    const networkOf = lab.runtimePid ?? 0;
    const started = [
      ...['standalone', '--guards', 'network-policy', '--data', 'data', '--listen', '127.0.0.1:7443'],
      ...['--cri-socket', lab.socketPath],
    ];
    screen.command(`rampart ${started.join(' ')}`);
    const standalone = stack.use(new RampartProcess({ words: started, directory, networkOf, signal }));
    stack.defer(() => traces.addProcess(standalone.pid, 'rampart'));
    await screen.during('the API starts', standalone.says(/serving https/));
    const kubeconfig = join(directory, 'data/kubeconfig');
    const kubectl = new Kubectl({ kubeconfig, directory, networkOf, signal });

    const rules = async (): Promise<string> => {
      const { exitCode, said } = await answerOf(inNetworkOf(networkOf, [...table]), {
        cwd: directory,
        signal,
      });
      return exitCode === 0 ? said : '';
    };
    const untilRules = async (holds: (now: string) => boolean): Promise<boolean> => {
      const endsAtMs = performance.now() + RULES_MS;
      for (;;) {
        if (holds(await rules())) return true;
        if (performance.now() > endsAtMs) return false;
        await sleep(50, undefined, { signal });
      }
    };
    const ask = async (from: Name, expected: 'answered' | 'refused'): Promise<void> => {
      const command = ['sh', '-c', `nc -w 2 ${pods.get('db')?.ip ?? ''} ${port} < /dev/null`];
      screen.command(command[2] ?? '', `${from} #`);
      const container = pods.get(from)?.containers.get('main');
      if (container === undefined) throw new TypeError(`pod ${from} has no container`);
      const { stdout, stderr } = await orAborted(lab.exec(container, command), signal);
      const said = stdout.trim();
      screen.answer(said || stderr.trim() || 'no answer');
      checks.add(`${from} to db`, expected, said === 'here is db' ? 'answered' : 'refused');
    };

    await ask('frontend', 'answered');
    writeFileSync(join(directory, 'policy.yaml'), policy);
    screen.step('Only backend may reach db:');
    screen.command('cat policy.yaml');
    screen.answer(policy.trimEnd());
    await shownKubectl({ screen, kubectl }, 'apply', '-f', 'policy.yaml');
    const enforced = await screen.during(
      'the rules',
      untilRules((now) => now.includes('default/db')),
    );
    checks.add('rules in the kernel', 'there', enforced ? 'there' : 'missing');
    await ask('frontend', 'refused');
    await ask('backend', 'answered');
    const rampart = async (...asked: readonly string[]): Promise<Answer> => {
      const command = inNetworkOf(networkOf, [rampartProgram, ...asked]);
      const env = { PATH: process.env['PATH'], HOME: directory };
      return await answerOf(command, { cwd: directory, env, signal });
    };
    screen.command('rampart network drops --data data -o pretty');
    const drops = await screen.during('the line', refusalLine(rampart, signal));
    screen.answer(drops);
    checks.add('who was refused', 'frontend, by db', refusedBy(drops));
    for (const [from, expected] of [
      ['frontend', 1],
      ['backend', 0],
    ] as const) {
      const words = ['network', 'explain', '--from', `default/${from}`, '--to', 'default/db'];
      words.push('--port', String(port), '--kernel', '--data', 'data');
      screen.command(`rampart ${words.join(' ')}`);
      const { exitCode, said } = await rampart(...words);
      screen.answer(said);
      checks.add(`explained: ${from} to db`, `exit code ${expected}`, `exit code ${exitCode}`);
    }
    screen.command('rampart status --data data');
    const { said: told } = await rampart('status', '--data', 'data');
    screen.answer(told);
    checks.add(
      'policies in status',
      '1',
      String(told.match(/^default\/db +Ingress +1 +yes$/gm)?.length ?? 0),
    );

    screen.step('Without the policy no packet passes a rule any more:');
    await shownKubectl({ screen, kubectl }, 'delete', '-f', 'policy.yaml');
    const gone = await screen.during(
      'the rules go',
      // The chain that tracks connections stays, without a jump to it.
      untilRules((now) => !now.includes(' hook ')),
    );
    checks.add('rules in the kernel', 'gone', gone ? 'gone' : 'left');
    await ask('frontend', 'answered');
  });
}

/** It is there some 50 ms after the refusal. */
async function refusalLine(
  rampart: (...words: readonly string[]) => Promise<Answer>,
  signal: AbortSignal,
): Promise<string> {
  const endsAtMs = performance.now() + RULES_MS;
  for (;;) {
    const { said } = await rampart('network', 'drops', '--data', 'data', '-o', 'pretty', '--policy', 'db');
    const line = said.split('\n').find((each) => each.includes('refused'));
    if (line !== undefined || performance.now() > endsAtMs) return line ?? said;
    await sleep(50, undefined, { signal });
  }
}

function refusedBy(line: string): string {
  const found = /default\/(\w+) \(.*Policy default\/(\w+) isolates/.exec(line);
  return found === null ? 'no line' : `${found[1]}, by ${found[2]}`;
}

async function runPod(lab: Lab, name: Name): Promise<LabPod> {
  const script = `while true; do echo here is ${name} | nc -l -p ${port}; done`;
  return await lab.runPod({
    ...{ name, namespace: 'default', labels: { app: name } },
    containers: [{ name: 'main', command: ['sh', '-c', script] }],
  });
}
