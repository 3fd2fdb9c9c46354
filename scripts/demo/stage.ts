/** The parts of the demo's second part: a pod, `rampart standalone`, kubectl and a receiver of alerts. */
import { join } from 'node:path';

import { type Lab, type LabContainer, startLab } from '../../test/lab/lab.ts';
import { labObstacle } from '../../test/lab/obstacle.ts';
import type { Checks } from './checks.ts';
import { Kubectl, kubectlObstacle } from './kubectl.ts';
import { RampartProcess } from './rampart-process.ts';
import { Receiver } from './receiver.ts';
import type { PartOptions } from './shown.ts';
import { TemporaryDirectory } from './temporary-directory.ts';
import type { Traces } from './traces.ts';

export interface PodsOptions extends PartOptions {
  /** The pod's label `security-level`; the policy is for `high`. */
  readonly securityLevel: string;
}

/** All that plays a part. */
export interface Stage extends PodsOptions {
  readonly checks: Checks;
  /** Told of everything before it ends. */
  readonly traces: Traces;
  /** Where the commands are run. */
  readonly directory: string;
  readonly lab: Lab;
  readonly nginx: LabContainer;
  readonly receiver: Receiver;
  readonly standalone: RampartProcess;
  readonly kubectl: Kubectl;
}

/** The pod that the sample policy is for. */
export const wanted = {
  pod: 'nginx-pod',
  namespace: 'default',
  container: 'nginx',
  label: 'high',
  ip: '192.168.0.3',
} as const;

/** Why pods cannot be shown on this machine; undefined when they can. */
export function podsObstacle(): string | undefined {
  const obstacle = labObstacle();
  if (obstacle !== undefined) return obstacle;
  return kubectlObstacle();
}

/** Rejects as soon as `signal` is aborted, whatever becomes of the work. */
export async function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const stop = (): void => reject(signal.reason);
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

/** Starts all of it. `stack` gets what ends it, and `traces` the remains to check for afterwards. */
export async function setUp(
  options: PodsOptions,
  stack: AsyncDisposableStack,
  traces: Traces,
  checks: Checks,
): Promise<Stage> {
  const { mode, screen, signal, securityLevel } = options;
  const directory = stack.use(new TemporaryDirectory()).path;
  traces.addDirectory(directory);

  screen.heading('2. Pods');
  screen.step('containerd with directories, mounts and a network of its own, and an image made on the spot:');
  const startMs = performance.now();
  const lab = stack.use(await screen.during('containerd starts', startLab({ firstIp: wanted.ip, signal })));
  traces.addLab(lab.directory);
  stack.defer(() => traces.look());
  const { name, version } = await lab.cri.version({ signal });
  const spec = { name: wanted.pod, labels: { 'security-level': securityLevel } };
  const pod = await screen.during('the pod starts', orAborted(lab.runPod(spec), signal));
  const nginx = pod.containers.get(wanted.container);
  if (nginx === undefined) throw new TypeError(`pod ${pod.name} has no container ${wanted.container}`);
  const seconds = ((performance.now() - startMs) / 1000).toFixed(1);
  screen.answer(`${name} ${version} runs the pod ${pod.name} at ${pod.ip}, after ${seconds} s`);
  checks.add('address of the pod', wanted.ip, pod.ip);

  const receiver = stack.use(await Receiver.listen());
  screen.step('Rampart for one machine: Kubernetes API, operator and agent. Alerts go to its stdout.');
  screen.command(`cd ${directory}`);
  const words = [
    ...['standalone', '--data', 'data', '--listen', '127.0.0.1:0', '--mode', mode],
    ...['--allow-callback', '127.0.0.1', '--cri-socket', lab.socketPath],
  ];
  screen.command(`rampart ${words.join(' ')}`);
  const standalone = stack.use(new RampartProcess({ words, directory, signal }));
  stack.defer(() => traces.addProcess(standalone.pid, 'rampart'));
  const ready = standalone.saysMode(/ guarding this machine with sensor mode /);
  await screen.during('rampart loads its programs', ready);
  screen.answer(standalone.said.filter((line) => /^rampart: (kubeconfig|guarding) /.test(line)).join('\n'));

  const kubeconfig = join(directory, 'data/kubeconfig');
  screen.command(`export KUBECONFIG=${kubeconfig}`);
  const kubectl = new Kubectl({ kubeconfig, directory, signal });
  const list = ['get', 'pods', '--show-labels'];
  screen.command(`kubectl ${list.join(' ')}`);
  const pods = kubectl.until(list, (answer) => answer.includes('Running'));
  screen.answer(await screen.during('the API lists the pod', pods));
  return { ...options, checks, traces, directory, lab, nginx, receiver, standalone, kubectl };
}
