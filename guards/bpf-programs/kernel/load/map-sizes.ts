/**
 * Corrects key and value sizes of map types for which the kernel accepts only one size. Sources for bpf2go give ring buffers and perf event arrays the type of their records
 * (`__type(value, struct event)`), which cilium/ebpf reads to generate code and leaves out when it makes the map; libbpf does not.
 */
import type { BpfMap } from '../../../../lib/ebpf/map.ts';

/** Sizes of key and value, by enum bpf_map_type (kernel/bpf/ringbuf.c, kernel/bpf/arraymap.c). */
const sizes: ReadonlyMap<number, readonly [number, number]> = new Map([
  [4, [4, 4]], // perf event array
  [27, [0, 0]], // ring buffer
  [31, [0, 0]], // ring buffer of user space
]);

/** Only before the object is loaded. */
export function fitSizes(maps: readonly BpfMap[]): void {
  for (const map of maps) {
    const fixed = sizes.get(map.type);
    if (fixed !== undefined) map.setSizes(...fixed);
  }
}

/** Values of enum bpf_map_type: hash tables, per CPU and LRU too. */
const hashTables: ReadonlySet<number> = new Set([1, 5, 9, 10]);

/**
 * For a load that only asks whether programs are accepted. The verifier does not look at the size of a hash table, and the kernel clears
 * its buckets first: half a second for one of 16,777,216 entries. Only before the object is loaded.
 */
export function shrinkHashTables(maps: readonly BpfMap[]): void {
  for (const map of maps) if (hashTables.has(map.type)) map.maxEntries = 1;
}
