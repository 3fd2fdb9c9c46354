/**
 * The demo's sixth part: eBPF programs from an image, in a chain on an interface, over the end of the agent.
 */
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { RegistryFixture } from '../../lib/oci/registry.fixture.ts';
import { bytecodeImage, countObject } from '../../guards/bpf-programs/image.fixture.ts';
import { answerOf, find, runCommand } from './commands.ts';
import { Kubectl, kubectlObstacle, shownKubectl } from './kubectl.ts';
import { leavingNothing } from './leaving-nothing.ts';
import { RampartProcess, rampartProgram } from './rampart-process.ts';
import type { PartOptions, Shown } from './shown.ts';
import { TemporaryDirectory } from './temporary-directory.ts';

/** A cable on this machine: what is sent into one end comes out of the other. */
const [near, far] = ['rmp-demo0', 'rmp-demo1'];
const probesObject = countObject.replace('count.bpf.o', 'probes.bpf.o');

const xdpProgram = (name: string, priority: number, image: string): string => `apiVersion: bpfman.io/v1alpha1
kind: XdpProgram
metadata:
  name: ${name}
spec:
  bpffunctionname: xdp_count
  nodeselector: {}
  interfaceselector:
    interfaces:
      - ${near}
  priority: ${priority}
  bytecode:
    image:
      url: ${image}
`;

const kprobeProgram = (image: string): string => `apiVersion: bpfman.io/v1alpha1
kind: KprobeProgram
metadata:
  name: wakeups
spec:
  bpffunctionname: on_kprobe
  nodeselector: {}
  func_name: try_to_wake_up
  bytecode:
    image:
      url: ${image}
`;

/** Why it cannot be shown on this machine; undefined when it can. */
export function programsObstacle(): string | undefined {
  if (process.geteuid?.() !== 0) return 'it needs root';
  const obstacle = kubectlObstacle();
  if (obstacle !== undefined) return obstacle;
  try {
    for (const name of ['ip', 'mount', 'umount']) find(name);
    return undefined;
  } catch {
    return 'missing packages: apt-get install iproute2 mount';
  }
}

