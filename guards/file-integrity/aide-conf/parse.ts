/**
 * Parses aide.conf into statements with their positions, without evaluating them or reading other files. An invalid
 * line is reported, and parsing continues with the next one.
 */
import { parseCondition, parseOldCondition, unread } from './condition.ts';
import { Line, LineError } from './line.ts';
import { isAttributeType, oldNames, options, removedOptions, type Option } from './options.ts';
import { fault, type Dialect, type Position, type ProblemList, type Source } from './source.ts';
import type { Condition, IfStatement, RuleKind, Statement, Text } from './syntax.ts';

/** Longer than any path. A longer line suggests that the file is not an aide.conf: such files are often a single line. */
const maxLineLength = 65_536;
/**
 * Limit of the statements of all files of a configuration, not counting empty lines and comments: more rules than fit
 * into an automaton.
 */
export const maxStatements = 15_000;
/** Deeper than any real configuration; evaluating a level takes a nested call. */
const maxConditionDepth = 64;

const sigils: Readonly<Record<string, RuleKind>> = {
  '=': 'equals',
  '!': 'negative',
  '-': 'prune',
  '/': 'regular',
};

/** Parses a configuration. Problems are added to `problems`; wrong statements are left out. */
export function parseAideConf(
  source: Source,
  problems: ProblemList,
  parseOptions: ParseOptions = {},
): readonly Statement[] {
  return new Parser(source, problems, parseOptions).parse();
}

export interface ParseOptions {
  /** Options that AIDE no longer has but that are still accepted, with their type. */
  readonly kept?: ReadonlyMap<string, Option>;
  /** Default: 0.18, which reads a lower-case name as an option; 0.19 may read it as a group. */
  readonly dialect?: Dialect;
  /** Limit of statements, not counting empty lines and comments. Default: {@link maxStatements}. */
  readonly max?: number;
}

const noOptions: ReadonlyMap<string, Option> = new Map();

interface OpenIf {
  readonly at: Position;
  readonly word: string;
  readonly condition: Condition;
  readonly branch: Statement[];
  otherwise: Statement[] | undefined;
}

class Parser {
  readonly #source: Source;
  readonly #problems: ProblemList;
  readonly #kept: ReadonlyMap<string, Option>;
  readonly #dialect: Dialect;
  readonly #top: Statement[] = [];
  #left: number;
  readonly #open: OpenIf[] = [];

  constructor(
    source: Source,
    problems: ProblemList,
    { kept = noOptions, dialect = '0.18', max = maxStatements }: ParseOptions,
  ) {
    this.#left = max;
    this.#kept = kept;
    this.#dialect = dialect;
    this.#source = source;
    this.#problems = problems;
  }

  parse(): readonly Statement[] {
    const { text } = this.#source;
    let number = 0;
    let start = 0;
    while (start < text.length && !this.#problems.isFull) {
      const newline = text.indexOf('\n', start);
      const end = newline === -1 ? text.length : newline;
      const line = new Line(this.#source, ++number, start, Math.min(end, start + maxLineLength));
      try {
        if (end - start > maxLineLength) {
          throw new LineError(
            line.position(),
            fault`longer than ${maxLineLength} characters`,
            'Make it shorter',
          );
        }
        this.#line(line);
      } catch (error) {
        if (!(error instanceof LineError)) throw error;
        this.#problems.error(error.at, error.what, error.next);
      }
      start = end + 1;
    }
    for (const { at, word } of this.#open.splice(0)) {
      if (!this.#problems.isFull) {
        this.#problems.error(
          at,
          fault`${{ text: word, kind: '@@if' }} has no @@endif`,
          'Write @@endif on a line of its own where the block ends',
        );
      }
    }
    return this.#top;
  }

