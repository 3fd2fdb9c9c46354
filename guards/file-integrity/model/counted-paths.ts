/**
 * Counts changed paths, and keeps only the path and the kind of each change. So a path that changes again, or is
 * restored, is not counted twice.
 */
import type { ByteString } from './entry.ts';
import type { ReportedChange } from './report.ts';

export type ChangeKind = ReportedChange['kind'];
export type ChangeCounts = Readonly<Record<ChangeKind, number>>;

/** Limit of kept paths, which take about 50 MB. */
const maxPaths = 300_000;

export class CountedPaths {
  readonly #kinds = new Map<ByteString, ChangeKind>();
  readonly #max: number;
  readonly #counts = { added: 0, removed: 0, changed: 0 };
  #isComplete = true;

  /** @param max limit of kept paths; further ones are only counted */
  constructor(max = maxPaths) {
    this.#max = max;
  }

  get counts(): ChangeCounts {
    return this.#counts;
  }

  get size(): number {
    return this.#counts.added + this.#counts.removed + this.#counts.changed;
  }

  /** Whether all counted paths are known. */
  get isComplete(): boolean {
    return this.#isComplete;
  }

  get paths(): Iterable<ByteString> {
    return this.#kinds.keys();
  }

  get(path: ByteString): ChangeKind | undefined {
    return this.#kinds.get(path);
  }

  set(path: ByteString, kind: ChangeKind): void {
    this.delete(path);
    if (this.#kinds.size >= this.#max) return this.count(kind, 1);
    this.#counts[kind]++;
    // Copied, because a substring would keep the whole text in memory that it was taken from.
    this.#kinds.set(Buffer.from(path, 'latin1').toString('latin1'), kind);
  }

  /** Adds a number of changes whose paths are unknown. */
  count(kind: ChangeKind, number: number): void {
    this.#counts[kind] += number;
    if (number > 0) this.#isComplete = false;
  }

  delete(path: ByteString): ChangeKind | undefined {
    const kind = this.#kinds.get(path);
    if (kind === undefined) return undefined;
    this.#kinds.delete(path);
    this.#counts[kind]--;
    return kind;
  }
}
