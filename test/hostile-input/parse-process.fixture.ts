/**
 * Gives each parser its hostile inputs and prints, as a line of JSON each, its peak memory and how it ended.
 * A process of its own, so that the memory is its alone, and a limit ends no other work.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { RampartError } from '../../lib/errors/errors.ts';
import { isDeep } from '../../lib/testing/depth.fixture.ts';
import * as fc from '../../lib/testing/fast-check.fixture.ts';
import { hostileBytes, hostileParsers } from './parsers.fixture.ts';

const MIB = 1024 * 1024;
const wanted = process.argv.slice(2);
const collect = globalThis.gc ?? (() => undefined);
const directory = mkdtempSync(join(tmpdir(), 'rampart-hostile-'));

function memoryMib(field: 'VmHWM' | 'VmRSS'): number {
  const text = readFileSync('/proc/self/status', 'latin1');
  return Number(new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(text)?.[1]) / 1024;
}

/** An error of ours, or a result. */
async function ends(parse: () => unknown): Promise<string> {
  try {
    await parse();
    return 'a result';
  } catch (error) {
    if (error instanceof RampartError) return error.message.slice(0, 200);
    return `not an error of ours: ${error instanceof Error ? error.stack : String(error)}`;
  }
}

try {
  mkdirSync(join(directory, 'etc/aide.d'), { recursive: true });
  for (const { name, worst, start, parse } of hostileParsers) {
    if (wanted.length > 0 && !wanted.includes(name)) continue;
    for (const [at, make] of (isDeep ? worst : worst.slice(0, 1)).entries()) {
      const bytes = make();
      collect();
      const before = memoryMib('VmRSS');
      // Peak memory counts from here: proc_pid_clear_refs(5).
      writeFileSync('/proc/self/clear_refs', '5');
      const end = await ends(() => parse(bytes, directory));
      const tookMib = Math.max(0, memoryMib('VmHWM') - before - bytes.length / MIB);
      process.stdout.write(
        `${JSON.stringify({ name, input: at, inputMib: bytes.length / MIB, tookMib, end })}\n`,
      );
    }
    const property = fc.asyncProperty(hostileBytes(start), async (bytes) => {
      const end = await ends(() => parse(bytes, directory));
      if (end.startsWith('not an error')) throw new Error(`${name}: ${end}`);
    });
    await fc.assert(property, { numRuns: 300 });
  }
} finally {
  rmSync(directory, { recursive: true, force: true });
}
