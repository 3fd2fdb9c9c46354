/**
 * Changes by processes whose container may be known in a moment: the first actions of a container are
 * reported before the runtime has reported it.
 */
import type { Change, ChangeProcess } from '../../../lib/sensor/changes/change.ts';
import type { ChangeAuthors, ChangedBy } from './change-author.ts';

/** Limit of the delay between the start of a container and the query to the runtime, even on a busy machine. */
const defaultWaitMs = 400;
/** A container of another runtime, e.g. Docker, is never reported. */
const strangersMs = 10_000;
const maxStrangers = 1000;
/** With more, the first continues at once: in such a flood, authors are not what matters. */
export const maxAwaiting = 10_000;

/** Hands changes on in their order, so that the last that changed a path is its author. Disposing forgets those that wait. */
export class AwaitedContainers implements Disposable {
  readonly #authors: ChangeAuthors;
  readonly #pass: (change: Change, by: ChangedBy) => void;
  readonly #waitMs: number;
  readonly #subscription: Disposable;
  readonly #waiting: { readonly change: Change; readonly untilMs: number }[] = [];
  /** Cgroups whose container did not come in time, and until when that is remembered. */
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

  /** How many wait. */
  get size(): number {
    return this.#waiting.length;
  }

  add(change: Change): void {
    this.#waiting.push({ change, untilMs: performance.now() + this.#waitMs });
    // The first of those that wait has its timer.
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

/** Whose container is not known. */
function strangerOf({ author, contentAuthor }: Change, by: ChangedBy): ChangeProcess | undefined {
  if (by.author?.relation === 'unknown') return contentAuthor;
  return by.touchedBy?.relation === 'unknown' ? author : undefined;
}
