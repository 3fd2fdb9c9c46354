/**
 * Who took what into the baseline of a job, and why: a line of JSON for each time, signed, and each with the digest of the
 * line before it, so that none can be taken out from the middle unseen.
 */
import { hash } from 'node:crypto';
import { open, rename, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { ByteString } from '../model/entry.ts';
import type { Acceptance, IntegrityJob } from '../provider/provider.ts';
import { seal } from './note-file.ts';

export interface AcceptanceRecord {
  /** ms since 1970. */
  readonly atMs: number;
  readonly author: string;
  readonly reason: string;
  readonly request?: string;
  /** Digest of the baseline that resulted. A kill may have prevented it: then the record occurs twice. */
  readonly baseline: string;
  /** How many findings; the first of them by name. */
  readonly count: number;
  readonly paths: readonly string[];
}

/** How many paths of one record are listed. */
const maxNamedPaths = 1000;
/** Beyond it, the log is renamed to `accepted.log.1`, replacing the previous one. */
const maxBytes = 8 * 1024 * 1024;
export const logName = 'accepted.log';
export const purpose = 'acceptance';

/**
 * @param baseline the digest of the one with these paths
 * @throws what the file system says
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
  // A line cut off by a kill is not a record.
  if (end < text.length) await file.truncate(Buffer.byteLength(text.slice(0, end)));
  const last = text.slice(text.lastIndexOf('\n', end - 2) + 1, Math.max(0, end - 1));
  const body = JSON.stringify({ ...record, previous: digestOf(last) });
  await file.appendFile(`${seal(purpose, body, key)}\n`);
  await file.sync();
}

export function digestOf(text: string): string {
  return hash('sha256', text);
}
