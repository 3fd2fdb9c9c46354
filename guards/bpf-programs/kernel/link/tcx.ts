/**
 * TCX: ordered links on the ingress or egress of an interface, since 6.6. They run before the filters of clsact. Each end of a netkit pair
 * has the same, since 6.7.
 */
import { bpf, bpfDo, command, type Descriptor, Structure } from '../../../../lib/ebpf/bpf-call.ts';
import { done, granted } from '../../../../lib/ebpf/refusal.ts';

type TcxDirection = 'egress' | 'ingress';

/** The first two are for TCX, the others for netkit. */
const attachTypes = { ingress: 46, egress: 47, primary: 54, peer: 55 } as const;
const BPF_F_BEFORE = 8;
const BPF_F_AFTER = 16;
const BPF_F_LINK = 8192;
/** BPF_MPROG_MAX of kernel/bpf/mprog.c; at most 63 programs can be attached. */
const MAX = 64;

/** The attached programs, in the order in which they run. */
interface TcxState {
  /** Counts changes of the hook; passed back to the kernel as the expected revision. */
  readonly revision: bigint;
  readonly programs: readonly {
    readonly programId: number;
    /** 0 without link. */ readonly linkId: number;
  }[];
}

/** Where to insert a link. */
export type TcxPlace =
  { readonly at: 'end' } | { readonly at: 'after' | 'before'; readonly link: Descriptor };

/** @throws {KernelRefusal} EINVAL before 6.6; ENODEV: this thread's network namespace has no such interface. */
export function queryTcx(interfaceIndex: number, direction: keyof typeof attachTypes): TcxState {
  const programs = new Uint32Array(MAX);
  const links = new Uint32Array(MAX);
  const attr = new Structure(64)
    .u32(0, interfaceIndex)
    .u32(4, attachTypes[direction])
    .pointer(16, new Uint8Array(programs.buffer))
    .u32(24, MAX)
    .pointer(40, new Uint8Array(links.buffer));
  done(`cannot list TCX programs of interface ${interfaceIndex}`, bpfDo(command.PROG_QUERY, attr));
  return {
    revision: attr.u64At(56),
    programs: [...programs.subarray(0, attr.u32At(24))].map((programId, at) => ({
      programId,
      linkId: links[at] ?? 0,
    })),
  };
}

/**
 * Attaches a link at a place among the existing ones.
 *
 * @param revision - From {@link queryTcx}: if the hook has changed since, the kernel refuses.
 * @returns the link, which the caller pins and disposes of.
 * @throws {KernelRefusal} ESTALE: the revision has changed; EEXIST: the program is already attached there; ERANGE: the hook already has 63
 * programs.
 */
export function attachTcx(
  program: Descriptor,
  interfaceIndex: number,
  direction: TcxDirection,
  place: TcxPlace,
  revision: bigint,
): Descriptor {
  const attr = new Structure(64)
    .u32(0, program.fd)
    .u32(4, interfaceIndex)
    .u32(8, attachTypes[direction])
    .u64(24, revision);
  if (place.at !== 'end')
    attr.u32(12, BPF_F_LINK | (place.at === 'after' ? BPF_F_AFTER : BPF_F_BEFORE)).u32(16, place.link.fd);
  return granted(`cannot attach TCX to interface ${interfaceIndex}`, bpf(command.LINK_CREATE, attr));
}
