import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { RampartError } from '../../errors/errors.ts';
import * as fc from '../../testing/fast-check.fixture.ts';
import { entryPointOffset } from './elf.ts';

test('the entry point of a program is where readelf says', (t) => {
  const readelf = spawnSync('readelf', ['-hlW', process.execPath], { encoding: 'utf8' });
  if (readelf.status !== 0) return t.skip('readelf is not installed');
  const entry = BigInt(/Entry point address:\s+(0x[0-9a-f]+)/.exec(readelf.stdout)?.[1] ?? 0);
  const segments = readelf.stdout.matchAll(/LOAD\s+(0x\w+)\s+(0x\w+)\s+0x\w+\s+(0x\w+)/g);
  const [, offset, address] =
    [...segments].find(
      ([, , from, size]) => entry >= BigInt(from ?? 0) && entry < BigInt(from ?? 0) + BigInt(size ?? 0),
    ) ?? [];
  assert.equal(entryPointOffset(process.execPath), entry - BigInt(address ?? 0) + BigInt(offset ?? 0));
  return undefined;
});

test('any bytes are an ELF file or a decode error, never more', () => {
  const directory = mkdtempSync(join(tmpdir(), 'rampart-elf-'));
  const file = join(directory, 'file');
  const start = readFileSync(process.execPath).subarray(0, 1024);
  const edit = fc.tuple(fc.nat({ max: 700 }), fc.nat({ max: 255 }));
  try {
    fc.assert(
      fc.property(fc.array(edit, { maxLength: 12 }), fc.nat({ max: 1024 }), (edits, length) => {
        const bytes = Buffer.from(start.subarray(0, length));
        for (const [at, value] of edits) if (at < bytes.length) bytes[at] = value;
        writeFileSync(file, bytes);
        try {
          assert.ok(entryPointOffset(file) >= 0n);
        } catch (error) {
          assert.ok(error instanceof RampartError && error.code === 'RAMPART_DECODE', String(error));
        }
      }),
      { numRuns: 300 },
    );
  } finally {
    rmSync(directory, { recursive: true });
  }
});
