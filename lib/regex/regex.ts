/**
 * Regular expressions of Go (RE2) with its guarantee: the time to match grows linearly with the text, whatever the
 * pattern is. https://github.com/google/re2/wiki/Syntax
 *
 * JavaScript's own engine is not used: its syntax differs (`(?i)`, `\z`, `[[:alpha:]]`, `\Q..\E`, `\pN` are unknown
 * to it, lookaheads and back references known), and it backtracks, so that a schema's pattern could be made to run
 * for years by one object.
 */
import { createRequire } from 'node:module';
import type * as re2js from 're2js';

/** A pattern that Go would not compile; the message is Go's. */
export class RegexSyntaxError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'RegexSyntaxError';
  }
}

/** Pattern and text need more steps than one match may take. */
export class RegexBudgetError extends Error {
  constructor() {
    super('the match needs too many steps');
    this.name = 'RegexBudgetError';
  }
}

const maxInstructions = 50_000;
/** Limit of instructions times characters: some seconds in the slowest mode of the engine. */
const maxStepsPerMatch = 200_000_000;

const require = createRequire(import.meta.url);

/** Loaded when first needed: it takes 10 ms and 2 MiB, and many agents have no expression to match. */
function engine(): typeof re2js {
  return require('re2js') as typeof re2js;
}

/** A compiled expression. Holds only memory; nothing has to be disposed. */
export class Regex {
  readonly pattern: string;
  /** Limit of the instructions that are run for one character of a text. */
  readonly size: number;
  readonly #compiled: re2js.RE2JS;

  /** @throws {RegexSyntaxError} for what Go's `regexp.Compile` refuses. */
  constructor(pattern: string) {
    const { RE2JS, RE2JSException } = engine();
    this.pattern = pattern;
    try {
      this.#compiled = RE2JS.compile(pattern);
    } catch (error) {
      if (error instanceof RE2JSException) throw new RegexSyntaxError(error.message);
      throw error;
    }
    this.size = this.#compiled.programSize();
    if (this.size > maxInstructions) throw new RegexSyntaxError('error parsing regexp: expression too large');
  }

  /**
   * Whether the pattern matches anywhere in the text (Go's `MatchString`).
   *
   * @throws {RegexBudgetError} when a pattern of hundreds of instructions meets a text of a megabyte.
   */
  test(text: string): boolean {
    this.#checkSize(text);
    return this.#compiled.test(text);
  }

  /**
   * The leftmost match, with Go's preference among those that begin there (`FindStringIndex`), as `[from, to]` in
   * UTF-16 units.
   *
   * @throws {RegexBudgetError} as {@link test}.
   */
  find(text: string): readonly [number, number] | undefined {
    this.#checkSize(text);
    const matcher = this.#compiled.matcher(text);
    return matcher.find() ? [matcher.start(), matcher.end()] : undefined;
  }

  /** All matches that do not overlap, at most `limit` (Go's `FindAllString`). @throws {RegexBudgetError} */
  findAll(text: string, limit = Infinity): string[] {
    const found: string[] = [];
    if (limit > 0) {
      for (const matcher of this.#matches(text)) {
        found.push(matcher.group() ?? '');
        if (found.length >= limit) break;
      }
    }
    return found;
  }

  /** The texts between the matches (Go's `Split`). @throws {RegexBudgetError} */
  split(text: string): string[] {
    if (text === '' && this.pattern !== '') return [''];
    const parts: string[] = [];
    let [from, end] = [0, 0];
    for (const matcher of this.#matches(text)) {
      end = matcher.start();
      // An empty match at the start separates nothing.
      if (matcher.end() !== 0) parts.push(text.slice(from, end));
      from = matcher.end();
    }
    if (end !== text.length) parts.push(text.slice(from));
    return parts;
  }

  /**
   * Each match replaced (Go's `ReplaceAllString`).
   *
   * @param by - `$1`, `$name`, `${1}` and `${name}` stand for what a group matched, `$$` for a dollar.
   * @throws {RegexBudgetError}
   */
  replaceAll(text: string, by: string): string {
    let [replaced, from] = ['', 0];
    for (const matcher of this.#matches(text)) {
      replaced += text.slice(from, matcher.start()) + this.#expand(by, matcher);
      from = matcher.end();
    }
    return replaced + text.slice(from);
  }

  *#matches(text: string): Generator<re2js.Matcher, void> {
    this.#checkSize(text);
    const matcher = this.#compiled.matcher(text);
    let previousEnd = -1;
    while (matcher.find()) {
      const [start, end] = [matcher.start(), matcher.end()];
      // In Go, an empty match directly after another match does not count.
      if (end > start || start !== previousEnd) yield matcher;
      previousEnd = end;
    }
  }

  #expand(template: string, matcher: re2js.Matcher): string {
    const named = this.#compiled.namedGroups();
    return template.replaceAll(
      /\$(?:(\$)|(\w+)|\{(\w+)\})/g,
      (_all, dollar?: string, bare?: string, braced?: string) => {
        if (dollar !== undefined) return '$';
        const name = bare ?? braced ?? '';
        const group = /^\d+$/.test(name) ? Number(name) : named[name];
        return group === undefined || group > matcher.groupCount() ? '' : (matcher.group(group) ?? '');
      },
    );
  }

  #checkSize(text: string): void {
    if (this.size * text.length > maxStepsPerMatch) throw new RegexBudgetError();
  }
}