/** All that it starts is gone when this settles, and it has looked whether it is. */
export async function showPrograms(options: PartOptions): Promise<Shown> {
  const { screen, signal } = options;
  return leavingNothing(options, async ({ stack, traces, checks }) => {
    screen.heading('6. eBPF programs');
    const directory = stack.use(new TemporaryDirectory()).path;
    traces.addDirectory(directory);
    const at = (name: string): string => join(directory, name);
    const run = (...command: string[]): Promise<void> =>
      runCommand(command, { cwd: directory, exitCode: 0, signal });
    const registry = stack.use(await screen.during('a registry starts', RegistryFixture.start()));
    traces.addProcess(registry.pid ?? 0, 'docker-registry');
    const push = async (name: string, object: string, programs: Record<string, string>): Promise<string> =>
      (await registry.push(`demo/${name}`, 'v1', bytecodeImage(object, programs, { packets: 'array' })))
        .reference;
    const count = await push('count', countObject, { xdp_count: 'xdp', tc_count: 'tc' });
    const probes = await push('probes', probesObject, { on_kprobe: 'kprobe' });
    screen.step(
      'A registry on this machine, and images made on the spot: an object file, and what programs are in it.',
    );
    screen.answer(`${count}\n${probes}`);

    mkdirSync(at('bpffs'));
    await run('mount', '-t', 'bpf', 'bpf', 'bpffs');
    stack.defer(() =>
      runCommand(['umount', at('bpffs')], { cwd: '/', exitCode: 0, signal: AbortSignal.timeout(10_000) }),
    );
    await run('ip', 'link', 'add', near, 'type', 'veth', 'peer', 'name', far);
    stack.defer(() =>
      runCommand(['ip', 'link', 'delete', near], {
        cwd: '/',
        exitCode: 0,
        signal: AbortSignal.timeout(10_000),
      }),
    );
    for (const name of [near, far]) await run('ip', 'link', 'set', name, 'up');

    const place = ['--bpffs', 'bpffs', '--bpf-state', 'state'];
    const words = [
      ...['standalone', '--guards', 'bpf-programs', '--data', 'data', '--listen', '127.0.0.1:0', ...place],
      ...['--bpf-insecure-registry', registry.host],
    ];
    const start = async (): Promise<RampartProcess> => {
      screen.command(`rampart ${words.join(' ')}`);
      const started = new RampartProcess({ words, directory, signal });
      stack.use(started);
      await screen.during('the API starts', started.says(/serving https/));
      return started;
    };
    const first = await start();
    const kubectl = new Kubectl({ kubeconfig: at('data/kubeconfig'), directory, signal });
    const apply = async (file: string, text: string): Promise<void> => {
      writeFileSync(at(file), text);
      screen.command(`cat ${file}`);
      screen.answer(text.trimEnd());
      await shownKubectl({ screen, kubectl }, 'apply', '-f', file);
    };
    const until = async (
      kind: string,
      name: string,
      holds: (condition: string) => boolean,
    ): Promise<string> => {
      const path = 'jsonpath={.status.conditions[0].type}: {.status.conditions[0].message}';
      return await screen.during(name, kubectl.until(['get', kind, name, '-o', path], holds));
    };
    // Only here: it loads what eBPF programs need, which the other parts leave to rampart.
    const { send } = await import('../../guards/bpf-programs/kernel/lab.fixture.ts');
    const sendFrames = (): void => {
      send(far, 100);
      screen.answer(`100 frames sent out of ${far}`);
    };
    const rampart = async (...rest: string[]): Promise<string> => {
      screen.command(`rampart ${rest.join(' ')}`);
      const env = { PATH: process.env['PATH'], HOME: directory };
      const { said } = await answerOf([rampartProgram, ...rest], { cwd: directory, env, signal });
      screen.answer(said);
      return said;
    };
    const counted = async (): Promise<string> => {
      const said = await rampart('bpf', 'map', 'dump', 'XdpProgram/count', 'packets', ...place);
      return /^0 +(\d+)$/m.exec(said)?.[1] ?? said;
    };

    screen.step(`A program that counts frames, on one end of a cable, ${near}:`);
    await apply('count.yaml', xdpProgram('count', 50, count));
    const ran = await until('xdpprogram', 'count', (text) => text.startsWith('ReconcileSuccess'));
    checks.add('count.yaml', 'ReconcileSuccess', ran.split(':')[0] ?? '');
    sendFrames();
    checks.add('frames counted', '100', await counted());

    screen.step(
      'Another one, before it by its priority. Both are one program for the kernel, exchanged at once:',
    );
    await apply('first.yaml', xdpProgram('first', 10, count));
    await until('xdpprogram', 'first', (text) => text.startsWith('ReconcileSuccess'));
    sendFrames();
    const chain = await rampart('bpf', 'chain', near, ...place);
    const order = [...chain.matchAll(/^\d+ +XdpProgram\/(\w+)/gm)].map(([, name]) => name).join(', ');
    checks.add('order of the chain', 'first, count', order);
    checks.add('frames counted', '200', await counted());

    screen.step('A kprobe, which some kernels refuse:');
    await apply('wakeups.yaml', kprobeProgram(probes));
    const probed = await until('kprobeprogram', 'wakeups', (text) => text.startsWith('Reconcile'));
    screen.answer(probed);
    const isSaid =
      probed.startsWith('ReconcileSuccess: ') || /^ReconcileError: .*NotLoaded: .{40}/s.test(probed);
    checks.add('the kprobe', 'runs, or the reason', isSaid ? 'runs, or the reason' : probed);

    screen.step(
      'The agent is killed. The programs stay, and count on; the agent that comes next adopts them:',
    );
    traces.addProcess(first.pid, 'rampart');
    process.kill(first.pid, 'SIGKILL');
    screen.command(`kill -9 ${first.pid}`);
    await first.stop();
    sendFrames();
    const second = await start();
    await until('xdpprogram', 'count', (text) => text.startsWith('ReconcileSuccess'));
    sendFrames();
    traces.addProcess(second.pid, 'rampart');
    checks.add('frames counted', '400', await counted());

    screen.step('Deleted, and nothing is left:');
    await shownKubectl(
      { screen, kubectl },
      'delete',
      '-f',
      'count.yaml',
      '-f',
      'first.yaml',
      '-f',
      'wakeups.yaml',
    );
    const list = await rampart('bpf', 'list', ...place);
    checks.add('programs in the kernel', 'none', list.startsWith('No eBPF programs') ? 'none' : list);
    const kept = readdirSync(at('bpffs'), { recursive: true, encoding: 'utf8' }).filter(
      (path) => path.split('/').length > 2,
    );
    checks.add('pins', 'none', kept.join(', ') || 'none');
  });
}
