/** What a process in a pod does with the maps of a volume: it opens them by their paths. */
import { bpf, command, Descriptor, nulTerminated, Structure } from '../../../lib/ebpf/bpf-call.ts';
import { errno, libbpf } from '../../../lib/ebpf/ffi.ts';
import { errnoName } from '../../../lib/ebpf/libc.ts';
import { mapInfo } from '../kernel/info.ts';

const BPF_F_RDONLY = 1 << 3;

function open(path: string, flags: number): Descriptor {
  const outcome = bpf(command.OBJ_GET, new Structure(16).pointer(0, nulTerminated(path)).u32(12, flags));
  if (outcome instanceof Descriptor) return outcome;
  throw new Error(`cannot open ${path}: ${errnoName(outcome.errno)}`);
}

/** The first u64. */
export function read(path: string): number {
  using map = open(path, BPF_F_RDONLY);
  const value = Buffer.alloc(8);
  if (libbpf().mapLookup(map.fd, new Uint8Array(4), value) !== 0) throw new Error(errnoName(errno()));
  return Number(value.readBigUInt64LE());
}

export function write(path: string, to: number): void {
  using map = open(path, 0);
  const value = Buffer.alloc(8);
  value.writeBigUInt64LE(BigInt(to));
  if (libbpf().mapUpdate(map.fd, new Uint8Array(4), value, 0) !== 0) throw new Error(errnoName(errno()));
}

export function idOf(path: string): number {
  using map = open(path, BPF_F_RDONLY);
  return mapInfo(map.fd).id;
}
