/** The containers of this node, kept up to date. */
import { errorCodes, RampartError } from '../errors/errors.ts';
import type { Cri } from './cri.ts';
import { type EventSource, followEvents } from './events.ts';
import { KnownPods } from './known-pods.ts';
import { type ContainerChange, isUnchanged, type NodeContainer, nodeContainer } from './node-container.ts';
import { Pacer } from './pacer.ts';
import { isInContainer, isSameProcess, type ProcessIdentity, processIdentity } from './process.ts';
import { type Container, containerFrom, noNetwork, podFrom } from './records.ts';
import { Search } from './search.ts';
import { workLimit } from './work-limit.ts';
import type { CallOptions } from './connection.ts';

export interface WatchOptions {
  /** Aborting it ends the watch, like disposing. */
  readonly signal?: AbortSignal;
  /**
   * Called for each failed query of the runtime, including repeated failures. The watch continues by itself.
   */
  readonly onError?: (error: unknown) => void;
  /** Interval of polling a runtime without events. Default 1000. */
  readonly pollMs?: number;
  /** Interval of polling a runtime with events, because it may drop some. Default 30,000. */
  readonly resyncMs?: number;
  /** Where the host's /proc is. Default `/proc`. */
  readonly procPath?: string;
}

interface WatchStats {
  readonly containers: number;
  readonly running: number;
  /** Number of running containers whose process is still unknown. */
  readonly withoutProcess: number;
  /** Number of times that the whole list was read. */
  readonly lists: number;
  readonly events: number;
  /** Number of failures by error code. */
  readonly errors: Readonly<Record<string, number>>;
  readonly source: EventSource | undefined;
  /** Time since the runtime last returned its list; Infinity before the first list. */
  readonly ageMs: number;
}

interface Entry {
  container: Container;
  process: ProcessIdentity | undefined;
  readonly search: Search<ProcessIdentity>;
}

const PARALLEL_SEARCHES = 8;
/** Timeout for requests about one pod or container. */
const DETAIL_TIMEOUT_MS = 2_000;

type Listener = (change: ContainerChange) => void;

/**
 * Tracks the runtime's containers in any state, and reports changes.
 *
 * Level-triggered: it compares the runtime's whole list with the known containers, so that nothing depends on which events
 * arrive. Events only trigger a comparison. While the runtime does not answer, the known containers stay, and only the end of
 * their processes is noticed. Containers are independent: one whose process cannot be determined does not delay the others.
 */
export class ContainerWatch implements AsyncDisposable {
  readonly #cri: Cri;
  readonly #options: WatchOptions;
  readonly #procPath: string;
  readonly #stop = new AbortController();
  readonly #entries = new Map<string, Entry>();
  readonly #pods: KnownPods;
  /** The containers in the state last reported to the listeners. */
  readonly #reported = new Map<string, NodeContainer>();
  readonly #listeners = new Set<Listener>();
  readonly #limit = workLimit(PARALLEL_SEARCHES);
  readonly #errors: Record<string, number> = {};
  readonly #pacer: Pacer;
  readonly #running: Promise<unknown>;
  #source: EventSource | undefined;
  #events = 0;
  #lists = 0;
  #listedAtMs = -Infinity;

