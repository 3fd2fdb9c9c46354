/** How much memory of the kernel the maps of an object file take, from their definitions: a little more than the kernel counts. */
import { possibleCpus } from '../read/map-entries.ts';

/** `enum bpf_map_type` of include/uapi/linux/bpf.h. */
export const mapTypeNames: readonly string[] =
  `unspec hash array prog_array perf_event_array percpu_hash percpu_array stack_trace cgroup_array lru_hash
  lru_percpu_hash lpm_trie array_of_maps hash_of_maps devmap sockmap cpumap xskmap sockhash cgroup_storage
  reuseport_sockarray percpu_cgroup_storage queue stack sk_storage devmap_hash struct_ops ringbuf inode_storage
  task_storage bloom_filter user_ringbuf cgrp_storage arena`.split(/\s+/);

export interface MapDefinition {
  /** `enum bpf_map_type`. */
  readonly type: number;
  readonly keySizeBytes: number;
  readonly valueSizeBytes: number;
  readonly maxEntries: number;
}

interface Sizes {
  readonly key: number;
  readonly value: number;
  readonly entries: number;
  readonly cpus: number;
}

/** struct bpf_map and what belongs to it; locks for each CPU of an LRU list. */
const MAP_BYTES = 4096;
const PAGE_BYTES = 4096;
/** struct htab_elem, and a bucket: there are up to twice as many as entries. */
const HASH_ENTRY_BYTES = 48 + 2 * 16;
/** struct lpm_trie_node. */
const TRIE_NODE_BYTES = 40;
const POINTER_BYTES = 8;

const hash = ({ key, value, entries, cpus }: Sizes): number =>
  // The kernel keeps one more for each CPU.
  (entries + cpus) * (HASH_ENTRY_BYTES + key + value);
const perCpuHash = ({ key, value, entries, cpus }: Sizes): number =>
  (entries + cpus) * (HASH_ENTRY_BYTES + key + POINTER_BYTES + value * cpus);
const queue = ({ value, entries }: Sizes): number => (entries + 1) * value;

/** Types that a program of a namespaced kind may have. Others reach beyond the pod, or grow without a bound. */
const memoryOf: Readonly<Record<string, (sizes: Sizes) => number>> = {
  hash,
  lru_hash: hash,
  percpu_hash: perCpuHash,
  lru_percpu_hash: perCpuHash,
  array: ({ value, entries }) => entries * value,
  percpu_array: ({ value, entries, cpus }) => entries * (POINTER_BYTES + value * cpus),
  // Two nodes for an entry at most: the second is where two prefixes part. Each is allocated alone.
  lpm_trie: ({ key, value, entries }) => 2 * entries * powerOfTwo(TRIE_NODE_BYTES + key + value),
  queue,
  stack: queue,
  prog_array: ({ entries }) => entries * POINTER_BYTES,
  // libbpf makes 0 the number of CPUs.
  perf_event_array: ({ entries, cpus }) => Math.max(entries, cpus) * POINTER_BYTES,
  // The size in bytes; libbpf makes it a power of two of pages. The kernel adds three, and two pointers to each.
  ringbuf: ({ entries }) => {
    const size = powerOfTwo(Math.max(entries, PAGE_BYTES));
    return size + 3 * PAGE_BYTES + (size / PAGE_BYTES + 3) * 2 * POINTER_BYTES;
  },
};

export const allowedMapTypes: readonly string[] = Object.keys(memoryOf);

/** Undefined: a type that is not allowed. */
export function mapMemoryBytes(
  { type, keySizeBytes, valueSizeBytes, maxEntries }: MapDefinition,
  cpus = possibleCpus(),
): number | undefined {
  const of = memoryOf[mapTypeNames[type] ?? ''];
  if (of === undefined) return undefined;
  const sizes = {
    key: roundUp(keySizeBytes, 8),
    value: roundUp(valueSizeBytes, 8),
    entries: maxEntries,
    cpus,
  };
  return MAP_BYTES + roundUp(of(sizes), PAGE_BYTES);
}

function powerOfTwo(value: number): number {
  return 2 ** Math.ceil(Math.log2(value));
}

function roundUp(value: number, to: number): number {
  return Math.ceil(value / to) * to;
}
