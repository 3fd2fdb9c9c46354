/** Compares the changed paths of one job with its baseline again, and reports the current differences. */
import { lstatSync } from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type ByteString, defaultLargeBytes, type Entry, isAtOrBelowAny } from '../model/entry.ts';
import type { PathUpdate } from '../results/held-finding.ts';
import { withoutPrefix } from '../scan/scan-path.ts';
import type { ChangedPath } from './change-queue.ts';
import type { FollowedTree } from './followed-tree.ts';
import { MovesWithin } from './moves-within.ts';
import { type Recheck, recheckBelow, recheckPaths } from './recheck.ts';
import { SlowLooks } from './slow-looks.ts';
import type { LiveJob } from './live-job.ts';
import { setOf } from '../model/attributes.ts';
import type { Baseline } from '../database/read-baseline.ts';

/** Maximum number of paths compared together: the scanner reads this many in the current thread. */
const maxTogether = 200;
/** A scan starts once nothing was lost for this long: during a burst of changes it would miss some. */
const calmMs = 1000;
const longestStormMs = 10_000;
/** Maximum number of large files and directories that wait to be compared; if there are more, a scan is faster. */
const maxSlow = 1000;
/** Larger files are compared separately, since reading them takes long. */
const slowBytes = 4 * 1024 * 1024;

/** Disposing it waits for the running comparison. The tree is not affected. */
export class JobWatch implements AsyncDisposable {
  readonly job: LiveJob;
  readonly tree: FollowedTree;
  readonly #linksOf: LinksOf;
  readonly #moves: MovesWithin;
  readonly #stop = new AbortController();
  readonly #slow: SlowLooks;
  /** Separate from `#slow`, so that a very large file does not delay the other slow comparisons. */
  readonly #large: SlowLooks;
  readonly #directory: ByteString;
  #quickLooks: Promise<void> | undefined;
  #scanTimer: NodeJS.Timeout | undefined;
  #scanWhy = '';
  #lostSinceMs: number | undefined;

  constructor(job: LiveJob, tree: FollowedTree) {
    this.job = job;
    this.tree = tree;
    const { directory } = job.root;
    this.#directory = Buffer.from(directory === '/' ? '' : directory, 'utf8').toString('latin1');
    const { signal } = this.#stop;
    const of = { root: job.root, look: this.#lookSlowly, signal };
    this.#slow = new SlowLooks(of);
    this.#large = new SlowLooks(of);
    this.#linksOf = hardLinksIn(job.baseline);
    this.#moves = new MovesWithin(job, tree.selection);
    tree.onQueued = () => this.#wake();
    this.#wake();
  }

  #wake(): void {
    if (this.#stop.signal.aborted) return;
    this.#quickLooks ??= this.#look();
  }

  async #look(): Promise<void> {
    const { queue } = this.tree;
    try {
      // Wait for changes that are reported in the same turn, to compare them together.
      await nextTurn();
      while (!this.#stop.signal.aborted) {
        const loss = this.tree.takeLoss();
        if (loss !== undefined) this.#lose(loss);
        if (queue.size === 0) return;
        // A scan follows when the holdoff ends.
        if (this.job.isHeld()) {
          queue.clear();
          this.job.packages?.forget();
        } else {
          const taken = queue.take(maxTogether);
          await this.#guarded(() => this.#lookAt(taken));
          this.#putBackIfStopped(taken);
        }
        await nextTurn();
      }
    } finally {
      this.#quickLooks = undefined;
    }
  }

  /** Leaves unfinished changes to the tree's next job: a baseline with accepted changes does not include any others. */
  #putBackIfStopped(changes: readonly ChangedPath[]): void {
    if (this.#stop.signal.aborted) this.tree.queue.putBack(changes);
  }

