/** Watches one root for all of its jobs: the kernel has one watch for a directory, however many jobs need it. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ContainerSource } from '../../../lib/cri/container-source.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import type { Change, ChangeLoss } from '../../../lib/sensor/changes/change.ts';
import { ChangeWatch } from '../../../lib/sensor/changes/change-watch.ts';
import type { ByteString } from '../model/entry.ts';
import type { Detection } from '../model/finding.ts';
import { AwaitedContainers } from './awaited-containers.ts';
import { ChangeAuthors, type ChangedBy } from './change-author.ts';
import { walkDirectories } from './directory-walk.ts';
import { FollowedTree } from './followed-tree.ts';
import { JobWatch } from './job-watch.ts';
import { type LiveOptions, maxQueuedPaths } from './options.ts';
import type { LiveJob } from './live-job.ts';
import { readFileSync, realpathSync } from 'node:fs';

/** How long a tree is watched without a job: a job that creates a new baseline meanwhile takes its tree back. */
const parkMs = 120_000;
/** Number of directories examined in one turn of the event loop. */
const unwatchAtOnce = 500;
/** How far file timestamps may lag behind the clock: up to one kernel tick, at most this long. */
const tickMs = 10;

/** Closes itself when its last job ends. */
export class NodeWatch implements Disposable {
  readonly #options: LiveOptions;
  readonly #root: string;
  readonly #watch: ChangeWatch;
  readonly #authors: ChangeAuthors;
  readonly #awaited: AwaitedContainers;
  readonly #onClosed: () => void;
  readonly #jobs = new Set<JobWatch>();
  readonly #parked = new Map<string, { readonly tree: FollowedTree; readonly timer: NodeJS.Timeout }>();
  readonly #trees = new Set<FollowedTree>();
  readonly #isMadeUp: (path: ByteString) => boolean;
  #refused: string | undefined;
  #lost = 0;
  #lostAuthors = 0;
  readonly #reported = new ReportedDetection(
    () => this.#detection(),
    (detection) => {
      for (const { job, tree } of this.#jobs) if (tree.isWatched) job.notify(detection);
    },
  );
  #isClosed = false;

  /** @throws RampartError as `new ChangeWatch` */
  constructor(root: string, containers: ContainerSource, options: LiveOptions, onClosed: () => void) {
    this.#root = root;
    this.#isMadeUp = madeUpMounts(root);
    this.#options = options;
    this.#onClosed = onClosed;
    this.#authors = new ChangeAuthors(containers);
    this.#awaited = new AwaitedContainers(this.#authors, (change, by) => this.#onChange(change, by));
    try {
      this.#watch = this.#open(options.mode ?? 'auto');
    } catch (error) {
      this.#awaited[Symbol.dispose]();
      this.#authors[Symbol.dispose]();
      throw error;
    }
  }

  #open(mode: NonNullable<LiveOptions['mode']>): ChangeWatch {
    const { maxDirectories } = this.#options;
    try {
      return new ChangeWatch({
        ...{ root: this.#root, mode },
        maxDirectories,
        wants: (path) => this.#wants(path),
        onChange: (change) => this.#awaited.add(change),
        onBatchEnd: () => this.#reportSoon(),
        onLost: (loss) => this.#onLost(loss),
        onProblem: (err) => this.#problem(err),
      });
    } catch (error) {
      // The user requested a mode that this kernel does not support.
      if (mode === 'inotify' || !(error instanceof RampartError) || error.code !== errorCodes.UNSUPPORTED)
        throw error;
      this.#refused = error.message;
      return this.#open('inotify');
    }
  }

