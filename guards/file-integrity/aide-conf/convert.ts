/**
 * Converts an aide.conf written for a host into one for a container that has the host's root mounted. Rules, databases,
 * logs, includes and conditions are moved to the mounted root, lines for older AIDE versions are updated, and checksums
 * are limited to those that FIPS 140-3 approves. Comments and formatting stay; what is already converted is not
 * changed.
 */
import { attributeNamed, defaultGroups } from '../model/attributes.ts';
import { convertExpression } from './convert-expression.ts';
import { convertInclude, insideRoot, isInside, leadsToHost, writtenPath } from './convert-path.ts';
import { Groups } from './expression.ts';
import { oldNames, type Option, options } from './options.ts';
import { parseAideConf } from './parse.ts';
import { type ConfProblem, fault, ProblemList, type Source, sourceOf } from './source.ts';
import { TextEdits } from './text-edits.ts';
import {
  allStatements,
  type Condition,
  type Expression,
  needsNew,
  type OptionStatement,
  type RuleStatement,
  type Statement,
} from './syntax.ts';
import { refuseExecution } from './include.ts';
import { oldConditions } from './condition.ts';

interface ConversionOptions {
  /** Where the host's root is mounted; `/hostroot` by default. */
  readonly hostRoot?: string;
}

const usualRoot = '/hostroot';

interface Conversion {
  readonly text: string;
  /** The converted text for `readAideConf`; its errors refer to positions in the original text. */
  readonly source: Source;
  readonly warnings: readonly ConfProblem[];
}

/** Options from before 0.17 that have a replacement. */
const convertible: ReadonlyMap<string, Option> = new Map([
  ['verbose', { type: 'text', wins: 'last' }],
  ['report_attributes', { type: 'attributes', wins: 'last' }],
]);

/**
 * Idempotent: a converted text stays as it is.
 *
 * @throws {RampartError} INPUT with all lines that cannot be converted, and what to do about each
 */
export function convertAideConf(
  file: string,
  content: string,
  conversion: ConversionOptions = {},
): Conversion {
  const problems = new ProblemList();
  const converter = new Converter(file, content, conversion, problems);
  const text = converter.convert();
  problems.throwErrors(`cannot convert the configuration ${file}`);
  const written = { text: content, offsetOf: (offset: number) => converter.offsetBefore(offset) };
  return { text, source: { file, text, isBytes: false, written }, warnings: problems.problems };
}

/**
 * Converts a configuration for the machine itself: updates lines for older AIDE versions, and if all rules are in
 * `/hostroot`, as the File Integrity Operator writes them, removes that prefix. Nothing else is changed.
 *
 * @throws as {@link convertAideConf}
 */
export function updateAideConf(file: string, content: Uint8Array): Source {
  const problems = new ProblemList();
  const source = sourceOf(file, content);
  const converter = new Converter(file, source, { hostRoot: usualRoot }, problems);
  const text = converter.update();
  problems.throwErrors(`cannot use the configuration ${file}`);
  const written = { text: source.text, offsetOf: (offset: number) => converter.offsetBefore(offset) };
  return { ...source, text, written };
}

class Converter {
  readonly #edits: TextEdits;
  readonly #root: string;
  /** The directory of the database and the log. */
  readonly #directory: string;
  readonly #problems: ProblemList;
  readonly #statements: readonly Statement[];
  readonly #meant = new Groups('0.18');
  readonly #converted = new Groups('0.18');
  readonly #rename: ReadonlyMap<string, string>;

  constructor(file: string, content: string | Source, conversion: ConversionOptions, problems: ProblemList) {
    const source = sourceOf(file, content);
    this.#edits = new TextEdits(source.text);
    this.#root = (conversion.hostRoot ?? usualRoot).replace(/\/+$/, '');
    this.#directory = `${this.#root}/etc/kubernetes`;
    this.#problems = problems;
    this.#statements = [...allStatements(parse(source, problems))];
    this.#rename = this.#newNames();
  }

  offsetBefore(offset: number): number {
    return this.#edits.offsetBefore(offset);
  }

