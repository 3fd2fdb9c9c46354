/**
 * Watches directories, and reports the changes in them with the processes that made them.
 *
 * The changes come from inotify, on every kernel. The authors come from eBPF programs, where the kernel
 * accepts them (change-sensor.ts); authors.ts combines the two. docs/sensor.md explains what is seen.
 */
import { errorCodes, RampartError } from '../../errors/errors.ts';
import type { FileIdentity } from '../access.ts';
import { inotifyBits, type InotifyEvent } from '../paths/inotify.ts';
import { Adoptions } from './adoptions.ts';
import { AuthorLoss } from './author-loss.ts';
import { Authors, IS_NEW, NAMES_COME_AND_GO, pathIn, type Found } from './authors.ts';
import { kindBits, kindsOf, kindsOfMask, type ByteString, type WatchOutcome } from './change.ts';
import { ChangeSensor, type ChangeSensorMode } from './change-sensor.ts';
import { Directories, type WatchedDirectory } from './directories.ts';
import { defaultPaceMs, defaultSettleMs, type ChangeWatchOptions, type ChangeWatchStats } from './options.ts';
import { PendingChanges, type PendingChange } from './pending.ts';
import type { SeenChange } from './records.ts';

/** How often events are read while they keep coming: the kernel's queue has room for 16,384. */
const READ_EVERY_MS = 10;
/**
 * How many changes are reported in one turn of the event loop, which takes some ms; the rest waits for
 * the next.
 */
const MAX_AT_ONCE = 1000;
/**
 * Records are kept for one to two of these periods, and as long as changes of that time wait to be
 * reported.
 */
const ROTATE_MS = 2500;
/**
 * An event arrives at most this long after its change was seen, even if processes are kept from running
 * meanwhile.
 */
const EVENT_LATE_MS = ROTATE_MS / 2;
/**
 * The kernel sets the change time and then sends the event, within one system call; on a busy machine another
 * process may run in between.
 */
const EVENT_AFTER_CHANGE_MS = 100;
const IS_GONE = kindBits.deleted | kindBits.movedFrom;
/** Kinds next to which `changed` adds no information. */
const SAYS_HOW = IS_NEW | IS_GONE | kindBits.attributes | kindBits.modified;

/** The caller disposes it; it keeps the process alive until then. */
export class ChangeWatch implements Disposable {
  /** Whether changes have authors. */
  readonly mode: 'sensor' | 'inotify';
  readonly sensorMode: ChangeSensorMode | undefined;
  /** Why the mode is not `sensor`; empty if it is. */
  readonly reason: string;
  readonly #options: ChangeWatchOptions;
  readonly #sensor: ChangeSensor | undefined;
  readonly #directories: Directories;
  readonly #pending: PendingChanges;
  readonly #authors = new Authors();
  readonly #loss = new AuthorLoss(EVENT_LATE_MS);
  readonly #adoptions: Adoptions;
  /** Directories whose file system was unmounted: those that it covered may be visible now. */
  readonly #unmounted = new Set<ByteString>();
  #timer: NodeJS.Timeout | undefined;
  #rotation: NodeJS.Timeout | undefined;
  #overflowed = false;
  #busy = false;
  #disposed = false;
  /** Wall-clock time: unread events are about later changes. */
  #sinceMs = 0;
  #rotatedMs = performance.now();
  #reported = 0;
  #own = 0;

