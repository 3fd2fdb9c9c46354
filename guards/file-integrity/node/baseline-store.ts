/**
 * The files of one job: its baseline, which one is the last, those before it.
 *
 * ```
 * baseline                                the one that counts
 * baseline.next                           being made
 * baseline.backup-20261121T181705.123Z    before it, by the time when it was replaced
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
   * The last baseline, complete and signed; undefined if there never was one.
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
   * Writes a baseline and replaces the previous one by it, whatever that is, which becomes a backup.
   *
   * @param onWritten called before it takes the place; if it throws, nothing changes
   * @throws as `writeBaseline`; the previous one is unchanged
   */
  async replace(
    { header: given, ...options }: Omit<WriteBaselineOptions, 'path' | 'key'>,
    onWritten: (written: WrittenBaseline) => Promise<void> = async () => undefined,
  ): Promise<WrittenBaseline> {
    const { signingKey: key, newest } = this.#job;
    const header = { ...given, madeAtMs: newest?.nextMs(given.madeAtMs) ?? given.madeAtMs };
    const next = this.#at('baseline.next');
    // Files left by a kill take space that this one needs.
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
      // The baseline counts already. A note that cannot be written now is written when it is next read.
      await this.#note({ digest: written.digest }).catch(() => undefined);
      await this.#prune().catch(() => undefined);
      return written;
    } catch (error) {
      await this.#remove(next);
      throw error;
    }
  }

  /** The names of the backups, the oldest first. */
  async backups(): Promise<string[]> {
    const names = await readdir(this.#job.directory);
    return names.filter((name) => name.startsWith(backupPrefix)).sort();
  }

  async #check(baseline: Baseline, note: LastBaseline | undefined): Promise<void> {
    const { digest, header } = baseline;
    checkLast(this.path, digest, note, header.madeAtMs);
    this.#job.newest?.check(this.path, { provider: 'native', digest, madeAtMs: header.madeAtMs });
    if (note.next === undefined) return;
    // A kill has come in between.
    await this.#note({ digest }).catch(() => undefined);
  }

  #readNote(): Promise<LastBaseline | undefined> {
    return readLastBaseline(this.#at('last-baseline'), this.#job.signingKey);
  }

  #note(note: LastBaseline): Promise<void> {
    return writeLastBaseline(this.#at('last-baseline'), note, this.#job.signingKey);
  }

  /** Links it under a second name, so that there is a baseline at every moment. */
  async #backUp(): Promise<void> {
    if (this.#job.maxBackups <= 0) return;
    const old = await lstat(this.path).catch(() => undefined);
    if (old?.isFile() !== true) return;
    const names = await this.backups();
    for (const name of names) {
      // Left by a kill.
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

/** Sorted by their names they are sorted by time, even if the clock was put back. */
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
