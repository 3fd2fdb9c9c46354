/** All eBPF objects in the kernel, by their IDs, including those of which Rampart has no pin and no record. Needs CAP_SYS_ADMIN. */
import { constants } from 'node:os';

import { bpf, bpfDo, command, Descriptor, Structure } from '../../../../lib/ebpf/bpf-call.ts';
import { KernelRefusal } from '../../../../lib/ebpf/refusal.ts';

type ObjectKind = 'link' | 'map' | 'program';

const commands: Readonly<Record<ObjectKind, { readonly next: number; readonly open: number }>> = {
  link: { next: command.LINK_GET_NEXT_ID, open: command.LINK_GET_FD_BY_ID },
  map: { next: command.MAP_GET_NEXT_ID, open: command.MAP_GET_FD_BY_ID },
  program: { next: command.PROG_GET_NEXT_ID, open: command.PROG_GET_FD_BY_ID },
};

/**
 * The IDs in ascending order. eBPF objects that are created or removed during the call may be missed.
 *
 * @throws {KernelRefusal} EPERM
 */
export function* idsOf(kind: ObjectKind): Generator<number, void> {
  for (let id = 0; ;) {
    const attr = new Structure(12).u32(0, id);
    const refusal = bpfDo(commands[kind].next, attr);
    if (refusal?.errno === constants.errno.ENOENT) return;
    if (refusal !== undefined)
      throw new KernelRefusal(`cannot list the eBPF ${kind}s of the kernel`, refusal);
    id = attr.u32At(4);
    yield id;
  }
}

/**
 * A descriptor of an eBPF object, which the caller disposes of. Undefined for an unknown ID, and for a link that is just being attached: it
 * already has an ID, but the kernel answers EAGAIN (bpf_link_by_id(), kernel/bpf/syscall.c).
 *
 * @param call - The system call; only tests replace it.
 * @throws {KernelRefusal} EPERM
 */
export function openById(kind: ObjectKind, id: number, call: typeof bpf = bpf): Descriptor | undefined {
  const outcome = call(commands[kind].open, new Structure(12).u32(0, id));
  if (outcome instanceof Descriptor) return outcome;
  const { ENOENT, EAGAIN } = constants.errno;
  if (outcome.errno === ENOENT || outcome.errno === EAGAIN) return undefined;
  throw new KernelRefusal(`cannot open eBPF ${kind} ${id}`, outcome);
}