  #lose(why: string): void {
    this.#scanWhy = why;
    const nowMs = performance.now();
    this.#lostSinceMs ??= nowMs;
    clearTimeout(this.#scanTimer);
    const waitMs = Math.min(calmMs, this.#lostSinceMs + longestStormMs - nowMs);
    this.#scanTimer = setTimeout(() => this.#scan(), Math.max(0, waitMs));
    this.#scanTimer.unref();
  }

  #scan(): void {
    this.#lostSinceMs = undefined;
    // While held off, no scan is requested: one follows when the holdoff ends.
    if (!this.job.isHeld()) this.job.requestScan(this.#scanWhy);
  }

  /** If a comparison fails, a scan is requested. */
  async #guarded(look: () => Promise<void>): Promise<void> {
    try {
      await look();
    } catch (err) {
      if (this.#stop.signal.aborted) return;
      this.job.logger.warn({ err }, 'changed files could not be compared');
      this.#lose('changed files could not be compared');
    }
  }

  async #lookAt(changed: readonly ChangedPath[]): Promise<void> {
    const { largeBytes = defaultLargeBytes } = this.job;
    const quick: ChangedPath[] = [];
    for (const change of changed) {
      const sizeBytes = this.#sizeOf(change.path);
      if (sizeBytes > largeBytes) this.#large.add(change);
      else if (change.below || sizeBytes > slowBytes || this.#moves.concerns(change.path))
        this.#slow.add(change);
      else quick.push(change);
    }
    this.#wakeSlow();
    if (quick.length === 0) return;
    quick.sort((a, b) => (a.path < b.path ? -1 : 1));
    const { signal } = this.#stop;
    const paths = quick.map(({ path }) => path);
    const seen = await recheckPaths({ ...this.job, scanner: this.#slow.scanner }, paths, signal);
    if (this.#stop.signal.aborted) return;
    for (const looks of [this.#slow, this.#large]) looks.lookedAt(paths);
    for (const change of quick) await this.#follow(change, seen);
    this.#notify(
      quick.filter(({ path }) => !seen.unread.has(path)),
      seen,
    );
    this.#wakeSlow();
  }

  async #follow(change: ChangedPath, { old, now, unread }: Recheck): Promise<void> {
    const { path } = change;
    if (unread.has(path)) return;
    const [before, after] = [old.get(path), now.get(path)];
    if (after?.type !== 'd' && this.#mayHaveBeenDirectory(path, before))
      this.#slow.add({ ...change, below: true });
    const entry = after ?? before;
    if (change.isLink || entry === undefined) return;
    for (const name of await this.#linksOf(entry, this.#stop.signal)) {
      if (name === path) continue;
      const { author, touchedBy, changedMs, isTouch, hand } = change;
      const of = { author, touchedBy, changedMs, isTouch, hand };
      this.tree.queue.add(name, { ...of, isLink: true, saysLittle: true });
    }
  }

  /** Whether a path that is no directory now may have been one: its contents were removed, without an event for each. */
  #mayHaveBeenDirectory(path: ByteString, before: Entry | undefined): boolean {
    if (before !== undefined) return before.type === 'd';
    // Rules may select a directory's contents but not the directory.
    const { selection } = this.tree;
    // There may be findings about its former contents.
    if (this.job.findings.get(path) !== undefined) return true;
    return selection.select(path, 'd') === undefined && selection.descend(path);
  }

  /** Size of a regular file; 0 for anything else. */
  #sizeOf(path: ByteString): number {
    const within = withoutPrefix(path, this.job.root.prefix);
    if (within === undefined) return 0;
    try {
      const found = lstatSync(Buffer.from(this.#directory + within, 'latin1'), { throwIfNoEntry: false });
      return found?.isFile() === true ? found.size : 0;
    } catch {
      return 0;
    }
  }

  #wakeSlow(): void {
    if (this.#stop.signal.aborted) return;
    for (const looks of [this.#slow, this.#large]) {
      if (looks.size > maxSlow) {
        looks.clear();
        this.#lose('more has changed than can be checked one by one');
      }
      looks.wake();
    }
  }

  readonly #lookSlowly = async (change: ChangedPath, looks: SlowLooks): Promise<void> => {
    if (!this.job.isHeld()) await this.#guarded(() => this.#lookSlowlyAt(change, looks));
    this.#putBackIfStopped([change]);
    (looks === this.#slow ? this.#large : this.#slow).lookedAt([change.path]);
  };

  async #lookSlowlyAt(change: ChangedPath, looks: SlowLooks): Promise<void> {
    const { path, authorBelow } = change;
    const { signal } = this.#stop;
    const parts = { ...this.job, scanner: looks.scanner };
    if (!change.below) {
      const others = this.#moves.concerns(path) ? await this.#moves.besides(path, signal) : [];
      const paths = [path, ...others].sort();
      const seen = await recheckPaths(parts, paths, signal);
      this.#moves.looked(paths, seen);
      await this.#follow(change, seen);
      const asked = paths.map((one) => (one === path ? change : { path: one }));
      this.#notify(
        asked.filter((one) => !seen.unread.has(one.path) && !looks.isOutdated(one.path)),
        seen,
      );
      // Another name of the file may have been queued.
      if (this.tree.queue.size > 0) this.#wake();
      return;
    }
    const seen = await recheckBelow(parts, path, signal);
    const asked = new Map<ByteString, AskedPath>();
    if (change.hand !== 'packages') asked.set(path, change);
    for (const one of seen.changes.keys()) {
      // Files in a new directory of dpkg are compared one by one: their current entries are needed to find their
      // package.
      if (change.hand === 'packages') {
        if (seen.isCut) continue;
        const of = one === path ? change : { author: authorBelow, saysLittle: true };
        this.tree.queue.add(one, { ...of, below: false, hand: change.hand });
      } else if (one !== path) asked.set(one, { path: one, author: authorBelow });
    }
    if (change.hand === 'packages') this.#wake();
    if (seen.isCut) this.#lose('more has changed in a directory than is checked at once');
    else {
      for (const one of this.job.findings.pathsBelow(path)) {
        if (!asked.has(one) && !seen.changes.has(one)) asked.set(one, { path: one });
      }
    }
    this.#notify(
      [...asked.values()].filter(
        (one) => !looks.isOutdated(one.path) && !isAtOrBelowAny(one.path, seen.unread),
      ),
      seen,
    );
  }

  #notify(asked: readonly AskedPath[], { changes, now }: Recheck): void {
    if (this.#stop.signal.aborted || this.job.isHeld()) return;
    const updates = asked.map(({ path, author, touchedBy, changedMs, isTouch, hand }): PathUpdate => ({
      ...{ path, change: changes.get(path), hand },
      ...(author && { author }),
      ...(touchedBy && { touchedBy }),
      ...(changedMs !== undefined && { changedMs }),
      ...(isTouch !== undefined && { isTouch }),
    }));
    const { packages, findings } = this.job;
    const reported =
      packages?.take(updates.map((update) => ({ update, entry: now.get(update.path) }))) ?? updates;
    findings.update(reported, Date.now());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    this.tree.onQueued = undefined;
    // The next JobWatch of the tree then requests the scan.
    if (this.#lostSinceMs !== undefined) this.tree.lose(this.#scanWhy);
    clearTimeout(this.#scanTimer);
    await this.#quickLooks;
    for (const looks of [this.#slow, this.#large]) {
      await looks[Symbol.asyncDispose]();
      this.#putBackIfStopped(looks.takeAll());
    }
  }
}

/** A compared path, with what is known about its change. */
type AskedPath = Pick<ChangedPath, 'path'> &
  Partial<Pick<ChangedPath, 'author' | 'touchedBy' | 'changedMs' | 'isTouch' | 'hand'>>;

/** Limit of cached names, at some 150 bytes each. */
const maxNames = 50_000;
const needed = setOf('i', 'n');

/** All names that a file has in the baseline; none if it has only one. */
type LinksOf = (entry: Entry, signal: AbortSignal) => Promise<readonly ByteString[]>;

export function hardLinksIn(baseline: Baseline): LinksOf {
  let known: Map<bigint, ByteString[]> | undefined;

  /** Reads the whole baseline, so it is called only once a file with several names has changed. */
  async function read(signal: AbortSignal): Promise<Map<bigint, ByteString[]>> {
    const names = new Map<bigint, ByteString[]>();
    let count = 0;
    for await (const batch of baseline.entries(signal)) {
      for (const { type, attributes, linkCount, inode, path } of batch) {
        if (type === 'd' || (attributes & needed) !== needed || linkCount < 2 || count >= maxNames) continue;
        count++;
        const links = names.get(inode);
        if (links === undefined) names.set(inode, [path]);
        else links.push(path);
      }
    }
    return names;
  }

  return async ({ type, attributes, linkCount, inode }, signal) => {
    if (type === 'd' || (attributes & needed) !== needed || linkCount < 2) return [];
    known ??= await read(signal);
    return known.get(inode) ?? [];
  };
}
