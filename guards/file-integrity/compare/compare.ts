/** Compares a baseline with the current files: reads two streams, sorted by the bytes of paths, in parallel. */
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { type AttributeSet, checksums, setOf } from '../model/attributes.ts';
import { BatchCursor, type Batches } from '../model/batches.ts';
import { changedAttributes, sameBytes } from './changed-attributes.ts';
import { EntryBlock } from '../database/entry-block.ts';
import type { ByteString, Entry, ScanProblem } from '../model/entry.ts';
import { MovedFiles, type MovedPair, type Pair } from './moved-files.ts';
import { UnreadPaths } from './unread-paths.ts';

export type Difference =
  | { readonly kind: 'added'; readonly path: ByteString; readonly now: Entry }
  | { readonly kind: 'removed'; readonly path: ByteString; readonly old: Entry }
  /** `changed`: the attributes that both entries have and that differ. */
  | {
      readonly kind: 'changed';
      readonly path: ByteString;
      readonly old: Entry;
      readonly now: Entry;
      readonly changed: AttributeSet;
    }
  /** Nothing differs, but other attributes are recorded now: the configuration has changed. */
  | { readonly kind: 'redefined'; readonly path: ByteString; readonly old: Entry; readonly now: Entry }
  /** The file could not be read, so neither it nor, if it is a directory, its contents can be compared. */
  | { readonly kind: 'unread'; readonly path: ByteString; readonly problem: ScanProblem };

export interface CompareOptions {
  readonly old: Batches<Entry>;
  /**
   * The current files. A problem follows the entry of its path, if there is one; for a directory that can no longer be
   * opened, it may be among the entries below the directory. A file that disappears before it is read is not a problem:
   * leave it out, and it counts as removed.
   */
  readonly now: Batches<Entry | ScanProblem>;
  /**
   * All attributes that occur in old entries. Without `I` among them, no difference has to wait for the rest of its
   * directory.
   */
  readonly oldAttributes: AttributeSet;
  /**
   * Computes the current checksums of the first bytes of a file, for one that was `growing`. Without this function or
   * its result, a file that has grown counts as changed.
   */
  readonly digestStart?: (
    entry: Entry,
    sizeBytes: number,
    signal?: AbortSignal,
  ) => Promise<Pick<Entry, 'sha256' | 'sha512'> | undefined>;
  readonly signal?: AbortSignal;
}

export interface ComparisonTotals {
  entries: number;
  /** Number of entries of the baseline that could not be compared. */
  unread: number;
}

const batchSize = 256;
const growing = setOf('growing');
const allowedNew = setOf('ANF');
const allowedGone = setOf('ARF');
const followsInode = setOf('I');

/** Iterate over it once; after that, `totals` is complete. */
export class Comparison implements AsyncIterable<readonly Difference[]> {
  readonly totals: ComparisonTotals = { entries: 0, unread: 0 };
  readonly #options: CompareOptions;
  readonly #moved: MovedFiles | undefined;
  readonly #unread = new UnreadPaths();
  #batch: Difference[] = [];

  constructor(options: CompareOptions) {
    this.#options = options;
    if ((options.oldAttributes & followsInode) !== 0) this.#moved = new MovedFiles(this.#changed);
  }

