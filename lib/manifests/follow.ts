/** Keeps the applied objects in line with the files while they are edited. */
import { createHash } from 'node:crypto';
import { type FSWatcher, watch } from 'node:fs';
import { basename, dirname } from 'node:path';

import { Backoff } from '../time/backoff.ts';
import type { KubeClient } from '../kube/client/client.ts';
import { sleep, systemClock } from '../time/clock.ts';
import { ManifestApplier, type Round } from './apply.ts';
import { type FoundFiles, isManifestName, type ManifestRoot, readManifests } from './files.ts';
import { describeProblem } from './problem.ts';

interface FollowManifestsOptions {
  readonly client: KubeClient;
  /** The result of `manifestRoots`. */
  readonly roots: readonly ManifestRoot[];
  /** Names of CustomResourceDefinitions that are refused, because the process itself manages them. */
  readonly reserved?: ReadonlySet<string>;
  /**
   * Reports a message for people: one line, without a newline. A problem is reported once until its file
   * changes.
   */
  readonly say: (line: string) => void;
  /** Called after each round, for tests and metrics. */
  readonly onRound?: (round: Round) => void;
  readonly signal: AbortSignal;
  readonly times?: Partial<FollowTimes>;
}

interface FollowTimes {
  /** Files are read once none has changed for this long: editors write in several steps. */
  readonly settleMs: number;
  /** Files that keep changing are read after this long anyway. */
  readonly patienceMs: number;
  /** Interval of reading the files without an event: the kernel reports none for remote changes on network file systems. */
  readonly rescanMs: number;
  /** How often the API is compared with the files. */
  readonly resyncMs: number;
}

const defaultTimes: FollowTimes = { settleMs: 150, patienceMs: 3000, rescanMs: 10_000, resyncMs: 300_000 };
const RETRY = { baseMs: 500, maxMs: 30_000 };

/** Runs until the signal aborts, and never ends otherwise, whatever the files contain or the server answers. */
export async function followManifests(options: FollowManifestsOptions): Promise<void> {
  if (options.roots.length === 0) return;
  const follower = new Follower(options);
  try {
    await follower.run();
  } catch (error) {
    if (!options.signal.aborted) throw error;
  } finally {
    follower.close();
  }
}

class Follower {
  readonly #options: FollowManifestsOptions;
  readonly #times: FollowTimes;
  readonly #applier: ManifestApplier;
  readonly #watchers = new Map<string, FSWatcher>();
  #changed = Promise.withResolvers<void>();
  #reported = new Set<string>();

  constructor(options: FollowManifestsOptions) {
    this.#options = options;
    this.#times = { ...defaultTimes, ...options.times };
    this.#applier = new ManifestApplier(options.client, options.roots, options.reserved ?? new Set());
  }

  async run(): Promise<void> {
    const { signal, roots } = this.#options;
    const backoff = new Backoff(RETRY);
    let read = '';
    let wholeAtMs = -Infinity;
    let retryAtMs = Infinity;
    for (;;) {
      signal.throwIfAborted();
      this.#watch();
      const found = readManifests(roots);
      const now = systemClock.monotonicMs();
      const isChange = digestOf(found) !== read;
      const isWhole = now - wholeAtMs >= this.#times.resyncMs;
      if (isChange || isWhole || now >= retryAtMs) {
        read = digestOf(found);
        const isRight = await this.#round(found, isWhole);
        if (isWhole && isRight !== undefined) wholeAtMs = now;
        if (isRight === true) backoff.reset();
        retryAtMs = isRight === true ? Infinity : systemClock.monotonicMs() + backoff.nextMs();
      }
      await this.#pause(Math.min(this.#times.rescanMs, retryAtMs - systemClock.monotonicMs()));
    }
  }

  close(): void {
    for (const watcher of this.#watchers.values()) watcher.close();
    this.#watchers.clear();
  }

  /** Whether the API agrees with the files; `undefined` if the server could not be reached. */
  async #round(found: FoundFiles, whole: boolean): Promise<boolean | undefined> {
    const { signal, say, onRound } = this.#options;
    try {
      const round = await this.#applier.round(found, whole, signal);
      const texts = new Map(found.files.map(({ path, text = '' }) => [path, digest(text)]));
      const reported = new Set<string>();
      for (const problem of round.problems) {
        const line = describeProblem(problem);
        const once = `${texts.get(problem.file) ?? ''} ${line}`;
        if (!this.#reported.has(once)) say(line);
        reported.add(once);
      }
      this.#reported = reported;
      if (round.applied + round.deleted > 0) {
        const deleted = round.deleted === 0 ? '' : `, ${objects(round.deleted)} deleted`;
        say(`manifests: ${objects(round.applied)} applied${deleted}`);
      }
      onRound?.(round);
      return round.problems.length === 0;
    } catch (error) {
      signal.throwIfAborted();
      const line = `manifests: ${error instanceof Error ? error.message : String(error)}; retrying`;
      if (!this.#reported.has(line)) say(line);
      this.#reported.add(line);
      return undefined;
    }
  }

  /** Waits until files have changed and settled, or the time is up. */
  async #pause(ms: number): Promise<void> {
    if (!(await this.#changes(ms))) return;
    const untilMs = systemClock.monotonicMs() + this.#times.patienceMs;
    while (systemClock.monotonicMs() < untilMs) {
      this.#changed = Promise.withResolvers<void>();
      if (!(await this.#changes(this.#times.settleMs))) break;
    }
    this.#changed = Promise.withResolvers<void>();
  }

  /** Whether something has changed within the time. */
  async #changes(ms: number): Promise<boolean> {
    const { signal } = this.#options;
    const ended = new AbortController();
    const timer = sleep(systemClock, Math.max(0, ms), AbortSignal.any([signal, ended.signal])).then(
      () => false,
      () => false,
    );
    const changed = await Promise.race([timer, this.#changed.promise.then(() => true)]);
    ended.abort();
    await timer;
    signal.throwIfAborted();
    return changed;
  }

  /** Watches the directories: a file that is replaced is another inode, one that is gone may come back. */
  #watch(): void {
    for (const { path, isDirectory } of this.#options.roots) {
      const directory = isDirectory ? path : dirname(path);
      const key = isDirectory ? path : `${path} in it`;
      if (this.#watchers.has(key)) continue;
      try {
        const watcher = watch(directory, { persistent: false }, (_event, name) => {
          // A mounted ConfigMap changes when its hidden link `..data` is replaced.
          const counts =
            name === null ||
            name === '..data' ||
            (isDirectory ? isManifestName(name) : name === basename(path));
          if (counts) this.#changed.resolve();
          // The watch of a removed directory reports nothing more, even if the directory is created again: so a new watch is needed.
          else if (name === basename(directory)) this.#forget(key);
        });
        watcher.on('error', () => this.#forget(key));
        this.#watchers.set(key, watcher);
      } catch {
        // The path does not exist, or the machine has too many watches: it is read at intervals.
      }
    }
  }

  #forget(key: string): void {
    this.#watchers.get(key)?.close();
    this.#watchers.delete(key);
    this.#changed.resolve();
  }
}

function digestOf({ files, unreadable }: FoundFiles): string {
  return digest(JSON.stringify([files, unreadable]));
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('base64');
}

function objects(count: number): string {
  return `${count} ${count === 1 ? 'object' : 'objects'}`;
}
