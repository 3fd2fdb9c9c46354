/** Counts observed values by bucket, for {@link Metrics.histogram}. */
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
    let at = 0;
    while (at < this.#bounds.length && size > (this.#bounds[at] as number)) at++;
    this.#counts[at] = (this.#counts[at] as number) + 1;
    this.#sum += size;
  }

  get count(): number {
    return this.#counts.reduce((sum, each) => sum + each, 0);
  }

  read(): HistogramReading {
    return { bounds: this.#bounds, counts: this.#counts, sum: this.#sum };
  }
}
