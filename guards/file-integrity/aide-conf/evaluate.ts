/** Evaluates statements to rules: groups, macros, conditions, options. See include.ts for includes, rule.ts for rules. */
import { checksums, type AttributeSet } from '../model/attributes.ts';
import type { ByteString } from '../model/entry.ts';
import { bytesOf } from '../model/bytes.ts';
import type { AideConf, ConfEnvironment, OptionValue, Rule } from './conf.ts';
import { Groups, settled, type Value } from './expression.ts';
import { include } from './include.ts';
import type { Reading } from './reading.ts';
import { oldNames, options, wrongValue } from './options.ts';
import { isGroupName, maxStatements, parseAideConf } from './parse.ts';
import { ruleOf, warnOfAttributes } from './rule.ts';
import { fault, ProblemList, sourceOf, type ConfProblem, type Dialect, type Source } from './source.ts';
import {
  needsNew,
  type Condition,
  type Expression,
  type OptionStatement,
  type Statement,
  type Text,
} from './syntax.ts';
import { oldConditions } from './condition.ts';

/** Limit of a text after expanding its macros, which may be nested. */
const maxTextBytes = 65_536;
/** Limit of all rules together; their automaton may have 200,000 states. */
const maxRuleBytes = 250_000;

/** The value of `@@{AIDE_VERSION}`, which `version_ge` compares too. */
const versions: Readonly<Record<Dialect, string>> = { '0.18': '0.18.8', '0.19': '0.19.2' };

/**
 * Reads a configuration as AIDE does.
 *
 * @param file the name to show in messages
 * @param content text, the bytes of a file, or the result of a conversion
 * @throws {RampartError} INPUT with all errors (at most 20), each with file, line, what is wrong and what to do
 */
export function readAideConf(
  file: string,
  content: string | Uint8Array | Source,
  environment: ConfEnvironment,
): AideConf {
  const problems = new ProblemList();
  const conf = tryAideConf(file, content, environment, problems);
  problems.throwErrors(`cannot use the configuration ${file}`);
  return conf;
}

/** Like {@link readAideConf}, but adds errors and warnings to `problems` and skips wrong lines. */
export function tryAideConf(
  file: string,
  content: string | Uint8Array | Source,
  environment: ConfEnvironment,
  problems: ProblemList,
): AideConf {
  const source = sourceOf(file, content);
  for (const dialect of environment.dialect === undefined
    ? (['0.18', '0.19'] as const)
    : [environment.dialect]) {
    const found = new ProblemList();
    const evaluation = new Evaluation(environment, dialect, found);
    evaluation.read(source, '', 0);
    if (dialect === '0.18' && environment.dialect === undefined && evaluation.needsNew) continue;
    problems.addAll(found);
    return evaluation.result();
  }
  throw new Error('no dialect');
}

class Evaluation implements Reading {
  readonly environment: ConfEnvironment;
  readonly dialect: Dialect;
  readonly problems: ProblemList;
  readonly groups: Groups;
  readonly executionEnvironment = new Map<string, string>();
  needsNew = false;
  filesRead = 0;
  bytesRead = 0;
  #statements = 0;
  #ruleBytes = 0;
  readonly unreadIncludes: ConfProblem[] = [];
  readonly #variables = new Map<string, ByteString>();
  readonly #rules: Rule[] = [];
  readonly #options = new Map<string, OptionValue>();
  readonly #attributeOptions = new Map<string, AttributeSet>();
  readonly #reportUrls: OptionValue[] = [];

  constructor(environment: ConfEnvironment, dialect: Dialect, problems: ProblemList) {
    this.environment = environment;
    this.dialect = dialect;
    this.problems = problems;
    this.groups = new Groups(dialect);
  }

  read(source: Source, prefix: ByteString, depth: number): void {
    const max = maxStatements - this.#statements;
    const statements = parseAideConf(source, this.problems, { dialect: this.dialect, max });
    this.#statements += statements.length;
    if (needsNew(statements)) this.needsNew = true;
    this.#evaluate(statements, prefix, depth);
  }

