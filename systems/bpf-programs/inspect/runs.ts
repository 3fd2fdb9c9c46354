/**
 * How often the members of a chain ran: one array of counters for each CPU.
 *
 * @module
 */
import { readFileSync } from 'node:fs';

import { libbpf } from '../../../shared/ebpf/ffi.ts';
import { mapInfo } from '../../../shared/ebpf/info.ts';
import { openPin } from '../../../shared/ebpf/pin.ts';

/** By slot, summed over the CPUs; none where nothing is pinned there. */
export function runsOf(path: string): bigint[] {
  using map = openPin(path);
  if (map === undefined) return [];
  // A per-CPU value has room for each CPU that may come, each padded to 8 bytes (bpf(2)).
  const slots = Math.ceil(mapInfo(map.fd).valueSizeBytes / 8);
  const cpus = possibleCpus(readFileSync('/sys/devices/system/cpu/possible', 'utf8'));
  const values = new BigUint64Array(slots * cpus);
  if (libbpf().mapLookup(map.fd, new Uint8Array(4), new Uint8Array(values.buffer)) !== 0) return [];
  return Array.from({ length: slots }, (_, slot) => {
    let sum = 0n;
    for (let cpu = 0; cpu < cpus; cpu++) sum += values[cpu * slots + slot] ?? 0n;
    return sum;
  });
}

/** `0-3`, `0,2-7`: the number of the last one, and 1. */
export function possibleCpus(text: string): number {
  const numbers = text.match(/\d+/g) ?? [];
  return Math.max(0, ...numbers.map(Number)) + 1;
}
