/** Prints the lines of guards that match a filter to stdout: first the most recent past ones, then each new one. */
import type { LineFold, LineKind } from '../line-kind.ts';
import { yamlDocument } from '../../lib/cli/document.ts';
import type { PrettyFormat } from '../../lib/cli/output-option.ts';
import type { LineWriter } from '../../lib/output/lines.ts';
import { readFinding } from '../stream/read-finding.ts';
import type { AlertFilter } from './filter.ts';

interface AlertPrinterOptions {
  readonly out: LineWriter;
  /** Line kinds by guard; lines of other guards are skipped. */
  readonly kinds: ReadonlyMap<string, readonly LineKind[]>;
  readonly filter: AlertFilter;
  readonly format: PrettyFormat;
  readonly colour: boolean;
  /** How many past lines to print: for each kind of each guard, or in total. */
  readonly tail: number;
  readonly isTailOfEach: boolean;
  readonly signal: AbortSignal;
}

/** No more than this is handed to stdout at a time: if the reader is slow, the source of the alerts notices, and counts what it drops. */
const WAITING_BYTES = 256 * 1024;
/** How many lines beyond the tail are held before the oldest are dropped. */
const SLACK = 1000;
/** The count of repeated lines is printed once none has come for this long. */
const FOLD_MS = 1000;

interface Shown {
  readonly text: string;
  readonly fold: LineFold | undefined;
}

interface Held extends Shown {
  readonly timeNs: bigint;
}

export class AlertPrinter {
  readonly #options: AlertPrinterOptions;
  /** The past lines, held until `live`: several sources deliver one after the other, but the lines are printed in order of time. */
  #held: Map<string, Held[]> | undefined = new Map<string, Held[]>();
  #folded: { readonly fold: LineFold; count: number } | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: AlertPrinterOptions) {
    this.#options = options;
  }

  /** Takes any line; skips lines that are not findings, and those that the filter excludes. Returns a promise if the reader is slow. */
  line(line: string): Promise<void> | undefined {
    const { kinds, filter, format, colour, tail, isTailOfEach } = this.#options;
    const finding = readFinding(line);
    if (finding === undefined) return undefined;
    const { guard, kind: given } = finding.head;
    const view = kinds
      .get(guard)
      ?.find(({ kind }) => kind === given)
      ?.view(finding);
    if (view === undefined || !filter(finding, view)) return undefined;
    const shown =
      format === 'pretty'
        ? { text: view.pretty({ colour, nowMs: Date.now() }), fold: view.fold }
        : { text: format === 'json' ? line : yamlDocument(line), fold: undefined };
    if (this.#held === undefined) return this.#show(shown);
    const of = isTailOfEach ? `${guard} ${given}` : '';
    const held = this.#held.get(of) ?? [];
    held.push({ timeNs: finding.timeNs, ...shown });
    this.#held.set(of, held.length > 2 * tail + SLACK ? lastOf(held, tail) : held);
    return undefined;
  }

  /** Called when all past lines have been delivered: prints them. */
  async live(): Promise<void> {
    const held = this.#held;
    if (held === undefined) return;
    this.#held = undefined;
    const last = [...held.values()].flatMap((of) => lastOf(of, this.#options.tail));
    for (const shown of lastOf(last, Infinity)) await this.#show(shown);
  }

  /** Called when no more lines will come. */
  async end(): Promise<void> {
    await this.#endFold();
  }

  #show({ text, fold }: Shown): Promise<void> | undefined {
    if (fold !== undefined && fold.key === this.#folded?.fold.key) {
      this.#folded.count++;
      this.#timer ??= setTimeout(() => void this.#endFold(), FOLD_MS).unref();
      return undefined;
    }
    void this.#endFold();
    if (fold !== undefined) this.#folded = { fold, count: 0 };
    return this.#write(text);
  }

  #endFold(): Promise<void> | undefined {
    const folded = this.#folded;
    clearTimeout(this.#timer);
    [this.#timer, this.#folded] = [undefined, undefined];
    return folded === undefined || folded.count === 0
      ? undefined
      : this.#write(folded.fold.rest(folded.count));
  }

  #write(text: string): Promise<void> | undefined {
    const { out, signal } = this.#options;
    out.write(text);
    return out.spooledBytes > WAITING_BYTES ? out.flush(signal).catch(() => undefined) : undefined;
  }
}

function lastOf(lines: readonly Held[], tail: number): Held[] {
  const sorted = lines.toSorted((a, b) => (a.timeNs < b.timeNs ? -1 : a.timeNs > b.timeNs ? 1 : 0));
  return tail >= sorted.length ? sorted : sorted.slice(sorted.length - tail);
}
