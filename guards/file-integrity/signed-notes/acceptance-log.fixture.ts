import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { VerifyingKey } from '../database/signature.ts';
import { type AcceptanceRecord, digestOf, logName, purpose } from './acceptance-log.ts';
import { unseal } from './note-file.ts';

/**
 * The records, empty without a log, and its errors; the last line may be cut off by a kill, which is not an
 * error.
 */
export async function readAcceptances(
  directory: string,
  key: VerifyingKey,
): Promise<{ readonly records: readonly AcceptanceRecord[]; readonly faults: readonly string[] }> {
  const records: AcceptanceRecord[] = [];
  const faults: string[] = [];
  const text = await readFile(join(directory, logName), 'utf8').catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return '';
    throw error;
  });
  const lines = text.split('\n');
  lines.pop();
  let before = '';
  for (const [at, line] of lines.entries()) {
    const body = unseal(purpose, line, key);
    if (body === undefined) faults.push(`line ${at + 1} is not signed`);
    else {
      const { previous, ...record } = JSON.parse(body) as AcceptanceRecord & { previous: string };
      if (previous !== digestOf(before)) faults.push(`before line ${at + 1} something is missing`);
      records.push(record);
    }
    before = line;
  }
  return { records, faults };
}