  convert(): string {
    const hasRootPrefix = this.#statements.some(
      ({ kind, ...rest }) => kind === 'option' && 'name' in rest && rest.name === 'root_prefix',
    );
    for (const statement of this.#statements) {
      switch (statement.kind) {
        case 'rule':
          // With root_prefix the rules are already for the host.
          if (!hasRootPrefix) this.#rule(statement);
          if (statement.expression !== undefined) this.#expression(statement.expression);
          break;
        case 'group': {
          const name = this.#rename.get(statement.name);
          if (name !== undefined) this.#edits.replace(statement.nameAt, name);
          this.#expression(statement.expression, statement.name);
          break;
        }
        case 'define':
          if (statement.name === 'DBDIR' || statement.name === 'LOGDIR') {
            const { at, value } = statement;
            if (value === undefined)
              this.#edits.replace({ offset: at.end, end: at.end }, ` ${this.#directory}`);
            else this.#edits.replace(value.at, writtenPath(this.#directory));
          }
          break;
        case 'option':
          this.#option(statement);
          break;
        case 'if': {
          this.#oldCondition(statement);
          this.#condition(statement.condition);
          break;
        }
        case 'include':
          if (statement.executes) refuseExecution(statement.at, this.#problems);
          else {
            const edit = convertInclude(
              statement,
              this.#edits.text,
              this.#root,
              hasRootPrefix,
              this.#problems,
            );
            if (edit !== undefined) this.#edits.replace(edit.at, edit.text);
          }
          break;
        case 'undef':
        case 'setenv':
          break;
        default:
          statement satisfies never;
      }
    }
    return this.#edits.applied();
  }

  update(): string {
    const rules = this.#statements.filter((each) => each.kind === 'rule');
    const isOfHost = ({ path }: RuleStatement): boolean => isInside(this.#edits.written(path.at), this.#root);
    const rootAt = rules.every(isOfHost) ? this.#root.length : 0;
    for (const { path } of rootAt > 0 ? rules : [])
      this.#edits.replace(path.at, this.#edits.written(path.at).slice(rootAt) || '/');
    for (const statement of this.#statements) {
      if (statement.kind === 'option') this.#oldOption(statement);
      else if (statement.kind === 'if') this.#oldCondition(statement);
    }
    return this.#edits.applied();
  }

  #oldCondition({ word, at: { offset } }: Extract<Statement, { kind: 'if' }>): void {
    const now = oldConditions.get(word);
    if (now !== undefined) this.#edits.replace({ offset, end: offset + word.length }, now);
  }