  result(): AideConf {
    return {
      dialect: this.dialect,
      rules: this.#rules,
      options: this.#options,
      reportUrls: this.#reportUrls,
      attributeOptions: this.#attributeOptions,
      rootPrefix: (this.#options.get('root_prefix')?.value ?? '').replace(/\/$/, ''),
      unreadIncludes: this.unreadIncludes,
      warnings: this.problems.problems.filter(({ severity }) => severity === 'warning'),
    };
  }

  #evaluate(statements: readonly Statement[], prefix: ByteString, depth: number): void {
    for (const statement of statements) {
      if (this.problems.isFull) return;
      switch (statement.kind) {
        case 'option':
          this.#option(statement);
          break;
        case 'group': {
          const { name, nameAt, expression } = statement;
          if (/[^A-Za-z0-9]/.test(name) && isGroupName(name, this.dialect)) {
            this.problems.warn(
              nameAt,
              fault`the name of group '${name}' has special characters, which later versions of AIDE refuse`,
              'Use letters and digits only',
            );
          }
          this.groups.define(name, this.value(expression));
          break;
        }
        case 'rule': {
          if (this.#ruleBytes > maxRuleBytes) break;
          const rule = ruleOf(statement, prefix, this);
          if (rule === undefined) break;
          this.#rules.push(rule);
          this.#ruleBytes += rule.pattern.length;
          if (this.#ruleBytes > maxRuleBytes) {
            const next = 'Write fewer or shorter rules';
            this.problems.error(
              statement.at,
              fault`the rules have more than ${maxRuleBytes} bytes together`,
              next,
            );
          }
          break;
        }
        case 'define':
          if (statement.at.source.isPrivate === true) this.problems.hideValues();
          this.#variables.set(
            statement.name,
            statement.value === undefined ? '' : this.bytes(statement.value),
          );
          break;
        case 'undef':
          this.#variables.delete(statement.name);
          break;
        case 'if': {
          const now = oldConditions.get(statement.word);
          if (now !== undefined) {
            this.problems.warn(
              statement.at,
              fault`${{ text: statement.word, kind: 'the condition' }} is deprecated, and AIDE 0.20 will refuse it`,
              `Write '${now}' instead`,
            );
          }
          if (this.#holds(statement.condition)) this.#evaluate(statement.branch, prefix, depth);
          else if (statement.otherwise !== undefined) this.#evaluate(statement.otherwise, prefix, depth);
          break;
        }
        case 'include':
          include(statement, prefix, depth + 1, this);
          break;
        case 'setenv':
          this.executionEnvironment.set(statement.name, this.text(statement.value));
          break;
        default:
          statement satisfies never;
      }
    }
  }

  bytes(text: Text): ByteString {
    const { isBytes } = text.at.source;
    let bytes = '';
    for (const part of text.parts) {
      if ('literal' in part) bytes += isBytes ? part.literal : bytesOf(part.literal);
      else bytes += this.#variable(part.variable);
      if (bytes.length <= maxTextBytes) continue;
      this.problems.error(text.at, fault`more than ${maxTextBytes} bytes with its macros`, 'Make it shorter');
      return '';
    }
    return bytes;
  }

  text(text: Text): string {
    return Buffer.from(this.bytes(text), 'latin1').toString('utf8');
  }

  #variable(name: string): ByteString {
    const own = this.#variables.get(name);
    if (own !== undefined) return own;
    if (name === 'HOSTNAME') return bytesOf(this.environment.hostname);
    return name === 'AIDE_VERSION' && this.dialect === '0.19' ? versions[this.dialect] : '';
  }

  value(expression: Expression): Value {
    warnOfAttributes(expression, this);
    return this.groups.evaluate(expression, ({ at, name }) => {
      this.problems.error(
        at,
        fault`group '${name}' is not defined`,
        "Define it before this line, as in 'MyGroup = p+u+g', or write attributes",
      );
    });
  }

  #holds(condition: Condition): boolean {
    switch (condition.test) {
      case 'not':
        return !this.#holds(condition.condition);
      case 'defined':
        return this.#variables.has(this.bytes(condition.text));
      case 'exists':
        return this.environment.exists(this.text(condition.text));
      case 'hostname':
        return this.environment.hostname !== '' && this.text(condition.text) === this.environment.hostname;
      case 'version_ge':
        return isAtLeast(this.text(condition.left), this.text(condition.right));
    }
  }

  #option(statement: OptionStatement): void {
    const { at, nameAt, value } = statement;
    const now = oldNames.get(statement.name);
    if (now !== undefined) {
      const next = `Write '${now}' instead`;
      if (this.dialect === '0.18')
        this.problems.warn(nameAt, fault`'${statement.name}' is deprecated, and AIDE 0.19 refuses it`, next);
      else this.problems.error(nameAt, fault`AIDE 0.19 no longer has the option '${statement.name}'`, next);
    }
    const name = now ?? statement.name;
    const option = options.get(name);
    if (option === undefined) return;
    if ('terms' in value) {
      const set = this.value(value);
      if (option.type === 'checksums' && (set.set & ~checksums) !== 0) {
        this.problems.error(value.at, fault`'${name}' accepts only checksums`, 'Remove the other attributes');
      }
      // An option of type `attributes` lists what a report omits: an unsupported checksum in it must not become sha256.
      this.#attributeOptions.set(name, option.type === 'checksums' ? settled(set) : set.set);
      return;
    }
    const text = this.text(value);
    const wrong = wrongValue(option.type, text, this.environment.hostname);
    if (wrong !== undefined) {
      this.problems.error(value.at, wrong, `See ${name} in aide.conf(5)`);
      return;
    }
    if (option.wins === 'all') this.#reportUrls.push({ value: text, at });
    else if (option.wins === 'first' && this.#options.has(name)) {
      this.problems.warn(at, fault`'${name}' is already set; this line has no effect`, 'Remove one of them');
    } else this.#options.set(name, { value: text, at });
  }
}

function isAtLeast(left: string, right: string): boolean {
  const numbers = (version: string): number[] =>
    /^(\d+)(?:\.(\d+))?(?:\.(\d+))?/
      .exec(version)
      ?.slice(1)
      .map((part) => Number(part ?? 0)) ?? [0, 0, 0];
  const [a, b] = [numbers(left), numbers(right)];
  for (const [at, number] of a.entries()) {
    const difference = number - (b[at] ?? 0);
    if (difference !== 0) return difference > 0;
  }
  return true;
}