  /**
   * Opens a watch without a directory.
   *
   * @throws {RampartError} `LIMIT` at fs.inotify.max_user_instances, `SYSTEM` when the root cannot be opened, `UNSUPPORTED` when
   *   a sensor mode is forced that the kernel refuses.
   */
  constructor(options: ChangeWatchOptions) {
    this.#options = options;
    this.#pending = new PendingChanges(options.settleMs ?? defaultSettleMs, options.paceMs ?? defaultPaceMs);
    const { sensor, reason } = this.#openSensor(options.mode ?? 'auto');
    this.#sensor = sensor;
    this.mode = sensor === undefined ? 'inotify' : 'sensor';
    this.sensorMode = sensor?.mode;
    this.reason = reason;
    try {
      this.#directories = new Directories({
        root: options.root ?? '/',
        maxWatches: options.maxDirectories,
        sensor,
        onReadable: () => this.#turn(),
        onEvent: (directory, event) => this.#onEvent(directory, event),
        onOverflow: () => this.#onOverflow(),
        onProblem: options.onProblem,
      });
    } catch (error) {
      sensor?.[Symbol.dispose]();
      throw error;
    }
    this.#adoptions = new Adoptions({
      directories: this.#directories,
      wants: (path) => this.#wants(path),
      onDone: (top) => this.#adopted(top),
    });
    this.#directories.listening = true;
  }

  #openSensor(mode: ChangeSensorMode | 'auto' | 'inotify'): {
    sensor: ChangeSensor | undefined;
    reason: string;
  } {
    if (mode === 'inotify') return { sensor: undefined, reason: 'the sensor is turned off' };
    try {
      const sensor = ChangeSensor.open({
        mode,
        onSeen: (seen) => this.#onSeen(seen),
        onBatchEnd: () => this.#schedule(),
        onProblem: (problem) => this.#options.onProblem(problem),
      });
      return { sensor, reason: '' };
    } catch (error) {
      const refused =
        error instanceof RampartError &&
        (error.code === errorCodes.UNSUPPORTED ||
          error.code === errorCodes.EBPF ||
          error.code === errorCodes.SYSTEM);
      if (mode !== 'auto' || !refused) throw error;
      return { sensor: undefined, reason: error.message };
    }
  }

  /**
   * Watches one directory and the names in it, not the directories below. The last link of the path is not followed.
   *
   * @param path - Absolute, below the root.
   * @throws {RampartError} `INPUT` for a path that is not absolute or has a NUL, `DISPOSED`.
   */
  watchDirectory(path: ByteString): WatchOutcome {
    if (this.#disposed) throw new RampartError(errorCodes.DISPOSED, { what: 'the change watch is closed' });
    if (!path.startsWith('/') || path.includes('\0')) {
      throw new RampartError(errorCodes.INPUT, {
        what: `cannot watch ${JSON.stringify(path)}`,
        why: 'an absolute path without NUL is required',
      });
    }
    return this.#directories.watch(path);
  }

  /**
   * Ends the watch of one directory. Changes already seen are still reported. Returns whether it was watched.
   */
  unwatch(path: ByteString): boolean {
    return this.#directories.unwatch(path);
  }

  /** All paths that are watched now. Do not watch or unwatch while it is iterated. */
  paths(): Iterable<ByteString> {
    return this.#directories.paths();
  }

  stats(): ChangeWatchStats {
    return {
      directories: this.#directories.size,
      unwatchedDirectories: this.#directories.unwatched,
      directoriesWithoutAuthors: this.#directories.withoutAuthors,
      events: this.#directories.events,
      overflows: this.#directories.overflows,
      reported: this.#reported,
      own: this.#own,
      kept: this.#pending.kept + this.#authors.size,
      sensor: this.#sensor?.stats(),
    };
  }

  /** Reads everything available, reports what is due, and schedules the next turn if one is needed. */
  #turn(): void {
    if (this.#disposed) return;
    this.#busy = this.#drain() > 0;
    if (this.#pending.nextDueMs <= performance.now()) this.#reportDue();
    this.#schedule();
  }

  /** Reads the events that have come. Returns how many. */
  #drain(): number {
    const beganMs = Date.now();
    const events = this.#directories.drain();
    this.#sinceMs = beganMs - EVENT_AFTER_CHANGE_MS;
    return events;
  }

  #schedule(): void {
    if (this.#disposed) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    // Under load the queue is read at intervals: otherwise each event could wake up the loop.
    this.#directories.listening = !this.#busy;
    const waitMs = Math.min(
      this.#busy ? READ_EVERY_MS : Infinity,
      this.#pending.nextDueMs - performance.now(),
    );
    if (waitMs !== Infinity) this.#timer = setTimeout(() => this.#turn(), Math.max(0, waitMs));
    if (this.#rotation === undefined && !(this.#pending.empty && this.#authors.empty)) {
      this.#rotation = setTimeout(() => this.#rotate(), ROTATE_MS);
    }
  }

  #rotate(): void {
    this.#rotation = undefined;
    // This drops the records from before the previous rotation, so it waits while a pending change may be that old.
    this.#drain();
    if (this.#pending.oldestMs < this.#rotatedMs + EVENT_LATE_MS) {
      this.#rotation = setTimeout(() => this.#rotate(), ROTATE_MS / 10);
      this.#schedule();
      return;
    }
    this.#rotatedMs = performance.now();
    this.#sensor?.forget();
    this.#authors.rotate();
    this.#pending.rotate();
    this.#directories.forget();
    this.#schedule();
  }

  #onSeen(seen: SeenChange): void {
    const directory = this.#directories.byId(seen.directory);
    if (directory === undefined) return;
    this.#authors.add(seen, directory.paths);
    // inotify reports this change itself.
    if (seen.mask !== 0) return;
    const bits =
      seen.call === 'content'
        ? kindBits.modified
        : seen.call === 'attributes'
          ? kindBits.attributes
          : kindBits.changed;
    const nowMs = performance.now();
    for (const path of directory.paths) {
      if (seen.name === undefined) this.#pending.add(path, kindBits.changed, nowMs, this.#sinceMs, 'record');
      else this.#pending.add(pathIn(path, seen.name), bits, nowMs, this.#sinceMs, 'record');
    }
  }

  #onEvent(directory: WatchedDirectory, event: InotifyEvent): void {
    const { mask, name } = event;
    const nowMs = performance.now();
    const bits = mask & inotifyBits.UNMOUNT ? kindBits.changed : kindsOfMask(mask);
    for (const path of [...directory.paths]) {
      const changed = name === '' ? path : pathIn(path, name);
      this.#pending.add(changed, bits, nowMs, this.#sinceMs, 'event');
      if (name !== '' && mask & NAMES_COME_AND_GO)
        this.#pending.add(path, kindBits.changed, nowMs, this.#sinceMs, 'event');
      if (mask & inotifyBits.UNMOUNT) this.#unmounted.add(changed);
      const leftItsPath =
        mask & inotifyBits.MOVE_SELF || (mask & inotifyBits.MOVED_FROM && mask & inotifyBits.ISDIR);
      if (leftItsPath) this.#directories.unwatchBelow(changed);
      if (mask & inotifyBits.ISDIR && mask & (inotifyBits.DELETE | inotifyBits.MOVED_FROM))
        this.#directories.forgetUnwatched(changed);
      const appeared = mask & (inotifyBits.CREATE | inotifyBits.MOVED_TO) && mask & inotifyBits.ISDIR;
      // When two directories are exchanged, the second one is at this path before the event that the first has left it.
      const isReplaced = leftItsPath && this.#directories.exists(changed);
      if ((appeared || isReplaced) && this.#wants(changed)) this.#adoptions.add(changed, [changed]);
    }
  }

  /**
   * The kernel reports each directory of the file system, in any order: the topmost ones cover all others.
   */
  #adoptUncovered(): void {
    if (this.#unmounted.size === 0) return;
    const tops = [...this.#unmounted].filter(
      (path) => !this.#unmounted.has(path.slice(0, path.lastIndexOf('/'))),
    );
    this.#unmounted.clear();
    for (const path of tops) if (this.#wants(path)) this.#adoptions.add(path, [path]);
  }

  #wants(path: ByteString): boolean {
    try {
      return this.#options.wants?.(path) ?? false;
    } catch (error) {
      this.#options.onProblem(error);
      return false;
    }
  }

  #onOverflow(): void {
    if (this.#overflowed) return;
    this.#overflowed = true;
    // Directories may have come, gone or been replaced unseen.
    this.#adoptions.add(undefined, [...this.#directories.paths()]);
  }

  #adopted(top: ByteString | undefined): void {
    if (top !== undefined) {
      this.#pending.add(top, 0, performance.now(), this.#sinceMs, 'below');
      this.#schedule();
      return;
    }
    this.#overflowed = false;
    this.#guarded(() => this.#options.onLost({ what: 'changes' }));
  }

  #reportDue(): void {
    // The order matters: from here on, what processes do is recorded again. Records of earlier changes are in the ring, where
    // they were before their events were in the queue.
    this.#sensor?.nextEpoch();
    this.#busy = this.#drain() > 0 || this.#busy;
    this.#sensor?.drain();
    const lost = this.#loss.look(this.#sensor?.stats().lost ?? 0, this.#authors.drops);
    if (lost > 0) this.#guarded(() => this.#options.onLost({ what: 'authors', count: lost }));
    this.#adoptUncovered();
    let dropped = 0;
    const isComplete = !this.#loss.mayConcernNow;
    // All authors are looked up before the first report: during a report more records may be read, which belong to
    // other events.
    const due = this.#pending.take(performance.now(), MAX_AT_ONCE).map((change) => ({
      change,
      found: this.#authors.take(change.path, isComplete ? change.events : 0, change.sinceMs),
    }));
    for (const { change, found } of due) {
      const isKnown = this.#notify(change, this.#authorOf(change, found));
      if (!isKnown && change.bits !== kindBits.closed && this.#loss.mayBeDropped(change.addedMs))
        dropped += 1;
    }
    if (this.#pending.takeOverflow()) this.#guarded(() => this.#options.onLost({ what: 'changes' }));
    if (dropped > 0) this.#guarded(() => this.#options.onLost({ what: 'authors', count: dropped }));
    if (this.#options.onBatchEnd !== undefined) this.#guarded(this.#options.onBatchEnd);
  }

  /** Reports a change. Returns whether its author is known. */
  #notify({ path, bits, below }: PendingChange, found: Found): boolean {
    const { author, contentAuthor, atMs, others, otherAuthors = [] } = found;
    this.#reported += 1;
    if (author?.own === true) this.#own += 1;
    const redundant = bits & SAYS_HOW && !this.#directories.has(path);
    this.#guarded(() =>
      this.#options.onChange({
        path,
        kinds: kindsOf(redundant ? bits & ~kindBits.changed : bits),
        atMs: atMs ?? Date.now(),
        below,
        ...(author !== undefined && { author }),
        ...(contentAuthor !== undefined && { contentAuthor }),
        ...{ others, otherAuthors },
      }),
    );
    return author !== undefined;
  }

  /** @param found - What is known by the path alone. */
  #authorOf({ path, bits, sinceMs }: PendingChange, found: Found): Found {
    // In the mode `kprobe`, the record of each event has the name.
    if (this.sensorMode !== 'raw_tracepoint' || !(bits & IS_NEW)) return found;
    if (found.contentAuthor !== undefined && !(bits & IS_GONE)) return found;
    // The lost record may be another process's change of the same inode.
    if (this.#loss.inRound) return found;
    const identity = this.#directories.identify(path) ?? this.#goneFrom(path);
    if (identity === undefined) return found;
    const named = this.#authors.ofName(identity, sinceMs);
    if (found.author === undefined) return named;
    if (found.contentAuthor === undefined) return { ...found, contentAuthor: named.author };
    // The process that removed the name need not be the one that made it again.
    if (named.atMs === undefined || named.atMs <= (found.atMs ?? 0)) return found;
    const isOther = named.author?.pid !== found.author.pid;
    const { otherAuthors = [] } = found;
    return {
      ...named,
      others: Math.max(named.others, found.others + Number(isOther)),
      otherAuthors: [...(named.otherAuthors ?? []), ...otherAuthors, ...(isOther ? [found.author] : [])],
    };
  }

  /** A name may be gone again before it is reported; the record of its removal was seen before that. */
  #goneFrom(path: ByteString): FileIdentity | undefined {
    this.#sensor?.drain();
    return this.#authors.goneFrom(path);
  }

  #guarded(call: () => void): void {
    if (this.#disposed) return;
    try {
      call();
    } catch (error) {
      this.#options.onProblem(error);
    }
  }

  /** Leaves no program, map, watch or timer behind. Pending changes are not reported. */
  [Symbol.dispose](): void {
    if (this.#disposed) return;
    this.#disposed = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#rotation);
    this.#adoptions[Symbol.dispose]();
    this.#directories[Symbol.dispose]();
    this.#sensor?.[Symbol.dispose]();
  }
}
