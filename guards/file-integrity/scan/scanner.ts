/** Our own engine: examines the files that configurations select, and returns the results in the order of paths. */
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
  /** What to expect, if known; for the progress. */
  readonly expected?: { readonly files: number; readonly bytes: number } | undefined;
  /**
   * Larger files are not read: their entries have no checksums, and a problem with {@link largeCode} follows the entry.
   * Default: no limit.
   */
  readonly largeBytes?: number | undefined;
  /** Whether this scanner gets no more requests: its threads then end while the results are still being read. */
  readonly isLast?: boolean;
}

/** Its threads start with the first scan. Dispose it to end them. */
export class Scanner implements AsyncDisposable {
  readonly #pool: ThreadPool;
  readonly #plain = new WeakMap<AideConf, PlainConf>();
  #inline: { readonly conf: AideConf; readonly walk: InlineWalk } | undefined;
  #runs = 0;
  #isDisposed = false;

  /**
   * @param of options, or threads that may already have been started and belong to the scanner from now on
   * @throws RampartError INPUT for an invalid number
   */
  constructor(of: ThreadPoolOptions | ThreadPool) {
    this.#pool = of instanceof ThreadPool ? of : new ThreadPool(of);
  }

  /**
   * Scans for all these configurations in one pass: a file that several select is read once. There is one stream for
   * each configuration. The scan starts when the first stream is read; read all of them concurrently, since one that is
   * not read blocks the others.
   *
   * Entries are sorted by the bytes of their paths; a problem follows the entry of its path. A file that disappears
   * before it is read is omitted.
   *
   * @throws (the streams) RampartError NOT_FOUND, SYSTEM; the reason of the signal
   */
  scan(confs: readonly AideConf[], options: ScanOptions): readonly AsyncIterable<ScanBatch>[] {
    const run = this.#run(confs, [{ directory: '' }], options);
    return confs.map((_, at) => run.stream(at));
  }

  /**
   * Examines only these paths, with the same result as a scan. Paths that do not exist or are not selected are left
   * out; for a directory with `below`, everything below it is included. A few small files are examined in this thread,
   * before the first batch.
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
    // Imported only here: scans need it only in threads, and a check starts faster without it.
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
   * The checksums of the first bytes of a file, for {@link Comparison}; undefined if the file was replaced or is
   * shorter.
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

  /** Number of running threads. */
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
