/** How much kernel memory the maps of an object file take, computed from their definitions: a little more than the kernel accounts for. */
import { possibleCpus } from '../running/map-entries.ts';
import { mapTypeNames } from '../type-names.ts';

export interface MapDefinition {
  /** `enum bpf_map_type`. */
  readonly type: number;
  readonly keySizeBytes: number;
  readonly valueSizeBytes: number;
  readonly maxEntries: number;
  /** BPF_F_* of bpf.h. */
  readonly flags: number;
}

interface Sizes {
  readonly key: number;
  readonly value: number;
  readonly entries: number;
  readonly cpus: number;
  /** Whether entries are allocated one by one, when they are added. */
  readonly eachAlone: boolean;
}

const BPF_F_NO_PREALLOC = 1;

/** struct bpf_map and related structures; for an LRU list, locks for each CPU. */
const MAP_BYTES = 4096;
const PAGE_BYTES = 4096;
/** Bytes of buckets for each entry: there are up to twice as many buckets as entries. */
const BUCKET_BYTES = 2 * 16;
/** struct htab_elem and its bucket. */
const HASH_ENTRY_BYTES = 48 + BUCKET_BYTES;
/** struct lpm_trie_node. */
const TRIE_NODE_BYTES = 40;
const POINTER_BYTES = 8;

/** The kernel memory for one allocation, including a pointer for its free list. */
const allocated = (bytes: number): number => powerOfTwo(bytes + POINTER_BYTES);
const hash = ({ key, value, entries, cpus, eachAlone }: Sizes): number => {
  const bytes = HASH_ENTRY_BYTES + key + value;
  // The kernel keeps one spare entry for each CPU.
  return (entries + cpus) * (eachAlone ? BUCKET_BYTES + allocated(bytes - BUCKET_BYTES) : bytes);
};
const perCpuHash = ({ value, cpus, ...sizes }: Sizes): number =>
  hash({ ...sizes, cpus, value: POINTER_BYTES }) +
  // Values that are allocated one by one are also in a list.
  (sizes.entries + cpus) * (value * cpus + (sizes.eachAlone ? 2 * POINTER_BYTES : 0));
const queue = ({ value, entries }: Sizes): number => (entries + 1) * value;

/** The map types that a program of a namespaced kind may use. Other types reach beyond the pod, or grow without a bound. */
const memoryOf: Readonly<Record<string, (sizes: Sizes) => number>> = {
  hash,
  lru_hash: hash,
  percpu_hash: perCpuHash,
  lru_percpu_hash: perCpuHash,
  array: ({ value, entries }) => entries * value,
  percpu_array: ({ value, entries, cpus }) => entries * (POINTER_BYTES + value * cpus),
  // At most two nodes for an entry: the second one is where two prefixes diverge. Each is allocated on its own.
  lpm_trie: ({ key, value, entries }) => 2 * entries * powerOfTwo(TRIE_NODE_BYTES + key + value),
  queue,
  stack: queue,
  prog_array: ({ entries }) => entries * POINTER_BYTES,
  // libbpf replaces 0 by the number of CPUs.
  perf_event_array: ({ entries, cpus }) => Math.max(entries, cpus) * POINTER_BYTES,
  // `entries` is the size in bytes, which libbpf rounds up to a power of two of pages. The kernel adds three pages, and two pointers for
  // each page.
  ringbuf: ({ entries }) => {
    const size = powerOfTwo(Math.max(entries, PAGE_BYTES));
    return size + 3 * PAGE_BYTES + (size / PAGE_BYTES + 3) * 2 * POINTER_BYTES;
  },
};

export const allowedMapTypes: readonly string[] = Object.keys(memoryOf);

/** Undefined for a map type that is not allowed. */
export function mapMemoryBytes(
  { type, keySizeBytes, valueSizeBytes, maxEntries, flags }: MapDefinition,
  cpus = possibleCpus(),
): number | undefined {
  const of = memoryOf[mapTypeNames[type] ?? ''];
  if (of === undefined) return undefined;
  const sizes = {
    key: roundUp(keySizeBytes, 8),
    value: roundUp(valueSizeBytes, 8),
    entries: maxEntries,
    cpus,
    eachAlone: (flags & BPF_F_NO_PREALLOC) !== 0,
  };
  return MAP_BYTES + roundUp(of(sizes), PAGE_BYTES);
}

function powerOfTwo(value: number): number {
  return 2 ** Math.ceil(Math.log2(value));
}

function roundUp(value: number, to: number): number {
  return Math.ceil(value / to) * to;
}