  constructor(cri: Cri, options: WatchOptions) {
    this.#cri = cri;
    this.#options = options;
    this.#procPath = options.procPath ?? '/proc';
    const { pollMs = 1_000, resyncMs = 30_000 } = options;
    if (!(pollMs > 0 && resyncMs > 0)) {
      throw new RampartError(errorCodes.INPUT, {
        what: `watch of containers with pollMs ${pollMs}, resyncMs ${resyncMs}`,
        why: 'both must be greater than 0',
      });
    }
    const { signal } = this.#stop;
    const abort = (): void => this.#stop.abort(options.signal?.reason);
    if (options.signal?.aborted === true) abort();
    options.signal?.addEventListener('abort', abort, { once: true, signal });
    this.#pods = new KnownPods({
      cri,
      signal,
      limit: this.#limit,
      timeoutMs: DETAIL_TIMEOUT_MS,
      onError: (error) => this.#fail(error),
      onSearched: (podId) => this.#podSearched(podId),
    });
    this.#pacer = new Pacer({
      signal,
      look: () => this.#look(),
      idleMs: () => {
        const hasEvents = this.#source === 'cri' || this.#source === 'containerd';
        return Math.min(hasEvents ? resyncMs : pollMs, this.#nextSearchAtMs() - performance.now());
      },
    });
    const events = followEvents(cri.connection, {
      signal,
      onEvent: () => {
        this.#events += 1;
        this.#pacer.settle();
      },
      onSource: (source) => {
        this.#source = source;
        // Lists again, because events may have been missed while there was no stream.
        this.#pacer.settle();
      },
      onError: (error) => this.#fail(error),
    });
    this.#running = Promise.all([this.#pacer.run(), events]);
  }

  /** The current containers, keyed by ID. This is the watch's own map, which changes later. */
  get containers(): ReadonlyMap<string, NodeContainer> {
    return this.#reported;
  }

  /** Resolves when the runtime's list has been read once, and the process of every running container has been looked up. */
  async synced(signal?: AbortSignal): Promise<void> {
    if (this.#lists === 0) await this.#pacer.looked(signal);
    await this.#searched(signal);
  }

  /** Queries the runtime at once. Resolves when a query that began after this call is complete, including the lookup of new processes. */
  async refresh(signal?: AbortSignal): Promise<void> {
    await this.#pacer.lookNow(signal);
    await this.#searched(signal);
  }

  /**
   * Calls `listener` with each change, and at once with all current containers, as added. An error that it throws is a bug,
   * and becomes an uncaught exception.
   */
  onChange(listener: Listener): Disposable {
    this.#listeners.add(listener);
    for (const container of this.#reported.values()) listener({ type: 'added', container });
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }

  stats(): WatchStats {
    const running = [...this.#entries.values()].filter(({ container }) => container.state === 'running');
    return {
      containers: this.#entries.size,
      running: running.length,
      withoutProcess: running.filter(({ process }) => process === undefined).length,
      lists: this.#lists,
      events: this.#events,
      errors: { ...this.#errors },
      source: this.#source,
      ageMs: performance.now() - this.#listedAtMs,
    };
  }

  /** Ends the watch; listeners are not called afterwards. The client stays open. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#listeners.clear();
    this.#stop.abort();
    await this.#running;
    await Promise.all(this.#attempts());
  }

  async #look(): Promise<boolean> {
    const { signal } = this.#stop;
    try {
      // Containers first: a sandbox is older than its containers, so the later list contains it.
      const { containers } = await this.#cri.call('ListContainers', {}, { signal });
      const { items } = await this.#cri.call('ListPodSandbox', {}, { signal });
      this.#lists += 1;
      this.#listedAtMs = performance.now();
      this.#pods.take(items.map((item) => podFrom(item, noNetwork)));
      this.#take(containers.map(containerFrom));
      return true;
    } catch (error) {
      this.#fail(error);
      for (const entry of this.#entries.values()) this.#checkProcess(entry);
      return false;
    }
  }

  #take(listed: readonly Container[]): void {
    const ids = new Set(listed.map(({ id }) => id));
    for (const id of this.#entries.keys()) {
      if (ids.has(id)) continue;
      this.#entries.delete(id);
      const reported = this.#reported.get(id);
      if (reported === undefined) continue;
      this.#reported.delete(id);
      this.#notify({ type: 'removed', container: reported });
    }
    for (const container of listed) {
      const entry = this.#entries.get(container.id) ?? this.#add(container);
      // Only the state can change: all else is fixed when a container is created. Keeping the old object saves memory.
      if (entry.container.state !== container.state) {
        entry.container = { ...entry.container, state: container.state };
        entry.search.reset();
      }
      if (container.state === 'running') {
        this.#checkProcess(entry);
        if (entry.process === undefined) entry.search.begin();
      } else entry.process = undefined;
      this.#publish(entry);
    }
  }

  #add(container: Container): Entry {
    const { signal } = this.#stop;
    const entry: Entry = {
      container,
      process: undefined,
      search: new Search({
        limit: this.#limit,
        find: async () => {
          try {
            const options = { signal, timeoutMs: DETAIL_TIMEOUT_MS };
            return await findProcess(this.#cri, container.id, this.#procPath, options);
          } catch (error) {
            this.#fail(error);
            return undefined;
          }
        },
        onEnd: (process) => {
          if (this.#stop.signal.aborted || this.#entries.get(container.id) !== entry) return;
          entry.process = entry.container.state === 'running' ? process : undefined;
          this.#publish(entry);
          this.#pacer.replan();
        },
      }),
    };
    this.#entries.set(container.id, entry);
    return entry;
  }

  #podSearched(podId: string): void {
    if (this.#stop.signal.aborted) return;
    for (const entry of this.#entries.values()) if (entry.container.podId === podId) this.#publish(entry);
    this.#pacer.replan();
  }

  /** Detects that a process has ended, which the runtime may not know yet or cannot report. */
  #checkProcess(entry: Entry): void {
    if (entry.process === undefined || isSameProcess(entry.process, this.#procPath)) return;
    entry.process = undefined;
    this.#publish(entry);
  }

  #nextSearchAtMs(): number {
    let atMs = this.#pods.nextAtMs();
    for (const { container, process, search } of this.#entries.values()) {
      if (container.state !== 'running' || process !== undefined || search.attempt !== undefined) continue;
      atMs = Math.min(atMs, search.nextAtMs);
    }
    return atMs;
  }

  #attempts(): Promise<void>[] {
    const own = [...this.#entries.values()].flatMap(({ search }) => search.attempt ?? []);
    return [...own, ...this.#pods.attempts()];
  }

  async #searched(signal: AbortSignal | undefined): Promise<void> {
    await Promise.all(this.#attempts());
    signal?.throwIfAborted();
    this.#stop.signal.throwIfAborted();
  }

  #publish(entry: Entry): void {
    const { id, podId } = entry.container;
    const pod = this.#pods.get(podId);
    // The sandbox was removed between the two lists: its container is gone too.
    if (pod === undefined) return;
    const previous = this.#reported.get(id);
    // Not reported yet: the process of a starting container, or the network of a new container's pod, is still being looked up.
    if (
      entry.container.state === 'running' &&
      entry.process === undefined &&
      entry.search.attempt !== undefined
    )
      return;
    if (previous === undefined && this.#pods.isSearching(podId)) return;
    const container = nodeContainer(entry.container, pod, entry.process, this.#procPath);
    if (previous !== undefined && isUnchanged(previous, container)) return;
    this.#reported.set(id, container);
    this.#notify(
      previous === undefined ? { type: 'added', container } : { type: 'changed', container, previous },
    );
  }

  #notify(change: ContainerChange): void {
    for (const listener of this.#listeners) {
      try {
        listener(change);
      } catch (error) {
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  }

  #fail(error: unknown): void {
    if (this.#stop.signal.aborted) return;
    const code = error instanceof RampartError ? error.code : 'other';
    this.#errors[code] = (this.#errors[code] ?? 0) + 1;
    this.#options.onError?.(error);
  }
}

/**
 * Begins to watch the containers of this node. The caller disposes the watch, then the client.
 *
 * @throws {RampartError} `INPUT` for invalid intervals.
 *
 * @example
 * using cri = openCri();
 * await using watch = watchContainers(cri, { onError: (error) => log.warn(error) });
 * watch.onChange(({ type, container }) => queue.add(container.pod.uid));
 */
export function watchContainers(cri: Cri, options: WatchOptions = {}): ContainerWatch {
  return new ContainerWatch(cri, options);
}

/**
 * The first process of the container; undefined if it is not running.
 *
 * The container may end between the runtime's answer and the look into /proc, and its PID may be reused. So the process has
 * to be in a cgroup of the container; if cgroups do not show that, the runtime has to return the same PID again after the
 * start time was read.
 *
 * @throws {RampartError} what {@link Cri.containerPid} throws, and `CONFLICT` if the process belongs to another container.
 */
export async function findProcess(
  cri: Cri,
  id: string,
  procPath: string,
  options?: CallOptions,
): Promise<ProcessIdentity | undefined> {
  const pid = await cri.containerPid(id, options);
  if (pid === undefined) return undefined;
  const process = processIdentity(pid, procPath);
  if (process === undefined) return undefined;
  const isOurs = isInContainer(pid, id, procPath);
  if (isOurs === true) return process;
  if (isOurs === undefined) return (await cri.containerPid(id, options)) === pid ? process : undefined;
  throw new RampartError(errorCodes.CONFLICT, {
    what: `container runtime at ${cri.socketPath}: process ${pid} does not belong to container ${id}`,
    why: 'it is in the cgroup of another container',
    next: 'Retrying; if this persists, the runtime is in another PID namespace: use that of the host (hostPID)',
  });
}
