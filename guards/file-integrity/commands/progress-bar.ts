/** Shows the progress of a scan on one line of a terminal, which is cleared at the end. */
import { paint, wantsColour } from '../../../lib/output/table.ts';
import type { ScanProgress } from '../provider/provider.ts';

/** A run that is shorter than this shows no progress. */
const QUIET_MS = 1000;
const EVERY_MS = 100;
const BAR_COLUMNS = 24;
const DEFAULT_COLUMNS = 80;
const WINDOW_MS = 5000;
const ERASE = '\r\u001b[K';
const wholeNumbers = new Intl.NumberFormat('en');

interface Terminal {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

/** Shows nothing if the stream is not a terminal. Dispose it before writing anything else to the stream. */
export class ProgressBar implements Disposable {
  readonly #terminal: Terminal;
  readonly #startedMs: number;
  readonly #isShown: boolean;
  readonly #now: () => number;
  readonly #window: { readonly atMs: number; readonly bytes: number }[] = [];
  #drawnMs = -Infinity;
  #isDrawn = false;
  #isOver = false;

  constructor(terminal: Terminal, now: () => number = () => performance.now()) {
    this.#terminal = terminal;
    this.#now = now;
    this.#startedMs = now();
    this.#isShown = terminal.isTTY === true && process.env['TERM'] !== 'dumb';
  }

  get isShown(): boolean {
    return this.#isShown;
  }

  show(progress: ScanProgress): void {
    const now = this.#now();
    if (!this.#isShown || this.#isOver || now - this.#startedMs < QUIET_MS || now - this.#drawnMs < EVERY_MS)
      return;
    this.#drawnMs = now;
    this.#isDrawn = true;
    this.#window.push({ atMs: now, bytes: progress.bytes });
    while ((this.#window[0]?.atMs ?? now) < now - WINDOW_MS) this.#window.shift();
    const [first = { atMs: this.#startedMs, bytes: 0 }] = this.#window.length > 1 ? this.#window : [];
    const bytesPerSecond = ((progress.bytes - first.bytes) * 1000) / Math.max(1, now - first.atMs);
    const line = progressLine(progress, {
      ...{ bytesPerSecond, elapsedMs: now - this.#startedMs },
      columns: (this.#terminal.columns || DEFAULT_COLUMNS) - 1,
      colour: wantsColour(this.#terminal),
    });
    this.#terminal.write(ERASE + line);
  }

  [Symbol.dispose](): void {
    this.#isOver = true;
    if (this.#isDrawn) this.#terminal.write(ERASE);
  }
}

interface LineFacts {
  readonly bytesPerSecond: number;
  readonly elapsedMs: number;
  readonly columns: number;
  readonly colour: boolean;
}

/** The line of text. Parts that do not fit are omitted: first the bar, then parts from the end. */
export function progressLine(progress: ScanProgress, facts: LineFacts): string {
  const { files, bytes } = progress;
  const part = fractionOf(progress);
  const parts = [`${wholeNumbers.format(files)} files`, size(bytes), `${size(facts.bytesPerSecond)}/s`];
  if (part !== undefined && part > 0.005) parts.push(`${clock((facts.elapsedMs * (1 - part)) / part)} left`);
  let percent = '';
  let bar = '';
  if (part !== undefined) {
    percent = `${String(Math.floor(part * 100)).padStart(3)} %  `;
    bar = `${'━'.repeat(Math.round(part * BAR_COLUMNS)).padEnd(BAR_COLUMNS, '─')} `;
    // The percentage has the same information.
    if (bar.length + percent.length + (parts[0]?.length ?? 0) > facts.columns) bar = '';
    if (percent.length > facts.columns) percent = '';
  }
  let reported = '';
  let width = bar.length + percent.length;
  for (const one of parts) {
    const more = reported === '' ? one : `  ${one}`;
    if (width + more.length > facts.columns) break;
    reported += more;
    width += more.length;
  }
  return paint('cyan', bar + percent, facts.colour) + reported;
}

/** The completed fraction. It is approximate: there may be more files than in the baseline. */
function fractionOf({ files, bytes, expectedFiles, expectedBytes }: ScanProgress): number | undefined {
  const some: number[] = [];
  if (expectedFiles !== undefined && expectedFiles > 0) some.push(files / expectedFiles);
  if (expectedBytes !== undefined && expectedBytes > 0) some.push(bytes / expectedBytes);
  if (some.length === 0) return undefined;
  return Math.min(0.99, some.reduce((sum, one) => sum + Math.min(1, one), 0) / some.length);
}

function size(bytes: number): string {
  let value = bytes;
  for (const unit of ['B', 'KiB', 'MiB', 'GiB']) {
    if (value < 1000) return `${value < 10 && unit !== 'B' ? value.toFixed(1) : Math.round(value)} ${unit}`;
    value /= 1024;
  }
  return `${value.toFixed(1)} TiB`;
}

function clock(ms: number): string {
  const seconds = Math.ceil(ms / 1000);
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  const two = (value: number): string => String(value).padStart(2, '0');
  return hours > 0 ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`;
}
