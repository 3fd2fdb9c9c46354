/**
 * The log of one agent's pod: each line once, however often it is asked for again.
 *
 * @module
 */
import { apiTime, apiTimeNs } from '../../shared/kube/api-time.ts';

/** Remembers up to where a log with timestamps was read. */
export class LogPosition {
  #lastNs: bigint | undefined;
  /** The lines of that very moment. */
  readonly #atLast = new Set<string>();

  /**
   * From when on to ask; undefined before the first line. The API counts in whole seconds (metav1.Time), so lines of before
   * come again.
   */
  get sinceTime(): string | undefined {
    return this.#lastNs === undefined ? undefined : apiTime(Number(this.#lastNs / 1_000_000n));
  }

  /** The line without its time; undefined where it was taken before. */
  take(line: string): string | undefined {
    const space = line.indexOf(' ');
    const ns = space < 0 ? undefined : apiTimeNs(line.slice(0, space));
    // A server that gives no times: then nothing can be told apart.
    if (ns === undefined) return line;
    const text = line.slice(space + 1);
    if (this.#lastNs !== undefined && ns < this.#lastNs) return undefined;
    if (ns === this.#lastNs) {
      if (this.#atLast.has(text)) return undefined;
    } else {
      this.#lastNs = ns;
      this.#atLast.clear();
    }
    this.#atLast.add(text);
    return text;
  }
}
