/** Prints lines of guards to stdout: the matching ones, first the most recent past ones, then each new one. */
import type { LineKind } from '../line-kind.ts';
import type { LineWriter } from '../../lib/output/lines.ts';
import { readFinding } from '../stream/read-finding.ts';
import type { AlertFilter } from './filter.ts';

interface AlertPrinterOptions {
  readonly out: LineWriter;
  readonly kinds: readonly LineKind[];
  readonly filter: AlertFilter;
  readonly format: 'pretty' | 'json';
  readonly colour: boolean;
  /** How many of those that were there before. */
  readonly tail: number;
  readonly signal: AbortSignal;
}

/** More is not given to stdout at a time: a slow reader is felt where the alerts come from, which counts what it drops. */
const WAITING_BYTES = 256 * 1024;
/** So many more than the tail are held before the oldest are let go. */
const SLACK = 1000;

export class AlertPrinter {
  readonly #options: AlertPrinterOptions;
  /** Until it is live: several sources come one after the other, but are shown in the order of time. */
  #held: { readonly timeNs: bigint; readonly text: string }[] | undefined = [];

  constructor(options: AlertPrinterOptions) {
    this.#options = options;
  }

  /** Takes any line; what is no guard's, or does not fit, is left out. Returns a promise where the reader is slow. */
  line(line: string): Promise<void> | undefined {
    const { kinds, filter, format, colour, tail } = this.#options;
    const finding = readFinding(line);
    if (finding === undefined) return undefined;
    const view = kinds.find(({ kind }) => kind === finding.head.kind)?.view(finding);
    if (view === undefined || !filter(finding, view)) return undefined;
    const text = format === 'json' ? line : view.pretty({ colour, nowMs: Date.now() });
    if (this.#held === undefined) return this.#write(text);
    this.#held.push({ timeNs: finding.timeNs, text });
    if (this.#held.length > 2 * tail + SLACK) this.#held = lastOf(this.#held, tail);
    return undefined;
  }

  /** What there was is complete. */
  async live(): Promise<void> {
    const held = this.#held;
    if (held === undefined) return;
    this.#held = undefined;
    for (const { text } of lastOf(held, this.#options.tail)) await this.#write(text);
  }

  #write(text: string): Promise<void> | undefined {
    const { out, signal } = this.#options;
    out.write(text);
    return out.spooledBytes > WAITING_BYTES ? out.flush(signal).catch(() => undefined) : undefined;
  }
}

function lastOf<T extends { readonly timeNs: bigint }>(alerts: readonly T[], tail: number): T[] {
  const sorted = alerts.toSorted((a, b) => (a.timeNs < b.timeNs ? -1 : a.timeNs > b.timeNs ? 1 : 0));
  return tail >= sorted.length ? sorted : sorted.slice(sorted.length - tail);
}
