/**
 * Explained changes that will be accepted into the baseline: they wait for the step that does so. While it runs, more
 * may be added, and some may change again.
 */
import type { ByteString } from '../model/entry.ts';
import { type Explanation, explanationText, type PackageUpdate } from '../model/explanation.ts';
import type { ReportedChange } from '../model/report.ts';
import type { Acceptance } from '../provider/provider.ts';
import type { PathUpdate } from '../results/held-finding.ts';

export interface Explained {
  readonly update: PathUpdate;
  readonly explanation: Explanation;
}

/** What one step accepts. */
export interface UpdatesToAccept {
  readonly all: ReadonlyMap<ByteString, Explained>;
  /** Sorted by their bytes. */
  readonly paths: readonly ByteString[];
  /** The updates as text. */
  readonly updates: readonly string[];
  readonly about: Acceptance;
  readonly expected: ReadonlyMap<ByteString, ReportedChange>;
}

/** The outcome of one step. */
export interface AcceptedUpdates {
  readonly taken: readonly PathUpdate[];
  readonly left: readonly PathUpdate[];
  readonly accepted: readonly PackageUpdate[];
}

/** Limit of the reason that names the updates, in characters. */
const maxReason = 1000;

export class AcceptableUpdates {
  readonly #all = new Map<ByteString, Explained>();

  get size(): number {
    return this.#all.size;
  }

  paths(): Iterable<ByteString> {
    return this.#all.keys();
  }

  set(path: ByteString, explained: Explained): void {
    this.#all.set(path, explained);
  }

  /** Call when the file has changed again. */
  delete(path: ByteString): void {
    this.#all.delete(path);
  }

  clear(): void {
    this.#all.clear();
  }

  /** The current updates, in the form that providers accept. */
  toAccept(): UpdatesToAccept {
    const all = new Map(this.#all);
    const updates = [...new Set([...all.values()].map(({ explanation }) => explanationText(explanation)))];
    return {
      ...{ all, updates },
      paths: [...all.keys()].sort((a, b) => (a < b ? -1 : 1)),
      about: { author: 'dpkg', reason: updates.join(', ').slice(0, maxReason) },
      expected: new Map(
        [...all].flatMap(([path, { update }]) => (update.change ? [[path, update.change]] : [])),
      ),
    };
  }

  /** Call after the step. @param left paths that were not accepted */
  settle(all: UpdatesToAccept['all'], left: ReadonlySet<ByteString>, atMs: number): AcceptedUpdates {
    const files = new Map<string, number>();
    const taken: PathUpdate[] = [];
    const others: PathUpdate[] = [];
    for (const [path, { update, explanation }] of all) {
      if (this.#all.get(path)?.update === update) this.#all.delete(path);
      if (left.has(path)) others.push(update);
      else {
        const explained = explanationText(explanation);
        files.set(explained, (files.get(explained) ?? 0) + 1);
        taken.push({ ...update, explained, explanation });
      }
    }
    const accepted = [...files].map(([update, count]) => ({ update, files: count, atMs, accepted: true }));
    return { taken, left: others, accepted };
  }
}
