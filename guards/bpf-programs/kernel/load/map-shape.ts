/**
 * The shape of a map: only a map of the same shape can replace another. libbpf does not check this, and a program with another map would
 * read beyond the values.
 */
import { possibleCpus } from '../running/map-entries.ts';
import type { MapDefinition } from '../tenant/map-memory.ts';
import { mapTypeNames } from '../type-names.ts';

/** BPF_F_NO_COMMON_LRU of bpf.h: each CPU has its own LRU list. */
const NO_COMMON_LRU = 2;
/** BPF_F_RDONLY_PROG of bpf.h. */
const READ_ONLY = 128;

/**
 * @param declared - The map as an object file declares it.
 * @param there - The map in the kernel.
 * @returns phrases such as `value size 16 here, 8 there`; empty if the shapes are the same.
 */
export function shapeDifferences(declared: MapDefinition, there: MapDefinition): readonly string[] {
  const rows: readonly (readonly [string, number, number])[] = [
    ['type', declared.type, there.type],
    ['key size', declared.keySizeBytes, there.keySizeBytes],
    ['value size', declared.valueSizeBytes, there.valueSizeBytes],
    ['number of entries', entriesInKernel(declared), there.maxEntries],
    ['flags', flagsInKernel(declared), there.flags],
  ];
  return rows
    .filter(([, mine, their]) => mine !== their)
    .map(([what, mine, their]) => `${what} ${mine} here, ${their} there`);
}

/** The number of entries that the kernel, or libbpf, uses instead of the declared one. */
function entriesInKernel({ type, maxEntries, flags }: MapDefinition): number {
  const name = mapTypeNames[type];
  // libbpf (map_set_def_max_entries): 0 means one entry for each CPU.
  if (name === 'perf_event_array' && maxEntries === 0) return possibleCpus();
  // kernel/bpf/hashtab.c, htab_map_alloc: rounded so that each CPU has the same number.
  if (name?.startsWith('lru_') === true && (flags & NO_COMMON_LRU) !== 0)
    return Math.ceil(maxEntries / possibleCpus()) * possibleCpus();
  return maxEntries;
}

/** Maps of devices are always read-only for programs (kernel/bpf/devmap.c), whatever the file declares. */
function flagsInKernel({ type, flags }: MapDefinition): number {
  return mapTypeNames[type]?.startsWith('devmap') === true ? flags | READ_ONLY : flags;
}
