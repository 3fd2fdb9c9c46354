/**
 * A throw-away node with pods: what `npm run lab` opens a shell on, and what the guides are run on. Its processes find
 * everything at the usual places: the container runtime, /etc, /run, /var/lib and the bpffs are its own.
 */
import type { ChildProcess, SpawnOptions } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';

import { type Lab, type LabPod, startLab } from './lab.ts';

const checkout = dirname(dirname(import.meta.dirname));

/** The pods that `examples/` is about, by their label `app` too, in the order of their addresses. */
const podNames = ['frontend', 'backend', 'db'] as const;
const PORT = 5432;

/**
 * $1 is the lab's directory, $2 the socket of its containerd. The mounts are in the lab's namespace, so that
 * they end with it. A file that another process removes from /etc while it is copied is not part of the node.
 */
const settleScript = `
cp -a /etc "$1" 2> /dev/null
set -e
mount --bind "$1/etc" /etc
mount -t bpf bpf /sys/fs/bpf
mkdir -p /run/containerd
ln -s "$2" /run/containerd/containerd.sock
`;

export class ThrowawayNode implements AsyncDisposable {
  readonly pods: readonly LabPod[];
  readonly #lab: Lab;
  /** Opens another shell on the node: a program. */
  readonly enterPath: string;
  readonly #env: NodeJS.ProcessEnv;

  constructor(lab: Lab, pods: readonly LabPod[]) {
    [this.#lab, this.pods] = [lab, pods];
    const programs = join(lab.directory, 'programs');
    const paths = [programs, join(checkout, 'bin'), process.env['PATH'] ?? '', '/usr/sbin:/sbin'];
    // KUBECONFIG and what is below HOME would be those of another API.
    const { KUBECONFIG: _kubeconfig, ...env } = process.env;
    this.#env = { ...env, PATH: paths.join(':'), HOME: lab.directory };
    this.enterPath = join(programs, 'enter');
    mkdirSync(programs);
    writeFileSync(join(programs, 'in-pod'), inPodScript(lab.socketPath, pods), { mode: 0o755 });
    writeFileSync(this.enterPath, enterScript(lab.runtimePid ?? 0, this.#env), { mode: 0o755 });
  }

  /** Starts a program on the node, in the directory of the checkout. It ends with the node. */
  spawn(command: readonly string[], options: Pick<SpawnOptions, 'stdio'>): ChildProcess {
    // nsenter(1) leaves for the root of the mount namespace.
    return this.#lab.spawn(['env', '--chdir', checkout, ...command], { ...options, env: this.#env });
  }

  /** Ends all that runs on the node, and removes its files. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#lab[Symbol.asyncDispose]();
  }
}

/**
 * Starts a node with three pods that answer at port 5432. The caller disposes it.
 *
 * @throws as {@link startLab}; {Error} where a mount is refused.
 */
export async function startThrowawayNode(
  options: { readonly signal?: AbortSignal } = {},
): Promise<ThrowawayNode> {
  const lab = await startLab(options);
  try {
    const settling = lab.spawn(['sh', '-c', settleScript, 'sh', lab.directory, lab.socketPath], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const exited = once(settling, 'exit') as Promise<[number | null]>;
    const errors = settling.stderr === null ? '' : await text(settling.stderr);
    const [code] = await exited;
    if (code !== 0) throw new Error(`no mounts for the node: ${errors}`);
    return new ThrowawayNode(lab, await runExamplePods(lab, options.signal));
  } catch (error) {
    await lab[Symbol.asyncDispose]();
    throw error;
  }
}

/** Starts the pods that `examples/` is about: each says its name at port 5432. */
export async function runExamplePods(lab: Lab, signal?: AbortSignal): Promise<LabPod[]> {
  const pods: LabPod[] = [];
  for (const name of podNames) {
    signal?.throwIfAborted();
    const script = `while true; do echo here is ${name} | nc -l -p ${PORT}; done`;
    const container = { name: 'main', command: ['sh', '-c', script] };
    pods.push(await lab.runPod({ name, labels: { app: name }, containers: [container] }));
  }
  return pods;
}

/** In the container's namespaces and cgroup, as `kubectl exec` runs it. A command has no input: it would read the lines that are pasted behind it. */
function inPodScript(socket: string, pods: readonly LabPod[]): string {
  const cases = pods.map(({ name, containers }) => `  ${name}) id=${containers.get('main')?.id ?? ''} ;;`);
  return `#!/bin/sh
pod="\${1-}"
case "$pod" in
${cases.join('\n')}
  *) echo "usage: in-pod ${pods.map(({ name }) => name).join('|')} [COMMAND...]" >&2; exit 2 ;;
esac
shift
start() { exec ctr --address '${socket}' --namespace k8s.io tasks exec --exec-id "in-pod-$$" "$@"; }
[ $# -gt 0 ] || start --tty "$id" sh
start "$id" "$@" < /dev/null
`;
}

/** By a process of the node, which is in its cgroup and its namespaces. */
function enterScript(pid: number, { PATH: path = '', HOME: home = '' }: NodeJS.ProcessEnv): string {
  const cgroups = readFileSync(`/proc/${pid}/cgroup`, 'utf8');
  const cgroup = /^0::(.*)$/m.exec(cgroups)?.[1] ?? '';
  return `#!/bin/sh
set -e
unset KUBECONFIG
mount="$(awk '$3 == "cgroup2" { print $2; exit }' /proc/self/mounts)"
echo $$ > "$mount${cgroup}/cgroup.procs"
export PATH='${path}' HOME='${home}'
[ $# -gt 0 ] || set -- bash
exec nsenter --target ${pid} --mount --net --wd="$PWD" -- "$@"
`;
}
