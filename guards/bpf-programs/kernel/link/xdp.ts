/** XDP on a network interface, as a link (since 5.9). */
import { constants } from 'node:os';

import { bpfDo, command, createLink, Descriptor, Structure } from '../../../../lib/ebpf/bpf-call.ts';
import { done, KernelRefusal } from '../../../../lib/ebpf/refusal.ts';

const BPF_XDP = 37;
/** XDP_FLAGS_* of include/uapi/linux/if_link.h. */
const flags = { generic: 2, native: 4 } as const;

const BPF_F_REPLACE = 4;

/**
 * Attaches the program in the interface's driver or, if the driver cannot do that, in the network stack (generic mode). The interface is
 * looked up in the thread's network namespace; the link does not depend on the namespace afterwards.
 *
 * @returns the link, which the caller pins and disposes of, and the reason if it is generic.
 * @throws {KernelRefusal} EBUSY, EEXIST: a program is attached there already.
 */
export function attachXdp(
  program: Pick<Descriptor, 'fd'>,
  interfaceIndex: number,
): { readonly link: Descriptor; readonly why: string | undefined } {
  const native = createLink(program, interfaceIndex, BPF_XDP, flags.native);
  if (native instanceof Descriptor) return { link: native, why: undefined };
  const { EOPNOTSUPP, ERANGE, EINVAL } = constants.errno;
  const reasons = new Map([
    [EOPNOTSUPP, 'its driver does not support XDP'],
    // Without flags the kernel falls back to generic mode on EOPNOTSUPP, but not on ERANGE.
    [
      ERANGE,
      'its MTU exceeds the limit of its driver for programs without fragment support (SEC("xdp.frags"))',
    ],
    [EINVAL, 'its driver refuses XDP in its current configuration'],
  ]);
  const why = reasons.get(native.errno);
  const what = `cannot attach XDP to interface ${interfaceIndex}`;
  if (why === undefined) throw new KernelRefusal(what, native);
  const generic = createLink(program, interfaceIndex, BPF_XDP, flags.generic);
  if (generic instanceof Descriptor) return { link: generic, why };
  throw new KernelRefusal(what, generic);
}

/**
 * Replaces `old` by `program` in one step (BPF_LINK_UPDATE): each packet sees one of the two. For links of XDP, TCX, cgroups and network
 * namespaces.
 *
 * @throws {KernelRefusal} ENOLINK: the interface is gone; EPERM: `old` is not the attached program.
 */
export function replaceProgram(
  link: Descriptor,
  program: Pick<Descriptor, 'fd'>,
  old: Pick<Descriptor, 'fd'> | undefined,
): void {
  const attr = new Structure(16).u32(0, link.fd).u32(4, program.fd);
  if (old !== undefined) attr.u32(8, BPF_F_REPLACE).u32(12, old.fd);
  done('cannot replace the program of a link', bpfDo(command.LINK_UPDATE, attr));
}

/**
 * Detaches the link at once (BPF_LINK_DETACH, since 5.9): if it were only unpinned and closed, the kernel would release it a little later.
 * For links of XDP, TCX, cgroups and network namespaces. Detaching a link again is not an error.
 */
export function detach(link: Descriptor): void {
  bpfDo(command.LINK_DETACH, new Structure(4).u32(0, link.fd));
}
