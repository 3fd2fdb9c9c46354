/** Recovers what an earlier process left in the directory. */
import { chmodSync, readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';

import { makeDirectories } from '../files/make-directories.ts';
import { errorCodes, fileError, RampartError } from '../errors/errors.ts';
import { parseFileName } from './queue-log.ts';
import { Segment, SET_ASIDE_SUFFIX, setAside } from './segment.ts';
import type { QueueName } from './segment-header.ts';

/** The contents of a directory of queues. */
export interface Contents {
  /** What the queues contain, for error messages and as the suffix of file names: `alerts`. */
  readonly contents: string;
  /**
   * Prefix of the names of a queue's files: 32 hexadecimal digits that follow from its name. Undefined if it
   * is not the name of a queue here.
   */
  readonly keyOf: (name: QueueName) => string | undefined;
}

/** Limit of damaged files that are kept. */
const MAX_SET_ASIDE = 8;

export interface Recovered {
  readonly segment: Segment;
  readonly sequence: number;
}

export interface RecoveryReport {
  /** The segments of each queue, in order. */
  readonly segments: readonly Recovered[];
  readonly tornBytes: number;
  /** Number of files whose queue is unknown. They were set aside. */
  readonly unreadable: number;
}

/**
 * Creates the directory, or checks the existing one.
 *
 * @throws {RampartError} `INPUT` for a directory of another user, `FULL` or `SYSTEM` when it cannot be made.
 */
export function prepareDirectory(path: string, contents: string): void {
  try {
    makeDirectories(path);
    const { mode, uid } = statSync(path);
    const own = process.geteuid?.();
    if (own !== undefined && uid !== own) {
      throw new RampartError(errorCodes.INPUT, {
        what: `cannot queue ${contents} in ${path}`,
        why: `it belongs to user ${uid}, and this process runs as ${own}`,
        next: 'Use a separate directory',
      });
    }
    // Queued records reveal what is watched and who did what: only the owner may read them.
    if ((mode & 0o077) !== 0) chmodSync(path, 0o700);
  } catch (error) {
    throw asDirectoryError(path, contents, error);
  }
}

/**
 * Opens all queue files. Unusable files are set aside or left, but never prevent the start.
 *
 * @throws {RampartError} `SYSTEM` when the directory itself cannot be read.
 */
export function recoverSegments(directory: string, { contents, keyOf }: Contents): RecoveryReport {
  let names: string[];
  try {
    names = readdirSync(directory).sort();
  } catch (error) {
    throw asDirectoryError(directory, contents, error);
  }
  const segments: Recovered[] = [];
  let tornBytes = 0;
  let unreadable = 0;
  for (const name of names) {
    const parts = parseFileName(name, `.${contents}`);
    if (parts === undefined) continue;
    const path = join(directory, name);
    try {
      if (statSync(path).size === 0) {
        // The process ended before anything was in it.
        rmSync(path);
        continue;
      }
      const found = Segment.recover(path);
      if (found !== undefined && keyOf(found.segment.name) === parts.key) {
        found.segment.close();
        segments.push({ segment: found.segment, sequence: parts.sequence });
        tornBytes += found.tornBytes;
        continue;
      }
      found?.segment.close();
    } catch {
      // Treated like a file whose header is damaged.
    }
    unreadable++;
    trySetAside(path);
  }
  pruneSetAside(directory);
  return { segments, tornBytes, unreadable };
}

/** Deletes all but the newest files that were set aside. */
export function pruneSetAside(directory: string): void {
  try {
    const kept = readdirSync(directory)
      .filter((name) => name.endsWith(SET_ASIDE_SUFFIX))
      .map((name) => ({ path: join(directory, name), ageMs: -statSync(join(directory, name)).mtimeMs }))
      .sort((one, other) => one.ageMs - other.ageMs);
    for (const { path } of kept.slice(MAX_SET_ASIDE)) rmSync(path, { force: true });
  } catch {
    // Tried again when the next file is set aside.
  }
}

function trySetAside(path: string): void {
  try {
    setAside(path);
  } catch {
    // The file stays, and the next process counts it again.
  }
}

function asDirectoryError(path: string, contents: string, error: unknown): RampartError {
  if (error instanceof RampartError) return error;
  return fileError(`cannot queue ${contents} in ${path}`, error, 'Name a writable directory');
}
