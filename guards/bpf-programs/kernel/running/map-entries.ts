/** Reads the entries of a map through a descriptor, even if another process created the map. */
import { readFileSync } from 'node:fs';
import { constants } from 'node:os';

import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import { errno, libbpf } from '../../../../lib/ebpf/ffi.ts';
import type { MapInfo } from '../info.ts';
import { errnoName } from '../../../../lib/ebpf/libc.ts';

/** enum bpf_map_type: types that have a value for each CPU. */
const perCpuTypes: ReadonlySet<number> = new Set([5, 6, 10]);
/** Types without keys: rings, queues, stacks, bloom filters; and types whose values cannot be read. */
const unreadableTypes: ReadonlyMap<number, string> = new Map([
  [3, 'an array of programs'],
  [4, 'an array of perf events'],
  [8, 'an array of cgroups'],
  [22, 'a queue'],
  [23, 'a stack'],
  [26, 'a struct_ops map'],
  [27, 'a ring buffer'],
  [30, 'a bloom filter'],
  [31, 'a ring buffer'],
]);

export interface MapEntry {
  readonly key: Buffer;
  /** One value, or one for each CPU if the map is per CPU. */
  readonly values: readonly Buffer[];
}

export function isPerCpu({ type }: Pick<MapInfo, 'type'>): boolean {
  return perCpuTypes.has(type);
}

/** The number of possible CPUs: an entry of a per-CPU map has this many values. */
export function possibleCpus(list = readFileSync('/sys/devices/system/cpu/possible', 'latin1')): number {
  const last = /(\d+)\s*$/.exec(list)?.[1];
  return 1 + Number(last ?? 0);
}

/**
 * The distance between the values in an entry of a per-CPU map: each value begins at a multiple of eight (kernel/bpf/syscall.c,
 * bpf_map_value_size).
 */
export function valueStep({ valueSizeBytes }: Pick<MapInfo, 'valueSizeBytes'>): number {
  return (valueSizeBytes + 7) & ~7;
}

/**
 * The entry with a key; undefined if it does not exist.
 *
 * @throws {RampartError} `EBPF`
 */
export function readEntry(fd: number, info: MapInfo, key: Uint8Array): MapEntry | undefined {
  const perCpu = isPerCpu(info);
  const step = perCpu ? valueStep(info) : info.valueSizeBytes;
  const count = perCpu ? possibleCpus() : 1;
  const bytes = Buffer.alloc(step * count);
  if (libbpf().mapLookup(fd, key, bytes) !== 0) {
    const code = errno();
    if (code === constants.errno.ENOENT) return undefined;
    throw new RampartError(errorCodes.EBPF, { what: `cannot read map ${info.name}`, why: errnoName(code) });
  }
  const values = Array.from({ length: count }, (_, at) =>
    bytes.subarray(at * step, at * step + info.valueSizeBytes),
  );
  return { key: Buffer.from(key), values };
}

/**
 * The entries in the kernel's order. If others write meanwhile, an entry may be missed or returned twice; the walk ends after as many
 * entries as the map can hold.
 *
 * @throws {RampartError} `UNSUPPORTED` for a map whose entries cannot be read; `EBPF`.
 */
export function* entriesOf(fd: number, info: MapInfo): Generator<MapEntry, void> {
  const kind = unreadableTypes.get(info.type);
  if (kind !== undefined)
    throw new RampartError(errorCodes.UNSUPPORTED, {
      what: `cannot list the entries of map ${info.name}`,
      why: `it is ${kind}`,
    });
  let key: Uint8Array | null = null;
  for (let left = info.maxEntries; left > 0; left--) {
    const next: Uint8Array = new Uint8Array(info.keySizeBytes);
    if (libbpf().mapNextKey(fd, key, next) !== 0) {
      const code = errno();
      if (code === constants.errno.ENOENT) return;
      throw new RampartError(errorCodes.EBPF, { what: `cannot walk map ${info.name}`, why: errnoName(code) });
    }
    const entry = readEntry(fd, info, next);
    if (entry !== undefined) yield entry;
    key = next;
  }
}