  /**
   * Yields the differences, sorted by path. Those of a directory with files that may have moved come at the end of the
   * directory.
   *
   * @throws RampartError INPUT if a stream is not sorted; the errors of the streams; the reason of the signal
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<readonly Difference[], void, undefined> {
    const { signal } = this.#options;
    await using olds = new BatchCursor(this.#options.old);
    await using nows = new BatchCursor(this.#options.now);
    await this.#load(olds, true, nows, true);
    while (olds.current !== undefined || nows.current !== undefined) {
      const old = olds.current;
      const item = nows.current;
      const isNow = item !== undefined && (old === undefined || item.path <= old.path);
      const isOld = old !== undefined && (!isNow || item.path === old.path);
      const before = isOld ? old : undefined;
      if (!isNow) {
        if (old === undefined) break;
        if (this.#unread.covers(old.path)) this.totals.unread++;
        else await this.#pair({ path: old.path, old, now: undefined, changed: 0 });
      } else if (isProblem(item)) {
        this.#problem(item);
        if (isOld) this.totals.unread++;
      } else {
        this.totals.entries++;
        // Nearly all entries are unchanged: avoid an await for these.
        if (
          before === undefined ||
          before.attributes !== item.attributes ||
          changedAttributes(before, item) !== 0
        ) {
          await this.#differs(before, item);
        }
      }
      const oldEnds = isOld && !olds.advance();
      const nowEnds = isNow && !nows.advance();
      if (oldEnds || nowEnds) await this.#load(olds, oldEnds, nows, nowEnds);
      if (isOld) throwUnlessAfter('the baseline', old, olds.current);
      if (isNow) throwUnlessAfter('the current state', item, nows.current);
      if (this.#batch.length >= batchSize) {
        signal?.throwIfAborted();
        yield this.#take();
      }
    }
    signal?.throwIfAborted();
    for (const pair of (await this.#moved?.end()) ?? []) this.#notify(pair);
    if (this.#batch.length > 0) yield this.#take();
  }

  async #load(
    olds: BatchCursor<Entry>,
    oldEnds: boolean,
    nows: BatchCursor<Entry | ScanProblem>,
    nowEnds: boolean,
  ): Promise<void> {
    let [isOld, isNow] = [oldEnds, nowEnds];
    for (;;) {
      if (isOld) isOld = await olds.load();
      if (isNow) isNow = await nows.load();
      const old = olds.whole;
      const now = nows.whole;
      // A scan of the same files produces the same blocks, and blocks with the same bytes have the same entries.
      if (!(old instanceof EntryBlock && now instanceof EntryBlock && now.equals(old))) break;
      this.totals.entries += now.facts.count;
      isOld = isNow = true;
    }
    if (isOld) olds.advance();
    if (isNow) nows.advance();
  }

  #take(): readonly Difference[] {
    const batch = this.#batch;
    this.#batch = [];
    return batch;
  }

  #problem(problem: ScanProblem): void {
    this.#unread.add(problem.path);
    this.#batch.push({ kind: 'unread', path: problem.path, problem });
  }

  async #differs(old: Entry | undefined, now: Entry): Promise<void> {
    const changed = old === undefined ? 0 : await this.#changed(old, now);
    if (changed !== 0 || old?.attributes !== now.attributes)
      await this.#pair({ path: now.path, old, now, changed });
  }

  readonly #changed = async (old: Entry, now: Entry): Promise<AttributeSet> => {
    const changed = changedAttributes(old, now);
    if ((changed & checksums) === 0 || (old.attributes & growing) === 0) return changed;
    return (await this.#hasGrown(old, now)) ? changed & ~checksums : changed;
  };

  /** Whether the file still begins with its old content. */
  async #hasGrown(old: Entry, now: Entry): Promise<boolean> {
    const { digestStart, signal } = this.#options;
    if (digestStart === undefined || old.sizeBytes >= now.sizeBytes) return false;
    if (old.sizeBytes === 0) return true;
    const start = await digestStart(now, old.sizeBytes, signal);
    if (start === undefined) return false;
    const both = old.attributes & now.attributes;
    return (
      ((both & setOf('sha256')) === 0 || sameBytes(start.sha256, old.sha256)) &&
      ((both & setOf('sha512')) === 0 || sameBytes(start.sha512, old.sha512))
    );
  }

  async #pair(pair: Pair): Promise<void> {
    if (this.#moved === undefined) return this.#notify({ ...pair, movedIn: false, movedOut: false });
    for (const done of await this.#moved.add(pair)) this.#notify(done);
  }

  #notify({ path, old, now, changed, movedIn, movedOut }: MovedPair): void {
    const isNew = now !== undefined && !movedIn && (now.attributes & allowedNew) === 0;
    const isGone = old !== undefined && !movedOut && (old.attributes & allowedGone) === 0;
    if (old === undefined || now === undefined || movedIn || movedOut) {
      // The file with this name may have moved away and another one moved here: the moved files are not reported as
      // added or removed.
      if (now !== undefined && isNew) this.#batch.push({ kind: 'added', path, now });
      else if (old !== undefined && isGone) this.#batch.push({ kind: 'removed', path, old });
      return;
    }
    this.#batch.push(
      changed === 0 ? { kind: 'redefined', path, old, now } : { kind: 'changed', path, old, now, changed },
    );
  }
}

function throwUnlessAfter(
  which: string,
  before: Entry | ScanProblem,
  next: Entry | ScanProblem | undefined,
): void {
  if (next === undefined || next.path > before.path) return;
  // All problems of a path are reported; its entry is not affected. No path in a directory sorts after the directory
  // plus '0', the character after '/'.
  if (isProblem(next) && (next.path === '/' || before.path < `${next.path}0`)) return;
  throw unsorted(which, before.path, next.path);
}

function isProblem(item: Entry | ScanProblem): item is ScanProblem {
  return 'code' in item;
}

function unsorted(which: string, before: string, after: string): RampartError {
  return new RampartError(errorCodes.INPUT, {
    what: 'cannot compare the baseline with the current files',
    why: `${which} is not sorted: ${JSON.stringify(after)} comes after ${JSON.stringify(before)}`,
    next: 'This is a bug in Rampart: please report it',
  });
}
