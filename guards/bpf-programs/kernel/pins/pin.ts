/**
 * Pins: names in a bpffs that keep programs, maps and links when the process that created them ends.
 *
 * A name must not contain a dot (kernel/bpf/inode.c, bpf_lookup: EPERM). A bpffs belongs to its mount: pins in one that only this container
 * sees disappear with the container.
 */
import { constants } from 'node:os';
import { mkdirSync, rmdirSync, statfsSync, unlinkSync } from 'node:fs';
import { dirname } from 'node:path';

import { bpf, bpfDo, command, Descriptor, nulTerminated, Structure } from '../../../../lib/ebpf/bpf-call.ts';
import { done, KernelRefusal } from '../../../../lib/ebpf/refusal.ts';

/** BPF_FS_MAGIC of include/uapi/linux/magic.h. */
const BPF_FS_MAGIC = 0xcafe4a11;

/** Whether a directory is in a bpffs; false if it does not exist. */
export function isBpffs(directory: string): boolean {
  try {
    return statfsSync(directory).type === BPF_FS_MAGIC;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
}

/**
 * BPF_OBJ_PIN; creates missing parent directories.
 *
 * @throws {KernelRefusal} EEXIST: the name is in use; EPERM: it contains a dot.
 */
export function pin(fd: number, path: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const attr = new Structure(16).pointer(0, nulTerminated(path)).u32(8, fd);
  done(`cannot pin ${path}`, bpfDo(command.OBJ_PIN, attr));
}

/**
 * BPF_OBJ_GET: a descriptor of the pinned object, which the caller disposes of; undefined if the path does not exist.
 *
 * @throws {KernelRefusal} EACCES, EPERM: this process may not open it.
 */
export function openPin(path: string): Descriptor | undefined {
  const outcome = bpf(command.OBJ_GET, new Structure(16).pointer(0, nulTerminated(path)));
  if (outcome instanceof Descriptor) return outcome;
  if (outcome.errno === constants.errno.ENOENT || outcome.errno === constants.errno.ENOTDIR) return undefined;
  throw new KernelRefusal(`cannot open the pin ${path}`, outcome);
}

/** Removes a pin; the kernel frees the object with its last pin and descriptor. False if the pin did not exist. */
export function unpin(path: string): boolean {
  return gone(() => unlinkSync(path));
}

/** Removes an empty directory of a bpffs. False if it does not exist or is not empty. */
export function removePinDirectory(path: string): boolean {
  return gone(() => rmdirSync(path));
}

function gone(remove: () => void): boolean {
  try {
    remove();
    return true;
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (['ENOENT', 'ENOTDIR', 'ENOTEMPTY', 'EBUSY'].includes(code)) return false;
    throw error;
  }
}
