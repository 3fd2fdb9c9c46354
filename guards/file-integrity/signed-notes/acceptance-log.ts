/**
 * Records who accepted which findings into the baseline of a job, and why. Each acceptance is a signed line of JSON
 * that contains the digest of the previous line, so that removing a line from the middle is detected.
 */
import { hash } from 'node:crypto';
import { open, rename, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { ByteString } from '../model/entry.ts';
import type { Acceptance, IntegrityJob } from '../provider/provider.ts';
import { seal } from './note-file.ts';

export interface AcceptanceRecord {
  /** In ms since 1970. */
  readonly atMs: number;
  readonly author: string;
  readonly reason: string;
  readonly request?: string;
  /**
   * Digest of the new baseline. If the process is killed before it replaces the baseline, the acceptance is repeated,
   * and recorded twice.
   */
  readonly baseline: string;
  /** Number of accepted findings; `paths` has the first ones. */
  readonly count: number;
  readonly paths: readonly string[];
}

/** Limit of the paths listed in a record. */
const maxNamedPaths = 1000;
/** Above this size, the log is renamed to `accepted.log.1`, replacing the previous one. */
const maxBytes = 8 * 1024 * 1024;
export const logName = 'accepted.log';
export const purpose = 'acceptance';

/**
 * Appends a record.
 *
 * @param baseline digest of the baseline that contains the accepted paths
 * @throws errors of the file system
 */
export async function appendAcceptance(
  { directory, signingKey: key }: Pick<IntegrityJob, 'directory' | 'signingKey'>,
  { author, reason, request }: Acceptance,
  paths: readonly ByteString[],
  baseline: string,
): Promise<void> {
  const record: AcceptanceRecord = {
    ...{ atMs: Date.now(), author, reason, baseline, count: paths.length },
    ...(request !== undefined && { request }),
    paths: paths.slice(0, maxNamedPaths),
  };
  const path = join(directory, logName);
  const size = await stat(path).then(
    (found) => found.size,
    () => 0,
  );
  if (size > maxBytes) await rename(path, `${path}.1`);
  await using file = await open(path, 'a+', 0o600);
  const text = await file.readFile('utf8');
  const end = text.lastIndexOf('\n') + 1;
  // Remove an incomplete line, left by a process that was killed while it wrote.
  if (end < text.length) await file.truncate(Buffer.byteLength(text.slice(0, end)));
  const last = text.slice(text.lastIndexOf('\n', end - 2) + 1, Math.max(0, end - 1));
  const body = JSON.stringify({ ...record, previous: digestOf(last) });
  await file.appendFile(`${seal(purpose, body, key)}\n`);
  await file.sync();
}

export function digestOf(text: string): string {
  return hash('sha256', text);
}
