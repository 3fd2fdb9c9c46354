/**
 * Alerts to stdout: those that fit, the last of what there was, then each that comes.
 *
 * @module
 */
import type { LineWriter } from '../../shared/observe/lines.ts';
import { alertTimeNs, formatAlert, parseAlert } from './alert-line.ts';
import type { PrettyAlertOptions } from './date-before.ts';
import type { AlertFilter } from './filter.ts';
import { formatFinding, parseFinding } from './finding-line.ts';

export interface AlertPrinterOptions {
  readonly out: LineWriter;
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

  /** Takes any line; what is no alert, or does not fit, is left out. Returns a promise where the reader is slow. */
  line(line: string): Promise<void> | undefined {
    const { filter, format, colour, tail } = this.#options;
    const shown = shownLine(line, filter, { colour, nowMs: Date.now() });
    if (shown === undefined) return undefined;
    const text = format === 'json' ? line : shown.pretty();
    if (this.#held === undefined) return this.#write(text);
    this.#held.push({ timeNs: shown.timeNs, text });
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

/** An alert or a finding that is to be shown. */
function shownLine(
  line: string,
  filter: AlertFilter,
  options: PrettyAlertOptions,
): { readonly timeNs: bigint; readonly pretty: () => string } | undefined {
  const alert = parseAlert(line);
  if (alert !== undefined) {
    if (!filter(alert)) return undefined;
    return { timeNs: alertTimeNs(alert.timestamp) ?? 0n, pretty: () => formatAlert(alert, options) };
  }
  const finding = parseFinding(line);
  if (finding === undefined || !filter(finding)) return undefined;
  const timeNs = BigInt(Math.trunc(finding.seenMs)) * 1_000_000n;
  return { timeNs, pretty: () => formatFinding(finding, options) };
}

function lastOf<T extends { readonly timeNs: bigint }>(alerts: readonly T[], tail: number): T[] {
  const sorted = alerts.toSorted((a, b) => (a.timeNs < b.timeNs ? -1 : a.timeNs > b.timeNs ? 1 : 0));
  return tail >= sorted.length ? sorted : sorted.slice(sorted.length - tail);
}
