// The computed memory of a map against the kernel's count.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { release } from 'node:os';
import { test } from 'node:test';

import { bpf, command, Descriptor, Structure } from '../../../../lib/ebpf/bpf-call.ts';
import { possibleCpus } from '../running/map-entries.ts';
import { obstacle } from '../lab.fixture.ts';
import { mapTypeNames } from '../type-names.ts';
import { allowedMapTypes, mapMemoryBytes } from './map-memory.ts';

const BPF_F_NO_PREALLOC = 1;

/** `memlock` of its descriptor (map_mem_usage of the kernel, since 6.4), when it is full or filled in advance. */
function counted(type: number, key: number, value: number, entries: number): number {
  const flags = mapTypeNames[type] === 'lpm_trie' ? BPF_F_NO_PREALLOC : 0;
  const attr = new Structure(72).u32(0, type).u32(4, key).u32(8, value).u32(12, entries).u32(16, flags);
  const map = bpf(command.MAP_CREATE, attr);
  assert.ok(map instanceof Descriptor, JSON.stringify(map));
  using _map = map;
  return Number(/^memlock:\s*(\d+)$/m.exec(readFileSync(`/proc/self/fdinfo/${map.fd}`, 'latin1'))?.[1]);
}

const keyless = new Set(['queue', 'stack', 'ringbuf']);
const sizes = [
  [8, 4, 1],
  [16, 100, 1000],
  [60, 8, 4097],
  [8, 1024, 10_000],
] as const;

const [major = 0, minor = 0] = release().split('.').map(Number);
const skip =
  obstacle() ?? (major > 6 || (major === 6 && minor >= 4) ? false : 'before 6.4 the kernel counts roughly');

test('a map takes no more memory than is computed for it', { skip }, () => {
  const cpus = possibleCpus();
  for (const name of allowedMapTypes) {
    const type = mapTypeNames.indexOf(name);
    for (const [anyKey, anyValue, anyEntries] of sizes) {
      const isArray = name.endsWith('array');
      const key = keyless.has(name) ? 0 : isArray ? 4 : anyKey;
      const isList = name === 'prog_array' || name === 'perf_event_array';
      const value = name === 'ringbuf' ? 0 : isList ? 4 : anyValue;
      const entries = name === 'ringbuf' ? 4096 * 2 ** Math.ceil(Math.log2(anyEntries)) : anyEntries;
      const computed = mapMemoryBytes(
        { type, keySizeBytes: key, valueSizeBytes: value, maxEntries: entries, flags: 0 },
        cpus,
      );
      assert.ok(computed !== undefined);
      const kernel = counted(type, key, value, entries);
      const what = `${name} ${key} ${value} ${entries}: ${computed} for ${kernel}`;
      assert.ok(computed >= kernel, what);
      // A trie begins empty.
      if (name !== 'lpm_trie') assert.ok(computed <= 2 * kernel + 3 * 4096, what);
    }
  }
});

test('an entry that is allocated alone takes a power of two', () => {
  for (const name of ['hash', 'percpu_hash']) {
    const of = (flags: number, key: number): number =>
      mapMemoryBytes(
        { type: mapTypeNames.indexOf(name), keySizeBytes: key, valueSizeBytes: 8, maxEntries: 1000, flags },
        1,
      ) ?? 0;
    // struct htab_elem has 48 bytes; half of the memory of such an entry is empty.
    assert.ok(of(BPF_F_NO_PREALLOC, 1024) >= 1000 * 2048, name);
    assert.ok(of(0, 1024) < 1000 * 1200, name);
  }
});

test('types that are not allowed have no size', () => {
  for (const name of ['stack_trace', 'array_of_maps', 'sk_storage', 'struct_ops', 'arena'])
    assert.equal(
      mapMemoryBytes(
        { type: mapTypeNames.indexOf(name), keySizeBytes: 4, valueSizeBytes: 4, maxEntries: 1, flags: 0 },
        1,
      ),
      undefined,
    );
});
