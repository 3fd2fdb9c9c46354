/** Positions in a configuration, and errors at these positions. */
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';

/** Versions of AIDE that read some lines differently (see README.md). */
export const dialects = ['0.18', '0.19'] as const;
export type Dialect = (typeof dialects)[number];

export interface Source {
  /** Name of the file, as shown in messages. */
  readonly file: string;
  readonly text: string;
  /** Whether each character of `text` is a byte, because the file is not UTF-8. */
  readonly isBytes: boolean;
  /** Whether the author of the configuration may not read this file of the node: messages then omit its text. */
  readonly isPrivate?: boolean;
  /**
   * If `text` is the result of a conversion: the original text, and the offset in it for an offset in `text`. Errors
   * refer to the original.
   */
  readonly written?: { readonly text: string; readonly offsetOf: (offset: number) => number };
}

/** Decodes a file: as UTF-8 if it is valid, otherwise one character for each byte. */
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

/** `line` and `column` count from 1, the column in characters; `offset` and `end` are offsets in the text of the source. */
export interface Position {
  readonly source: Source;
  readonly line: number;
  readonly column: number;
  readonly offset: number;
  readonly end: number;
}

/** `text` is the error: `unknown option 'verbosity'`. `kind` is the same without text of the file: `unknown option '...'`. */
export interface Fault {
  readonly text: string;
  readonly kind: string;
}

/** Creates a fault. Interpolated values count as text of the file, except numbers and other faults. */
export function fault(strings: TemplateStringsArray, ...values: readonly (string | number | Fault)[]): Fault {
  const join = (of: (value: string | number | Fault) => string | number): string =>
    strings.map((part, at) => part + (at < values.length ? of(values[at] ?? '') : '')).join('');
  return {
    text: join((value) => (typeof value === 'object' ? value.text : value)),
    kind: join((value) =>
      typeof value === 'object' ? value.kind : typeof value === 'number' ? value : '...',
    ),
  };
}

/** A fault without text of the file, also for interpolation in {@link fault}. */
export function plain(text: string): Fault {
  return { text, kind: text };
}

export interface ConfProblem {
  readonly severity: 'error' | 'warning';
  readonly at: Position;
  readonly what: Fault;
  /** The remedy, as a sentence without its full stop. */
  readonly next: string;
}

/** Limit of reported errors: a file in another format would have one in each line. */
export const maxErrors = 20;
const maxWarnings = 100;

/** Collects problems; the same problem at the same position counts once. */
export class ProblemList {
  readonly #problems: ConfProblem[] = [];
  readonly #seen = new Set<string>();
  readonly #limit: number;
  #hidesValues = false;
  #errors = 0;
  #warnings = 0;

  /** @param limit number of errors after which evaluation stops */
  constructor(limit = maxErrors) {
    this.#limit = limit;
  }

  /** From now on, messages omit all interpolated text: through a macro, it may come from a file of the node. */
  hideValues(): void {
    this.#hidesValues = true;
  }

  /** @returns the problem that was added */
  error(at: Position, what: Fault, next: string): ConfProblem {
    const problem: ConfProblem = { severity: 'error', at, what: this.#reported(what), next };
    this.#add(problem);
    return problem;
  }

  warn(at: Position, what: Fault, next: string): void {
    this.#add({ severity: 'warning', at, what: this.#reported(what), next });
  }

  #reported(what: Fault): Fault {
    return this.#hidesValues ? { text: what.kind, kind: what.kind } : what;
  }

  #add(problem: ConfProblem): void {
    const { severity, at, what } = problem;
    const key = `${at.source.file}:${at.offset}:${what.text}`;
    if (this.#seen.has(key)) return;
    this.#seen.add(key);
    const isReported = severity === 'error' ? ++this.#errors <= this.#limit : ++this.#warnings <= maxWarnings;
    if (isReported) this.#problems.push(problem);
  }

  addAll(other: ProblemList): void {
    for (const problem of other.#problems) this.#add(problem);
    this.#errors = Math.max(this.#errors, other.#errors);
  }

  /** Number of errors, including those beyond the limit. */
  get errorCount(): number {
    return this.#errors;
  }

  get isFull(): boolean {
    return this.#errors >= this.#limit;
  }

  /** In the order in which they were found. */
  get problems(): readonly ConfProblem[] {
    return this.#problems;
  }

  /** @throws {RampartError} INPUT with all errors, if there are any */
  throwErrors(what: string): void {
    const errors = this.#problems.filter(({ severity }) => severity === 'error');
    const [first] = errors;
    if (first === undefined) return;
    const more = this.#errors - errors.length;
    const rest = errors.slice(1).map(describeProblem);
    if (more > 0) rest.push(`... and ${more} more`);
    throw new RampartError(errorCodes.INPUT, {
      what,
      why: whereAndWhat(first),
      next: nextOf(first),
      ...(rest.length === 0 ? {} : { detail: rest.join('\n') }),
    });
  }
}

/** A position as text: `aide.conf:3:7`. */
function placeOf({ source, line, column, offset }: Position): string {
  if (source.written === undefined) return `${source.file}:${line}:${column}`;
  const { text, offsetOf } = source.written;
  const lines = text.slice(0, offsetOf(offset)).split('\n');
  return `${source.file}:${lines.length}:${(lines.at(-1) ?? '').length + 1}`;
}

const maxLineShown = 120;

/** The line as written, without surrounding blanks; truncated if it is long. */
function lineOf({ source, offset }: Position): string {
  const { text, offsetOf } = source.written ?? { text: source.text, offsetOf: (same: number) => same };
  const at = offsetOf(offset);
  const start = text.lastIndexOf('\n', at - 1) + 1;
  const end = text.indexOf('\n', at);
  const line = text.slice(start, end === -1 ? undefined : end).trim();
  return line.length > maxLineShown ? `${line.slice(0, maxLineShown)}...` : line;
}

/** The text of a problem: `aide.conf:3:7: unknown option 'verbosity' (line 'verbosity=5'). Remedy.` */
export function describeProblem(problem: ConfProblem): string {
  return `${whereAndWhat(problem)}. ${nextOf(problem)}.`;
}

function whereAndWhat({ at, what }: ConfProblem): string {
  if (at.source.isPrivate === true) return `${placeOf(at)}: ${what.kind}`;
  return `${placeOf(at)}: ${what.text} (line '${lineOf(at)}')`;
}

function nextOf({ at, next }: ConfProblem): string {
  return at.source.isPrivate === true ? 'Correct the line in that file on the node' : next;
}
