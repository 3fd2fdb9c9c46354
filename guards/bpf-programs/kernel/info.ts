/**
 * What the kernel knows about a program, map, link or BTF of which this process has a descriptor (BPF_OBJ_GET_INFO_BY_FD). Offsets are
 * those of include/uapi/linux/bpf.h; an older kernel leaves unknown fields zero.
 */
import { bpf, bpfDo, command, cString, type Descriptor, Structure } from '../../../lib/ebpf/bpf-call.ts';
import { done, granted } from '../../../lib/ebpf/refusal.ts';

interface ProgramInfo {
  /** enum bpf_prog_type. */
  readonly type: number;
  readonly id: number;
  /** At most 15 characters. */
  readonly name: string;
  readonly mapIds: readonly number[];
  readonly gplCompatible: boolean;
  /** 0 without BTF. */
  readonly btfId: number;
  /** Counted only while the kernel's statistics are enabled, see {@link enableStatistics}. */
  readonly runs: bigint;
  readonly runTimeNs: bigint;
  /** How many instructions the verifier examined; 0 before 5.16. */
  readonly verifiedInstructions: number;
}

export interface MapInfo {
  /** enum bpf_map_type. */
  readonly type: number;
  readonly id: number;
  readonly keySizeBytes: number;
  readonly valueSizeBytes: number;
  readonly maxEntries: number;
  readonly flags: number;
  /** At most 15 characters. */
  readonly name: string;
  /** 0 without BTF; the types of keys and values are in it. */
  readonly btfId: number;
  readonly btfKeyTypeId: number;
  readonly btfValueTypeId: number;
}

interface LinkInfo {
  /** enum bpf_link_type: see {@link linkTypes}. */
  readonly type: number;
  readonly id: number;
  readonly programId: number;
  /** For XDP and TCX; 0 once the interface is gone. */
  readonly interfaceIndex: number;
}

export const linkTypes = { rawTracepoint: 1, tracing: 2, xdp: 6, perfEvent: 7, tcx: 11 } as const;

const PROGRAM_INFO_BYTES = 232;
const MAP_INFO_BYTES = 88;
const LINK_INFO_BYTES = 64;
const BTF_INFO_BYTES = 32;

function fill(fd: number, info: Structure): void {
  const attr = new Structure(16).u32(0, fd).u32(4, info.bytes.byteLength).pointer(8, info.bytes);
  done(`cannot inspect descriptor ${fd}`, bpfDo(command.OBJ_GET_INFO_BY_FD, attr));
}

/** @throws {KernelRefusal} EBADF, EINVAL: not an eBPF object. */
export function programInfo(fd: number): ProgramInfo {
  const counted = new Structure(PROGRAM_INFO_BYTES);
  fill(fd, counted);
  const mapCount = counted.u32At(52);
  const ids = new Uint32Array(Math.max(mapCount, 1));
  const info = new Structure(PROGRAM_INFO_BYTES);
  if (mapCount > 0) info.u32(52, mapCount).pointer(56, new Uint8Array(ids.buffer));
  fill(fd, info);
  return {
    type: info.u32At(0),
    id: info.u32At(4),
    mapIds: [...ids.subarray(0, Math.min(mapCount, info.u32At(52)))],
    name: cString(info.bytes.subarray(64, 80)),
    gplCompatible: (info.u32At(84) & 1) === 1,
    btfId: info.u32At(128),
    runTimeNs: info.u64At(192),
    runs: info.u64At(200),
    verifiedInstructions: info.u32At(216),
  };
}

/** @throws {KernelRefusal} EBADF, EINVAL: not an eBPF object. */
export function mapInfo(fd: number): MapInfo {
  const info = new Structure(MAP_INFO_BYTES);
  fill(fd, info);
  return {
    type: info.u32At(0),
    id: info.u32At(4),
    keySizeBytes: info.u32At(8),
    valueSizeBytes: info.u32At(12),
    maxEntries: info.u32At(16),
    flags: info.u32At(20),
    name: cString(info.bytes.subarray(24, 40)),
    btfId: info.u32At(64),
    btfKeyTypeId: info.u32At(68),
    btfValueTypeId: info.u32At(72),
  };
}

/** @throws {KernelRefusal} EBADF, EINVAL: not an eBPF object. */
export function linkInfo(fd: number): LinkInfo {
  const info = new Structure(LINK_INFO_BYTES);
  fill(fd, info);
  const type = info.u32At(0);
  const onInterface = type === linkTypes.xdp || type === linkTypes.tcx;
  return {
    type,
    id: info.u32At(4),
    programId: info.u32At(8),
    interfaceIndex: onInterface ? info.u32At(16) : 0,
  };
}

/**
 * The raw BTF with an id. Needs CAP_SYS_ADMIN.
 *
 * @throws {KernelRefusal} ENOENT if it does not exist.
 */
export function btfById(id: number): Uint8Array {
  using btf = granted(`cannot open BTF ${id}`, bpf(command.BTF_GET_FD_BY_ID, new Structure(12).u32(0, id)));
  const sized = new Structure(BTF_INFO_BYTES);
  fill(btf.fd, sized);
  const bytes = new Uint8Array(sized.u32At(8));
  fill(btf.fd, new Structure(BTF_INFO_BYTES).pointer(0, bytes).u32(8, bytes.byteLength));
  return bytes;
}

/**
 * Makes the kernel count runs and time of every program, at a cost of a few ns for each run, until the descriptor is disposed
 * (BPF_ENABLE_STATS, since 5.8; CAP_SYS_ADMIN).
 *
 * @throws {KernelRefusal} EPERM.
 */
export function enableStatistics(): Descriptor {
  return granted('cannot enable statistics of eBPF programs', bpf(command.ENABLE_STATS, new Structure(4)));
}
