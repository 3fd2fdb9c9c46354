/**
 * Holds changes by processes whose container is not known yet but may be in a moment: a container's first actions are
 * reported before the runtime has reported the container.
 */
import type { Change, ChangeProcess } from '../../../lib/sensor/changes/change.ts';
import type { ChangeAuthors, ChangedBy } from './change-author.ts';

/** How long to wait: the longest time from the start of a container to its report by the runtime, even on a busy machine. */
const defaultWaitMs = 400;
/** How long to remember a container that was not reported: one of another runtime, e.g. Docker, never is. */
const strangersMs = 10_000;
const maxStrangers = 1000;
/** Maximum number of waiting changes; above it, the earliest are passed on immediately. In such a flood, authors do not matter. */
export const maxAwaiting = 10_000;

/**
 * Passes changes on in order, so that the last process that changed a path is its author. Disposing it drops the
 * waiting changes.
 */
export class AwaitedContainers implements Disposable {
  readonly #authors: ChangeAuthors;
  readonly #pass: (change: Change, by: ChangedBy) => void;
  readonly #waitMs: number;
  readonly #subscription: Disposable;
  readonly #waiting: { readonly change: Change; readonly untilMs: number }[] = [];
  /** Cgroups whose container was not reported in time, and until when (performance.now()) they are remembered. */
  readonly #strangers = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;

  /** @param pass must not throw */
  constructor(
    authors: ChangeAuthors,
    pass: (change: Change, by: ChangedBy) => void,
    waitMs: number = defaultWaitMs,
  ) {
    [this.#authors, this.#pass, this.#waitMs] = [authors, pass, waitMs];
    this.#subscription = authors.onContainer(() => this.#passKnown());
  }

  /** Number of waiting changes. */
  get size(): number {
    return this.#waiting.length;
  }

  add(change: Change): void {
    this.#waiting.push({ change, untilMs: performance.now() + this.#waitMs });
    // If other changes wait already, the timer for the first of them is running.
    if (this.#waiting.length === 1 || this.#waiting.length > maxAwaiting) this.#passKnown();
  }

  #passKnown(): void {
    clearTimeout(this.#timer);
    let passed = 0;
    for (const { change, untilMs } of this.#waiting) {
      const by = this.#authors.by(change);
      const mayWait = this.#waiting.length - passed <= maxAwaiting;
      const stranger = strangerOf(change, by);
      if (mayWait && stranger !== undefined && this.#waitsFor(stranger.cgroup, untilMs)) {
        this.#timer = setTimeout(() => this.#passKnown(), untilMs - performance.now());
        this.#timer.unref();
        break;
      }
      passed++;
      this.#pass(change, by);
    }
    this.#waiting.splice(0, passed);
  }

  #waitsFor(cgroup: string, untilMs: number): boolean {
    const nowMs = performance.now();
    if (nowMs < untilMs) return !((this.#strangers.get(cgroup) ?? 0) > nowMs);
    if (this.#strangers.size >= maxStrangers) this.#strangers.clear();
    this.#strangers.set(cgroup, nowMs + strangersMs);
    return false;
  }

  [Symbol.dispose](): void {
    this.#subscription[Symbol.dispose]();
    clearTimeout(this.#timer);
    this.#waiting.length = 0;
  }
}

/** The process whose container is unknown; undefined if all are known. */
function strangerOf({ author, contentAuthor }: Change, by: ChangedBy): ChangeProcess | undefined {
  if (by.author?.relation === 'unknown') return contentAuthor;
  return by.touchedBy?.relation === 'unknown' ? author : undefined;
}
