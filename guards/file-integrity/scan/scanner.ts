/**
 * Our own engine: looks at the files that configurations select, and gives what it saw in the order of the paths.
 */
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import type { AideConf } from '../aide-conf/conf.ts';
import type { Entry } from '../model/entry.ts';
import type { ScanProgress } from '../provider/provider.ts';
import type { InlineWalk } from './inline-walk.ts';
import { batchOf, type ScanBatch, ScanRun } from './scan-run.ts';
import { type PathToLookAt, tasksFor } from './scan-path.ts';
import { RunState } from './shared-state.ts';
import { plainConf, type PlainConf, type Task } from './tasks.ts';
import { ThreadPool, type ThreadPoolOptions } from './thread-pool.ts';

export interface ScanOptions {
  readonly signal: AbortSignal;
  /** Called several times a second, and once at the end. */
  readonly onProgress?: ((progress: ScanProgress) => void) | undefined;
  /** If known, for the progress. */
  readonly expected?: { readonly files: number; readonly bytes: number } | undefined;
  /**
   * The content of larger files is left out: their entries have no checksums, and a problem with {@link largeCode}
   * follows. Default: no limit.
   */
  readonly largeBytes?: number | undefined;
  /** This scanner gets no more requests: its threads end while the reader finishes. */
  readonly isLast?: boolean;
}

/** Dispose it to end its threads; they start with the first scan. */
export class Scanner implements AsyncDisposable {
  readonly #pool: ThreadPool;
  readonly #plain = new WeakMap<AideConf, PlainConf>();
  #inline: { readonly conf: AideConf; readonly walk: InlineWalk } | undefined;
  #runs = 0;
  #isDisposed = false;

  /**
   * @param of what it is like, or threads that may have started already and are its own from now on
   * @throws RampartError INPUT for a number that cannot be
   */
  constructor(of: ThreadPoolOptions | ThreadPool) {
    this.#pool = of instanceof ThreadPool ? of : new ThreadPool(of);
  }

  /**
   * One pass over the files for all these configurations: a file that several select is read once. One stream
   * for each, which begin with the first that is read; read them side by side, since one that is not read
   * holds up the others.
   *
   * Entries are sorted by the bytes of their paths; a problem comes after the entry of its path. A file that
   * is gone at its turn is omitted.
   *
   * @throws (the streams) RampartError NOT_FOUND, SYSTEM; the reason of the signal
   */
  scan(confs: readonly AideConf[], options: ScanOptions): readonly AsyncIterable<ScanBatch>[] {
    const run = this.#run(confs, [{ directory: '' }], options);
    return confs.map((_, at) => run.stream(at));
  }

  /**
   * Only these paths, as a scan would see them. One that is gone, or not selected, is left out; of a directory with `below`
   * also what is in it. A few small files are examined in this thread, before the first batch.
   *
   * @param paths with the prefix of the root
   * @throws (the stream) as {@link scan}
   */
  async *look(
    conf: AideConf,
    paths: readonly PathToLookAt[],
    options: ScanOptions,
  ): AsyncGenerator<ScanBatch, void, undefined> {
    const tasks = tasksFor(paths, this.#pool.root.prefix);
    // Imported here, because a scan has it in its threads only: a check starts sooner without it.
    const { InlineWalk } = await import('./inline-walk.ts');
    if (this.#inline?.conf !== conf) {
      this.#inline = { conf, walk: new InlineWalk(this.#pool, this.#plainConf(conf)) };
    }
    const { walk } = this.#inline;
    let at = 0;
    let rest: readonly Task[] = [];
    for (; at < Math.min(tasks.length, InlineWalk.maxTasks) && rest.length === 0; at++) {
      options.signal.throwIfAborted();
      const result = walk.run(tasks[at]);
      ({ rest } = result);
      for (const part of result.parts[0] ?? []) {
        yield batchOf(part);
      }
    }
    rest = [...rest, ...tasks.slice(at)];
    if (rest.length > 0) yield* this.#run([conf], rest, options).stream(0);
  }

  /**
   * For {@link Comparison}: the checksums of the first bytes of a file; undefined if it is another by now, or shorter.
   *
   * @throws RampartError SYSTEM; the reason of the signal
   */
  async digestStart(
    entry: Entry,
    sizeBytes: number,
    signal?: AbortSignal,
  ): Promise<Pick<Entry, 'sha256' | 'sha512'> | undefined> {
    signal?.throwIfAborted();
    const run = this.#nextRun();
    const state = new RunState(this.#pool.size);
    const ended = Promise.withResolvers<never>();
    const onAbort = (): void => ended.reject(signal?.reason);
    signal?.addEventListener('abort', onAbort, { once: true });
    try {
      const answer = await Promise.race([
        this.#pool.ask(
          this.#pool.free() ?? 0,
          { do: 'digest', run, start: { path: entry.path, inode: entry.inode, sizeBytes } },
          { do: 'begin', run, confs: [], state: state.buffer },
        ),
        ended.promise,
      ]);
      return 'digests' in answer ? answer.digests : undefined;
    } finally {
      signal?.removeEventListener('abort', onAbort);
      state.stop();
      this.#pool.end(run);
    }
  }

  /** Threads that run now. */
  get runningThreads(): number {
    return this.#pool.running;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isDisposed = true;
    this.#inline = undefined;
    await this.#pool[Symbol.asyncDispose]();
  }

  #run(confs: readonly AideConf[], tasks: readonly Task[], options: ScanOptions): ScanRun {
    return new ScanRun({
      run: this.#nextRun(),
      pool: this.#pool,
      confs: confs.map((conf) => this.#plainConf(conf)),
      tasks,
      ...options,
    });
  }

  #nextRun(): number {
    if (this.#isDisposed) {
      throw new RampartError(errorCodes.DISPOSED, { what: 'a scanner was used after it was disposed' });
    }
    return ++this.#runs;
  }

  #plainConf(conf: AideConf): PlainConf {
    let plain = this.#plain.get(conf);
    if (plain === undefined) this.#plain.set(conf, (plain = plainConf(conf)));
    return plain;
  }
}
