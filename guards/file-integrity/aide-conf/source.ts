/** Where something stands in a configuration, and what is wrong with it. */
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';

/** Of AIDE: 0.18 and 0.19 read some lines in another way (see README.md). */
export const dialects = ['0.18', '0.19'] as const;
export type Dialect = (typeof dialects)[number];

export interface Source {
  /** As in messages. */
  readonly file: string;
  readonly text: string;
  /** `text` has one character a byte: it came as bytes that are no UTF-8. */
  readonly isBytes: boolean;
  /** Where the text was converted: what people have written, which is what they are told of. */
  readonly written?: { readonly text: string; readonly offsetOf: (offset: number) => number };
}

/** The file's bytes as text: as UTF-8 where they are that, else one character a byte. */
export function sourceOf(file: string, content: string | Uint8Array | Source): Source {
  if (typeof content === 'object' && 'isBytes' in content) return content;
  if (typeof content === 'string') return { file, text: content, isBytes: false };
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(content);
    return { file, text, isBytes: false };
  } catch {
    return { file, text: Buffer.from(content).toString('latin1'), isBytes: true };
  }
}

/** Line and column count from 1, the column in characters; the offsets are into the text of the source. */
export interface Position {
  readonly source: Source;
  readonly line: number;
  readonly column: number;
  readonly offset: number;
  readonly end: number;
}

export interface ConfProblem {
  readonly severity: 'error' | 'warning';
  readonly at: Position;
  /** What is wrong: `unknown option 'verbosity'`. */
  readonly what: string;
  /** What to do, as a sentence without its full stop. */
  readonly next: string;
}

/** As many errors are told; a file of another format would give one a line. */
export const maxErrors = 20;
const maxWarnings = 100;

/** Collects problems; the same one at the same place counts once. */
export class ProblemList {
  readonly #problems: ConfProblem[] = [];
  readonly #seen = new Set<string>();
  #errors = 0;
  #warnings = 0;

  error(at: Position, what: string, next: string): void {
    this.#add({ severity: 'error', at, what, next });
  }

  warn(at: Position, what: string, next: string): void {
    this.#add({ severity: 'warning', at, what, next });
  }

  #add(problem: ConfProblem): void {
    const { severity, at, what } = problem;
    const key = `${at.source.file}:${at.offset}:${what}`;
    if (this.#seen.has(key)) return;
    this.#seen.add(key);
    const isTold = severity === 'error' ? ++this.#errors <= maxErrors : ++this.#warnings <= maxWarnings;
    if (isTold) this.#problems.push(problem);
  }

  addAll(other: ProblemList): void {
    for (const problem of other.#problems) this.#add(problem);
    this.#errors = Math.max(this.#errors, other.#errors);
  }

  /** Also those past {@link maxErrors}. */
  get errorCount(): number {
    return this.#errors;
  }

  get isFull(): boolean {
    return this.#errors >= maxErrors;
  }

  /** In the order of the files that they were found in. */
  get problems(): readonly ConfProblem[] {
    return this.#problems;
  }

  /** @throws {RampartError} INPUT with all errors, when there is one. */
  throwErrors(what: string): void {
    const errors = this.#problems.filter(({ severity }) => severity === 'error');
    const [first] = errors;
    if (first === undefined) return;
    const more = this.#errors - errors.length;
    const rest = errors.slice(1).map(describeProblem);
    if (more > 0) rest.push(`... and ${more} more`);
    throw new RampartError(errorCodes.INPUT, {
      what,
      why: `${placeOf(first.at)}: ${first.what} (line '${lineOf(first.at)}')`,
      next: first.next,
      ...(rest.length === 0 ? {} : { detail: rest.join('\n') }),
    });
  }
}

/** `aide.conf:3:7`. */
function placeOf({ source, line, column, offset }: Position): string {
  if (source.written === undefined) return `${source.file}:${line}:${column}`;
  const { text, offsetOf } = source.written;
  const lines = text.slice(0, offsetOf(offset)).split('\n');
  return `${source.file}:${lines.length}:${(lines.at(-1) ?? '').length + 1}`;
}

const maxLineShown = 120;

/** The line as it is written, without blanks around it; cut where it is long. */
function lineOf({ source, offset }: Position): string {
  const { text, offsetOf } = source.written ?? { text: source.text, offsetOf: (same: number) => same };
  const at = offsetOf(offset);
  const start = text.lastIndexOf('\n', at - 1) + 1;
  const end = text.indexOf('\n', at);
  const line = text.slice(start, end === -1 ? undefined : end).trim();
  return line.length > maxLineShown ? `${line.slice(0, maxLineShown)}...` : line;
}

/** `aide.conf:3:7: unknown option 'verbosity' (line 'verbosity=5'). What to do.` */
export function describeProblem(problem: ConfProblem): string {
  return `${placeOf(problem.at)}: ${problem.what} (line '${lineOf(problem.at)}'). ${problem.next}.`;
}
