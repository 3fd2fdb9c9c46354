/** The shape of a map: two of one shape can take each other's place. libbpf accepts any, and then a program reads beyond its values. */
import { possibleCpus } from '../running/map-entries.ts';
import type { MapDefinition } from '../tenant/map-memory.ts';
import { mapTypeNames } from '../type-names.ts';

/** BPF_F_NO_COMMON_LRU of bpf.h: a list for each CPU. */
const NO_COMMON_LRU = 2;
/** BPF_F_RDONLY_PROG of bpf.h. */
const READ_ONLY = 128;

/**
 * @param declared - By an object file.
 * @param there - As the kernel has it.
 * @returns `value size 16 here, 8 there`; empty if they are alike.
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

/** The number that the kernel, or libbpf for it, uses instead of a declared one. */
function entriesInKernel({ type, maxEntries, flags }: MapDefinition): number {
  const name = mapTypeNames[type];
  // libbpf (map_set_def_max_entries): 0 stands for one for each CPU.
  if (name === 'perf_event_array' && maxEntries === 0) return possibleCpus();
  // kernel/bpf/hashtab.c, htab_map_alloc: the same number for each CPU.
  if (name?.startsWith('lru_') === true && (flags & NO_COMMON_LRU) !== 0)
    return Math.ceil(maxEntries / possibleCpus()) * possibleCpus();
  return maxEntries;
}

/** Programs may not write into a map of devices, whatever the file says (kernel/bpf/devmap.c). */
function flagsInKernel({ type, flags }: MapDefinition): number {
  return mapTypeNames[type]?.startsWith('devmap') === true ? flags | READ_ONLY : flags;
}