  get #statements(): Statement[] {
    const open = this.#open.at(-1);
    return open === undefined ? this.#top : (open.otherwise ?? open.branch);
  }

  #line(line: Line): void {
    const at = line.position();
    if (line.isAtEnd || line.rest.startsWith('#')) return;
    if (this.#left-- <= 0) {
      if (this.#left === -1)
        throw new LineError(at, fault`too many lines in all files together`, 'Write fewer');
      return;
    }
    if (line.rest.startsWith('@@')) this.#macro(line, at);
    else if (/^[=!-]?\//.test(line.rest)) this.#rule(line, at);
    else this.#assignment(line, at);
  }

  #rule(line: Line, at: Position): void {
    const type = sigils[line.rest[0] ?? ''] ?? 'regular';
    if (type !== 'regular') line.at++;
    const path = line.needText(fault`the path`, 'Write a regular expression that starts with /');
    const isNegative = type === 'negative' || type === 'prune';
    this.#statements.push({ kind: 'rule', at, type, path, ...line.afterPath(isNegative) });
  }

  #assignment(line: Line, at: Position): void {
    const from = line.at;
    const name = line.take(/^[A-Za-z0-9_%]+/);
    if (line.number === 1 && /^(?:\ufeff|\xef\xbb\xbf)/.test(line.rest)) {
      const next = 'Save the file as UTF-8 without one: AIDE refuses it too';
      throw new LineError(at, fault`the file starts with a byte order mark, which editors do not show`, next);
    }
    if (name === undefined) {
      throw new LineError(
        at,
        fault`found '${line.rest}' where an option, a group, a rule or a macro is expected`,
        /^[=!-]\s/.test(line.rest)
          ? 'Remove the blank before the /'
          : 'A rule starts with / (=/, !/, -/), a macro with @@',
      );
    }
    const nameAt = line.position(from, line.at);
    line.skipBlanks();
    const known = oldNames.get(name) ?? name;
    const option = options.get(known) ?? this.#kept.get(name);
    if (option === undefined && !isGroupName(name, this.#dialect)) throw unknownOption(nameAt, name);
    if (line.take(/^=/) === undefined) {
      throw new LineError(
        nameAt,
        fault`'${name}' has no =`,
        `Write ${name}=... for an option or a group; a rule starts with /`,
      );
    }
    line.skipBlanks();
    if (option === undefined) {
      this.#statements.push({ kind: 'group', at, name, nameAt, expression: line.expression() });
      return;
    }
    const value = isAttributeType(option.type)
      ? line.expression()
      : line.needText(fault`the value`, `Write ${name}=..., or remove the line`);
    if (!isAttributeType(option.type))
      line.expectEnd('A value ends at a blank; write \\ before a blank that is part of it');
    this.#statements.push({ kind: 'option', at, name, nameAt, value });
  }

  #macro(line: Line, at: Position): void {
    const word = line.take(/^@@[a-z_]*/) ?? '';
    const hasBlank = line.skipBlanks();
    if (!hasBlank && !line.isAtEnd) throw unknownMacro(at, word + line.rest);
    switch (word) {
      case '@@define': {
        const name = this.#variable(line);
        line.skipBlanks();
        const value = line.text();
        line.expectEnd('A value ends at a blank; write \\ before a blank that is part of it');
        this.#statements.push({ kind: 'define', at, name, value });
        return;
      }
      case '@@undef': {
        const name = this.#variable(line);
        line.expectEnd('Write @@undef and one name');
        this.#statements.push({ kind: 'undef', at, name });
        return;
      }
      case '@@include':
      case '@@x_include': {
        const next = `Write ${word} FILE, or ${word} DIRECTORY REGEX [PREFIX]`;
        const path = line.needText(fault`the file`, next);
        const [pattern, prefix] = [this.#optional(line), this.#optional(line)];
        line.expectEnd(next);
        this.#statements.push({
          kind: 'include',
          at,
          executes: word === '@@x_include',
          path,
          pattern,
          prefix,
        });
        return;
      }
      case '@@x_include_setenv': {
        const name = line.take(/^[A-Za-z_][A-Za-z0-9_]*(?=[ \t])/);
        const next = 'Write @@x_include_setenv NAME VALUE; a name consists of letters, digits and _';
        if (name === undefined)
          throw new LineError(line.position(), fault`the name of the variable is missing or invalid`, next);
        const value = line.needText(fault`the value`, next);
        line.expectEnd(next);
        this.#statements.push({ kind: 'setenv', at, name, value });
        return;
      }
      default:
        this.#condition(line, at, word);
    }
  }

  #optional(line: Line): Text | undefined {
    line.skipBlanks();
    return line.text();
  }

  #variable(line: Line): string {
    const name = line.take(/^[A-Za-z0-9_]+(?=[ \t]|$)/);
    if (name !== undefined) return name;
    throw new LineError(
      line.position(),
      line.isAtEnd
        ? fault`the name of the variable is missing`
        : fault`'${line.rest}' does not start with the name of a variable`,
      'A name consists of letters, digits and _',
    );
  }

  #condition(line: Line, at: Position, word: string): void {
    const open = this.#open.at(-1);
    switch (word) {
      case '@@else':
      case '@@endif':
        line.expectEnd(`Write ${word} alone on its line`);
        if (open === undefined) {
          throw new LineError(
            at,
            fault`${{ text: word, kind: '@@else or @@endif' }} without @@if`,
            `Remove it, or write the @@if that it belongs to`,
          );
        }
        if (word === '@@endif') this.#close(open);
        else if (open.otherwise === undefined) open.otherwise = [];
        else throw new LineError(at, fault`a second @@else`, 'Remove one of them');
        return;
      case '@@if':
      case '@@ifdef':
      case '@@ifndef':
      case '@@ifhost':
      case '@@ifnhost': {
        if (this.#open.length >= maxConditionDepth) {
          throw new LineError(at, fault`more than ${maxConditionDepth} nested conditions`, 'Use fewer');
        }
        const opened: OpenIf = { at, word, condition: unread, branch: [], otherwise: undefined };
        this.#open.push(opened);
        // The condition is already open, so an error in it does not make its @@endif an error too.
        const condition = word === '@@if' ? parseCondition(line) : parseOldCondition(line, word);
        line.expectEnd('A condition ends at the end of its line');
        this.#open[this.#open.length - 1] = { ...opened, condition };
        return;
      }
      default:
        throw unknownMacro(at, word);
    }
  }

  #close(open: OpenIf): void {
    this.#open.pop();
    const { at, word, condition, branch, otherwise } = open;
    const statement: IfStatement = { kind: 'if', at, word, condition, branch, otherwise };
    this.#statements.push(statement);
    for (const part of [branch, otherwise]) {
      if (part?.length === 0) {
        this.#problems.warn(
          at,
          fault`a branch of ${{ text: word, kind: '@@if' }} is empty`,
          'AIDE itself refuses it: remove the branch',
        );
      }
    }
  }
}

/**
 * Whether a name is a group, not an option. AIDE reads a name of only lowercase letters and _ as an option; 0.19 does
 * so only if the name contains a _ or is, or once was, an option.
 */
export function isGroupName(name: string, dialect: Dialect): boolean {
  if (!/^[a-z_]+$/.test(name)) return true;
  return dialect === '0.19' && !name.includes('_') && !removedOptions.has(name);
}

function unknownOption(at: Position, name: string): LineError {
  const next = removedOptions.get(name);
  return next === undefined
    ? new LineError(
        at,
        fault`unknown option '${name}'`,
        'See aide.conf(5) for the options; the name of a group must contain a capital letter or a digit',
      )
    : new LineError(at, fault`AIDE no longer has the option '${name}'`, next);
}

function unknownMacro(at: Position, word: string): LineError {
  return new LineError(
    at,
    fault`unknown macro '${word.split(/[ \t]/)[0] ?? ''}'`,
    'Write @@define, @@undef, @@if, @@else, @@endif, @@include, @@x_include or @@x_include_setenv',
  );
}