  get #reason(): string {
    return this.#refused ?? this.#watch.reason;
  }

  /** Returns at once; the directories are then watched one after another. */
  follow(job: LiveJob): AsyncDisposable {
    const tree = this.#unpark(job) ?? this.#newTree(job);
    const watch = new JobWatch(job, tree);
    this.#jobs.add(watch);
    if (tree.isWatched) {
      job.packages?.watched();
      job.notify(this.#detection());
    }
    return { [Symbol.asyncDispose]: () => this.#leave(watch) };
  }

  #newTree(job: LiveJob): FollowedTree {
    const tree = new FollowedTree(job, this.#options.maxQueued ?? maxQueuedPaths);
    this.#trees.add(tree);
    tree.onOverflow = () => {
      this.#lost++;
      this.#reportSoon();
    };
    void this.#walk(job, tree);
    return tree;
  }

  /**
   * Watches the directories, and queues files that changed before: since they were read for the baseline, or since they
   * were last watched, because an accept creates a baseline without reading all files. After a restart, a scan reads
   * all files, but it may have passed a directory before that directory is watched.
   */
  async #walk(job: LiveJob, tree: FollowedTree): Promise<void> {
    const { baseline, findings, logger, unfollowedSinceMs = Infinity } = job;
    const startMs = performance.now();
    const fromMs = findings.isKnown ? Math.min(baseline.header.madeAtMs, unfollowedSinceMs) : Date.now();
    try {
      await walkDirectories({
        root: this.#root,
        wants: (path) => tree.wants(path) && !this.#isMadeUp(path),
        watch: (path) => this.#watch.watchDirectory(path),
        changed: {
          sinceMs: fromMs - tickMs,
          selects: (path) => tree.selects(tree.withPrefix(path)),
          onFile: (path) => tree.addUnseen(path),
          onDirectory: (path) => {
            tree.addUnseen(path);
            tree.lose('files were created or removed before they were watched');
          },
        },
        signal: tree.stop.signal,
      });
    } catch (err) {
      if (tree.stop.signal.aborted) return;
      logger.error({ err }, 'some directories are covered by scans only');
    }
    tree.isWatched = true;
    job.packages?.watched();
    const { directories, unwatchedDirectories } = this.#watch.stats();
    const tookMs = Math.round(performance.now() - startMs);
    const { mode, sensorMode } = this.#watch;
    logger.info(
      {
        directories,
        unwatchedDirectories,
        mode,
        ...(mode === 'sensor' ? { sensorMode } : { reason: this.#reason }),
        tookMs,
      },
      'changes are detected at once',
    );
    if (!this.#isClosed) this.#reported.notify();
  }

  async #leave(watch: JobWatch): Promise<void> {
    this.#jobs.delete(watch);
    await watch[Symbol.asyncDispose]();
    const { signal } = this.#options;
    if (signal === undefined || signal.aborted || this.#isClosed) await this.#drop(watch.tree);
    else {
      const { key } = watch.job;
      const timer = setTimeout(() => void this.#dropParked(key), parkMs);
      timer.unref();
      await this.#dropParked(key);
      this.#parked.set(key, { tree: watch.tree, timer });
    }
  }

  #unpark(job: LiveJob): FollowedTree | undefined {
    const parked = this.#parked.get(job.key);
    if (parked === undefined) return undefined;
    if (!parked.tree.suits(job)) {
      void this.#dropParked(job.key);
      return undefined;
    }
    clearTimeout(parked.timer);
    this.#parked.delete(job.key);
    return parked.tree;
  }

  async #dropParked(key: string): Promise<void> {
    const parked = this.#parked.get(key);
    if (parked === undefined) return;
    clearTimeout(parked.timer);
    this.#parked.delete(key);
    await this.#drop(parked.tree);
  }

  /** Stops watching directories that no other tree needs. */
  async #drop(tree: FollowedTree): Promise<void> {
    tree.stop.abort();
    this.#trees.delete(tree);
    // A new tree of the same job, with other rules, may be added in this turn.
    await nextTurn();
    if (this.#trees.size === 0) return this[Symbol.dispose]();
    let count = 0;
    for (const path of [...this.#watch.paths()]) {
      if (++count % unwatchAtOnce === 0) await nextTurn();
      if (this.#isClosed) return;
      if (!this.#wants(path)) this.#watch.unwatch(path);
    }
    this.#reportSoon();
  }

  #wants(path: ByteString): boolean {
    for (const tree of this.#trees) if (tree.wants(path)) return !this.#isMadeUp(path);
    return false;
  }

  #onChange(change: Change, by: ChangedBy): void {
    try {
      for (const tree of this.#trees) tree.add(change, by);
    } catch (error) {
      this.#problem(error);
    }
  }

  #onLost(loss: ChangeLoss): void {
    if (loss.what === 'authors') this.#lostAuthors += loss.count;
    else {
      this.#lost++;
      for (const tree of this.#trees) tree.lose('the kernel dropped events');
    }
    this.#reportSoon();
  }

  #problem(err: unknown): void {
    for (const { job } of this.#jobs) return job.logger.warn({ err }, 'the file watch reported a problem');
  }

  #detection(): Detection {
    const { directories, unwatchedDirectories, directoriesWithoutAuthors } = this.#watch.stats();
    return {
      ...{ events: this.#watch.mode, reason: this.#reason },
      ...{ watchedDirectories: directories, unwatchedDirectories, directoriesWithoutAuthors },
      ...{ lostEvents: this.#lost, lostAuthors: this.#lostAuthors },
    };
  }

  #reportSoon(): void {
    if (!this.#isClosed) this.#reported.reportSoon();
  }

  /** After this, the remaining jobs get no more events. */
  [Symbol.dispose](): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#reported[Symbol.dispose]();
    for (const { timer } of this.#parked.values()) clearTimeout(timer);
    this.#parked.clear();
    for (const tree of this.#trees) tree.stop.abort();
    this.#trees.clear();
    this.#watch[Symbol.dispose]();
    this.#awaited[Symbol.dispose]();
    this.#authors[Symbol.dispose]();
    this.#onClosed();
  }
}

/**
 * Counts whose changes are reported at most every `countsMs`. A change of `lostEvents`, or of one of these counts
 * (except `watchedDirectories`) from or to zero, is reported after a second.
 */
const paced = [
  'watchedDirectories',
  'unwatchedDirectories',
  'lostAuthors',
  'directoriesWithoutAuthors',
] as const;
/** Minimum time before a report in which only counts have changed. */
const countsMs = 30_000;

/** Reports how changes are detected. Disposing it ends the reports. */
class ReportedDetection implements Disposable {
  readonly #now: () => Detection;
  readonly #notify: (detection: Detection) => void;
  #reported: Detection | undefined;
  #reportedMs = -Infinity;
  #timer: NodeJS.Timeout | undefined;

  constructor(now: () => Detection, notify: (detection: Detection) => void) {
    this.#now = now;
    this.#notify = notify;
  }

  notify(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#reported = this.#now();
    this.#reportedMs = performance.now();
    this.#notify(this.#reported);
  }

  /** Call when the detection may have changed since its last report. */
  reportSoon(): void {
    if (this.#timer !== undefined || this.#reported === undefined) return;
    const [reported, now] = [this.#reported, this.#now()];
    const isWorse =
      reported.lostEvents !== now.lostEvents ||
      paced.some(
        (number) => number !== 'watchedDirectories' && (reported[number] === 0) !== (now[number] === 0),
      );
    if (!isWorse && paced.every((number) => reported[number] === now[number])) return;
    const dueMs = isWorse ? 0 : this.#reportedMs + countsMs;
    this.#timer = setTimeout(() => this.notify(), Math.max(1000, dueMs - performance.now()));
    this.#timer.unref();
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }
}

/**
 * Types of file systems whose files the kernel generates when they are read, such as /proc and /sys. It reports no
 * changes in them.
 */
const types: ReadonlySet<string> = new Set(
  (
    'proc sysfs debugfs tracefs securityfs selinuxfs smackfs cgroup cgroup2 resctrl pstore bpf configfs efivarfs ' +
    'binfmt_misc mqueue devpts fusectl rpc_pipefs nsfs hugetlbfs nfsd autofs'
  ).split(' '),
);
/** How long the list of mounts is used before it is read again: a node has thousands of mounts. */
const freshMs = 10_000;

/** Returns a function that checks whether a path below the root is a mount of one of these types. */
function madeUpMounts(root: string): (path: ByteString) => boolean {
  let paths: ReadonlySet<ByteString> = new Set();
  let readMs = -Infinity;

  return (path) => {
    const nowMs = performance.now();
    if (nowMs - readMs > freshMs) {
      paths = read(root);
      readMs = nowMs;
    }
    return paths.has(path);
  };
}

function read(root: string): ReadonlySet<ByteString> {
  const found = new Set<ByteString>();
  let within: ByteString;
  let mounts: string;
  try {
    // Mount points in mountinfo are paths without symbolic links.
    const real = realpathSync(root, 'buffer').toString('latin1');
    within = real === '/' ? '' : real;
    mounts = readFileSync('/proc/self/mountinfo', 'latin1');
  } catch {
    return found;
  }
  // proc_pid_mountinfo(5): the mount point is the fifth field, the type the first after ' - '.
  for (const line of mounts.split('\n')) {
    const [before = '', after = ''] = line.split(' - ');
    const point = before
      .split(' ')[4]
      ?.replace(/\\([0-7]{3})/g, (_, code: string) => String.fromCharCode(Number.parseInt(code, 8)));
    const [type = ''] = after.split(' ');
    if (point?.startsWith(`${within}/`) === true && types.has(type)) found.add(point.slice(within.length));
  }
  return found;
}
