/** Sizes by bucket, to be read by {@link Metrics.histogram}. */
import type { HistogramReading } from './metrics.ts';

/** Counts since it was made. */
export class Histogram {
  readonly #bounds: readonly number[];
  readonly #counts: number[];
  #sum = 0;

  /** @param bounds as {@link HistogramReading.bounds} */
  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = Array.from({ length: bounds.length + 1 }, () => 0);
  }

  add(size: number): void {
    const at = this.#bounds.findIndex((bound) => size <= bound);
    const bucket = at === -1 ? this.#bounds.length : at;
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1;
    this.#sum += size;
  }

  read(): HistogramReading {
    return { bounds: this.#bounds, counts: this.#counts, sum: this.#sum };
  }
}
