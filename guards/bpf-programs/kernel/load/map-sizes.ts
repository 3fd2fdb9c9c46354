/**
 * Corrects the key and value sizes of map types for which the kernel accepts only one size. Sources written for bpf2go declare the type of
 * the records as the value of ring buffers and perf event arrays (`__type(value, struct event)`). cilium/ebpf reads this to generate code
 * and ignores it when it creates the map; libbpf does not ignore it.
 */
import type { BpfMap } from '../../../../lib/ebpf/map.ts';

/** Sizes of key and value, by enum bpf_map_type (kernel/bpf/ringbuf.c, kernel/bpf/arraymap.c). */
const sizes: ReadonlyMap<number, readonly [number, number]> = new Map([
  [4, [4, 4]], // perf event array
  [27, [0, 0]], // ring buffer
  [31, [0, 0]], // ring buffer of user space
]);

/** Call it before the eBPF object is loaded. */
export function fitSizes(maps: readonly BpfMap[]): void {
  for (const map of maps) {
    const fixed = sizes.get(map.type);
    if (fixed !== undefined) map.setSizes(...fixed);
  }
}

/** Values of enum bpf_map_type: hash tables, including per-CPU and LRU ones. */
const hashTables: ReadonlySet<number> = new Set([1, 5, 9, 10]);

/**
 * For a load that only tests whether programs are accepted. The verifier ignores the size of a hash table, and the kernel clears all
 * buckets of a new one: half a second for 16,777,216 entries. Call it before the eBPF object is loaded.
 */
export function shrinkHashTables(maps: readonly BpfMap[]): void {
  for (const map of maps) if (hashTables.has(map.type)) map.maxEntries = 1;
}
