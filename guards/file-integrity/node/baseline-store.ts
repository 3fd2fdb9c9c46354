/**
 * The files of one job: its baseline, the previous ones, and a note which one is the latest.
 *
 * ```
 * baseline                                the current baseline
 * baseline.next                           the next one, being written
 * baseline.backup-20261121T181705.123Z    a previous one, named by the time when it was replaced
 * last-baseline                           see ../signed-notes/last-baseline.ts
 * ```
 */
import { copyFile, link, lstat, open, readdir, rename, stat, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { BaselineError } from '../database/baseline-error.ts';
import { type Baseline, openBaseline } from '../database/read-baseline.ts';
import {
  writeBaseline,
  type WriteBaselineOptions,
  type WrittenBaseline,
} from '../database/write-baseline.ts';
import type { IntegrityJob } from '../provider/provider.ts';
import {
  checkLast,
  readLastBaseline,
  writeLastBaseline,
  type LastBaseline,
} from '../signed-notes/last-baseline.ts';

type StoreJob = Pick<IntegrityJob, 'directory' | 'signingKey' | 'maxBackups' | 'newest'>;

const backupPrefix = 'baseline.backup-';

export class BaselineStore {
  readonly #job: StoreJob;

  constructor(job: StoreJob) {
    this.#job = job;
  }

  get path(): string {
    return this.#at('baseline');
  }

  /**
   * The current baseline, complete and signed; undefined if there never was one.
   *
   * @throws BaselineError; RampartError SYSTEM
   */
  async open(): Promise<Baseline | undefined> {
    const note = await this.#readNote();
    let baseline: Baseline;
    try {
      baseline = await openBaseline(this.path, this.#job.signingKey);
    } catch (error) {
      if (!(error instanceof BaselineError) || error.fault !== 'missing') throw error;
      if (note?.digest === undefined) return undefined;
      throw new BaselineError('missing', this.path, 'it existed before and is gone', error);
    }
    try {
      await this.#check(baseline, note);
      return baseline;
    } catch (error) {
      await baseline[Symbol.asyncDispose]();
      throw error;
    }
  }

  /**
   * Writes a baseline and replaces the previous one, which becomes a backup even if it is invalid.
   *
   * @param onWritten called before the baseline is replaced; if it throws, nothing is replaced
   * @throws as `writeBaseline`; the previous baseline is unchanged
   */
  async replace(
    { header: given, ...options }: Omit<WriteBaselineOptions, 'path' | 'key'>,
    onWritten: (written: WrittenBaseline) => Promise<void> = async () => undefined,
  ): Promise<WrittenBaseline> {
    const { signingKey: key, newest } = this.#job;
    const header = { ...given, madeAtMs: newest?.nextMs(given.madeAtMs) ?? given.madeAtMs };
    const next = this.#at('baseline.next');
    // A file left by a killed process takes up space that this one needs.
    await this.#remove(next);
    try {
      const written = await writeBaseline({ ...options, header, path: next, key });
      const before = await this.#readNote().catch(() => undefined);
      await onWritten(written);
      options.signal?.throwIfAborted();
      await this.#attempt(async () => {
        const digest = before?.digest;
        await this.#note({ ...(digest !== undefined && { digest }), next: written.digest });
        await this.#backUp();
        await rename(next, this.path);
        await this.#syncDirectory();
      });
      newest?.made({ provider: 'native', digest: written.digest, madeAtMs: header.madeAtMs });
      // The baseline is already in effect. If the note cannot be written now, it is written when it is next read.
      await this.#note({ digest: written.digest }).catch(() => undefined);
      await this.#prune().catch(() => undefined);
      return written;
    } catch (error) {
      await this.#remove(next);
      throw error;
    }
  }

  /** Names of the backups, the oldest first. */
  async backups(): Promise<string[]> {
    const names = await readdir(this.#job.directory);
    return names.filter((name) => name.startsWith(backupPrefix)).sort();
  }

  async #check(baseline: Baseline, note: LastBaseline | undefined): Promise<void> {
    const { digest, header } = baseline;
    checkLast(this.path, digest, note, header.madeAtMs);
    this.#job.newest?.check(this.path, { provider: 'native', digest, madeAtMs: header.madeAtMs });
    if (note.next === undefined) return;
    // The process was killed before it could write this note.
    await this.#note({ digest }).catch(() => undefined);
  }

  #readNote(): Promise<LastBaseline | undefined> {
    return readLastBaseline(this.#at('last-baseline'), this.#job.signingKey);
  }

  #note(note: LastBaseline): Promise<void> {
    return writeLastBaseline(this.#at('last-baseline'), note, this.#job.signingKey);
  }

  /** Links the baseline under a second name, so that it exists at every moment. */
  async #backUp(): Promise<void> {
    if (this.#job.maxBackups <= 0) return;
    const old = await lstat(this.path).catch(() => undefined);
    if (old?.isFile() !== true) return;
    const names = await this.backups();
    for (const name of names) {
      // Left by a process that was killed here.
      if ((await stat(this.#at(name))).ino === old.ino) await this.#remove(this.#at(name));
    }
    const name = this.#at(nextBackupName(names.at(-1), Date.now()));
    await link(this.path, name).catch(() => copyFile(this.path, name));
  }

  async #prune(): Promise<void> {
    const names = await this.backups();
    const keep = Math.max(0, this.#job.maxBackups);
    for (const name of names.slice(0, Math.max(0, names.length - keep))) await this.#remove(this.#at(name));
  }

  async #syncDirectory(): Promise<void> {
    await using handle = await open(this.#job.directory, 'r');
    await handle.sync();
  }

  async #remove(path: string): Promise<void> {
    await unlink(path).catch(() => undefined);
  }

  async #attempt(action: () => Promise<void>): Promise<void> {
    try {
      await action();
    } catch (error) {
      if (error instanceof RampartError || !(error instanceof Error) || !('code' in error)) throw error;
      const isFull = error.code === 'ENOSPC' || error.code === 'EDQUOT';
      throw new RampartError(isFull ? errorCodes.FULL : errorCodes.SYSTEM, {
        what: `cannot replace the baseline ${this.path}`,
        why: error.message,
        next: 'The baseline is unchanged',
        cause: error,
      });
    }
  }

  #at(name: string): string {
    return join(this.#job.directory, name);
  }
}

/** The name of the next backup. Names sort by time, even if the clock was set back. */
export function nextBackupName(last: string | undefined, nowMs: number): string {
  let atMs = nowMs;
  const lastMs = last === undefined ? Number.NaN : timeOf(last);
  if (lastMs >= atMs) atMs = lastMs + 1;
  return `${backupPrefix}${new Date(atMs).toISOString().replace(/[-:]/g, '')}`;
}

function timeOf(name: string): number {
  const match = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d\.\d{3}Z)$/.exec(name.slice(backupPrefix.length));
  if (match === null) return Number.NaN;
  const [, year = '', month = '', day = '', hour = '', minute = '', second = ''] = match;
  return Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}`);
}