  /** Replaces the name of an old option. @returns its current name */
  #oldOption({ at, name, nameAt, value }: OptionStatement): string {
    const now = name === 'report_attributes' ? 'report_force_attrs' : oldNames.get(name);
    if (now !== undefined) this.#edits.replace(nameAt, now);
    if (name !== 'verbose' || 'terms' in value) return now ?? name;
    const written = this.#edits.written(value.at);
    const levels = reportAndLogLevels(written);
    if (levels === undefined) {
      this.#problems.error(
        value.at,
        fault`'${written}' is not a number from 0 to 255`,
        "Write 'log_level' and 'report_level' instead",
      );
    } else this.#edits.replace(at, levels.join('\n'));
    return name;
  }

  #rule({ path }: RuleStatement): void {
    const written = this.#edits.written(path.at);
    const inside = insideRoot(written, this.#root);
    if (inside === written) return;
    this.#edits.replace(path.at, inside);
    if (hasTopLevelBranch(written)) {
      const next = 'Write a rule for each of them';
      this.#problems.warn(path.at, fault`only the first of the alternatives applies to the host`, next);
    }
  }

  #expression(expression: Expression, group?: string): void {
    const { text, meant, converted } = convertExpression(
      expression,
      this.#meant,
      this.#converted,
      this.#rename,
    );
    if (text !== undefined) this.#edits.replace(expression.at, text);
    if (group !== undefined) {
      this.#meant.define(group, meant);
      this.#converted.define(group, converted);
    }
    const isReplaced = text !== undefined && meant.foreign !== 0;
    if (isReplaced) {
      const next = `It was replaced with '${text}'`;
      this.#problems.warn(expression.at, fault`FIPS 140-3 does not approve all of its checksums`, next);
    }
  }

  #option(statement: OptionStatement): void {
    const { name, value } = statement;
    const now = this.#oldOption(statement);
    if ('terms' in value) {
      if (options.get(name)?.type === 'checksums') this.#expression(value);
      return;
    }
    const written = this.#edits.written(value.at);
    switch (now) {
      case 'database_in':
        this.#edits.replace(value.at, this.#file('DBDIR', 'aide.db.gz'));
        break;
      case 'database_out':
        this.#edits.replace(value.at, this.#file('DBDIR', 'aide.db.gz.new'));
        break;
      case 'report_url':
        if (written.startsWith('file')) this.#edits.replace(value.at, this.#file('LOGDIR', 'aide.log.new'));
        break;
      case 'database_new': {
        const path = /^file:(\/.*)$/.exec(written)?.[1];
        if (path !== undefined && !isInside(path, this.#root))
          this.#edits.replace(value.at, `file:${this.#root}${path}`);
        break;
      }
      case 'root_prefix':
        if (!isInside(written, this.#root))
          this.#edits.replace(value.at, this.#root + written.replace(/\/$/, ''));
        break;
      default:
    }
  }

  /** Uses the macro if the file defines it, because an included file may use it too. */
  #file(macro: 'DBDIR' | 'LOGDIR', file: string): string {
    const isDefined = this.#statements.some((each) => each.kind === 'define' && each.name === macro);
    return `file:${isDefined ? `@@{${macro}}` : writtenPath(this.#directory)}/${file}`;
  }

  #condition(condition: Condition): void {
    if (condition.test === 'not') this.#condition(condition.condition);
    if (condition.test !== 'exists') return;
    const { at } = condition.text;
    const written = this.#edits.written(at);
    if (!written.startsWith('/')) {
      if (!leadsToHost(written, this.#edits.text, this.#statements, this.#root)) {
        const next = 'Write an absolute path';
        this.#problems.warn(at, fault`the location of '${written}' on the host is unknown`, next);
      }
    } else if (!isInside(written, this.#root)) this.#edits.replace(at, writtenPath(this.#root) + written);
  }

  /**
   * New names for groups with special characters, which later AIDE versions refuse. Empty if the file has includes: an
   * included file may use the old names.
   */
  #newNames(): ReadonlyMap<string, string> {
    const names = new Map<string, string>();
    if (this.#statements.some(({ kind }) => kind === 'include')) return names;
    const groups = this.#statements.filter((each) => each.kind === 'group').map(({ name }) => name);
    const taken = new Set(groups);
    for (const name of taken) {
      if (!/[^A-Za-z0-9]/.test(name) || names.has(name)) continue;
      const plain = name.replace(/[^A-Za-z0-9]/g, '');
      let free = plain;
      for (let number = 2; isTaken(free, taken); number++) free = `${plain}${number}`;
      names.set(name, free);
      taken.add(free);
    }
    return names;
  }
}

/** Parses a configuration in the dialect of the AIDE version that it is written for. */
function parse(source: Source, problems: ProblemList): readonly Statement[] {
  for (const dialect of ['0.18', '0.19'] as const) {
    const found = new ProblemList();
    const statements = parseAideConf(source, found, { kept: convertible, dialect });
    if (dialect === '0.18' && needsNew(statements)) continue;
    problems.addAll(found);
    return statements;
  }
  throw new Error('no dialect');
}

function isTaken(name: string, taken: ReadonlySet<string>): boolean {
  return (
    taken.has(name) || attributeNamed(name) !== undefined || name in defaultGroups || !/[A-Z0-9]/.test(name)
  );
}

/** Whether there is a `|` outside of parentheses and brackets. */
function hasTopLevelBranch(regex: string): boolean {
  const plain = regex.replace(/\\./g, '').replace(/\[\^?\]?[^\]]*\]/g, '');
  let depth = 0;
  for (const character of plain) {
    if (character === '(') depth++;
    else if (character === ')') depth--;
    else if (character === '|' && depth === 0) return true;
  }
  return false;
}

/** The `log_level` and `report_level` that replace a `verbose` of at least `from`; the first row that applies counts. */
const levels: readonly (readonly [from: number, log: string, report: string])[] = [
  [221, 'trace', 'added_removed_entries'],
  [201, 'debug', 'added_removed_entries'],
  [21, 'config', 'added_removed_entries'],
  [11, 'info', 'added_removed_entries'],
  [7, 'notice', 'added_removed_entries'],
  [6, 'notice', 'added_removed_attributes'],
  [5, 'warning', 'changed_attributes'],
  [2, 'warning', 'list_entries'],
  [1, 'warning', 'summary'],
  [0, 'error', 'summary'],
];

/** The two lines that replace `verbose`, as in the File Integrity Operator; `undefined` unless it is a number from 0 to 255. */
function reportAndLogLevels(verbose: string): readonly string[] | undefined {
  if (!/^\d{1,3}$/.test(verbose) || Number(verbose) > 255) return undefined;
  const level = levels.find(([from]) => Number(verbose) >= from);
  return level === undefined ? undefined : [`log_level=${level[1]}`, `report_level=${level[2]}`];
}
