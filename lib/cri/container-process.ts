/** Finds the process of a container, and verifies that it is the right one. */
import { errorCodes, RampartError } from '../errors/errors.ts';
import type { CallOptions } from './connection.ts';
import type { Cri } from './cri.ts';
import { isInContainer, type ProcessIdentity, processIdentity } from './process.ts';

/**
 * The first process of the container; undefined when it does not run (any more).
 *
 * The container may end between the runtime's answer and the look into /proc, and its pid be given to another process. So
 * the process has to be in a cgroup of the container; where cgroups tell nothing, the runtime has to say a second time,
 * after its start was read, that the container runs.
 *
 * @throws {RampartError} what {@link Cri.containerPid} throws, and `CONFLICT` when the pid is that of another container.
 */
export async function findProcess(
  cri: Cri,
  id: string,
  procPath: string,
  options?: CallOptions,
): Promise<ProcessIdentity | undefined> {
  const pid = await cri.containerPid(id, options);
  if (pid === undefined) return undefined;
  const process = processIdentity(pid, procPath);
  if (process === undefined) return undefined;
  const isOurs = isInContainer(pid, id, procPath);
  if (isOurs === true) return process;
  if (isOurs === undefined) return (await cri.containerPid(id, options)) === pid ? process : undefined;
  throw new RampartError(errorCodes.CONFLICT, {
    what: `container runtime at ${cri.socketPath}: process ${pid} does not belong to container ${id}`,
    why: 'it is in the cgroup of another container',
    next: 'Retrying; if this persists, the runtime is in another PID namespace: use that of the host (hostPID)',
  });
}
