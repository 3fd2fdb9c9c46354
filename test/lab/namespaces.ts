/**
 * A mount and a network namespace in which containerd runs, so that the machine's own mounts, interfaces and
 * /run do not change. Process ids are the machine's, and /proc/PID/root leads into the containers from
 * outside.
 */
import { type ChildProcess, spawn, type SpawnOptions } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

import type { Snapshotter } from './configuration.ts';

/**
 * $1 is the cgroup, $2 the lab's directory. /run and /var/lib are empty in there: the sockets of containerd's shims lie in
 * /run/containerd and the network plugins' results in /var/lib/cni, wherever containerd has its own directories.
 */
const holderScript = `
set -e
echo $$ > "$1/cgroup.procs"
mount -t tmpfs -o mode=755 run /run
mount -t tmpfs -o mode=755 lib /var/lib
ip link set lo up
mkdir -p "$2/overlay/lower" "$2/overlay/upper" "$2/overlay/work" "$2/overlay/merged"
if mount -t overlay -o "lowerdir=$2/overlay/lower,upperdir=$2/overlay/upper,workdir=$2/overlay/work" overlay "$2/overlay/merged"
then umount "$2/overlay/merged"; echo overlayfs
else echo native
fi
rm -r "$2/overlay"
exec sleep 2147483647
`;

/** $1 is the cgroup, $2 the holder's pid, the rest the command. */
const enterScript = `
set -e
cgroup=$1 holder=$2
shift 2
echo $$ > "$cgroup/cgroup.procs"
exec nsenter --target "$holder" --mount --net -- "$@"
`;

/** The namespaces for as long as their first process runs. */
export interface Namespaces {
  readonly snapshotter: Snapshotter;
  /** Starts a program in them, and in the lab's cgroup. It is killed when this process ends. */
  spawn(command: readonly string[], options: Pick<SpawnOptions, 'stdio' | 'env'>): ChildProcess;
}

/** @throws when namespaces or mounts are refused, with what the shell said. */
export async function createNamespaces(cgroup: string, directory: string): Promise<Namespaces> {
  const holder = spawn(
    'setpriv',
    [
      ...'--pdeathsig KILL unshare --mount --net --propagation slave sh -c'.split(' '),
      holderScript,
      'sh',
      cgroup,
      directory,
    ],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  );
  let errors = '';
  holder.stderr.setEncoding('utf8').on('data', (text: string) => (errors += text));
  const lines = createInterface({ input: holder.stdout });
  const [answer] = (await Promise.race([once(lines, 'line'), once(holder, 'exit')])) as unknown[];
  lines.close();
  if (answer !== 'overlayfs' && answer !== 'native') throw new Error(`no namespaces for the lab: ${errors}`);
  holder.stdout.destroy();
  holder.stderr.destroy();
  holder.unref();
  return {
    snapshotter: answer,
    spawn: (command, options) =>
      spawn(
        'setpriv',
        [...'--pdeathsig KILL sh -c'.split(' '), enterScript, 'sh', cgroup, String(holder.pid), ...command],
        options,
      ),
  };
}
