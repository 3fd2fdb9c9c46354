/**
 * Adapts a job's configuration for the real AIDE: paths with the prefix of the job are converted to where the files
 * are, and Rampart's options for databases and reports replace those of the configuration. Line numbers do not change,
 * so those in AIDE's errors are correct. Rules keep their meaning in every version of AIDE: `!/x` in a configuration
 * for 0.18 also excludes everything below, which is `-/x` in 0.19.
 *
 * If the files are at the prefix itself, as in the agent's pod, rules are unchanged. For an empty prefix, `root_prefix`
 * is set.
 */
import { writtenPath, escaped } from '../aide-conf/convert-path.ts';
import { tryAideConf } from '../aide-conf/evaluate.ts';
import type { AideConf } from '../aide-conf/conf.ts';
import { parseAideConf } from '../aide-conf/parse.ts';
import { SystemCallError } from '../../../lib/ebpf/libc.ts';
import { messageOf } from '../../../lib/errors/errors.ts';
import { fault, ProblemList, sourceOf, type Dialect, type Position } from '../aide-conf/source.ts';
import { TextEdits } from '../aide-conf/text-edits.ts';
import {
  allStatements,
  type Condition,
  type IncludeStatement,
  type RuleStatement,
  type Text,
} from '../aide-conf/syntax.ts';
import { type ByteString, isAtOrBelow } from '../model/entry.ts';
import { nodeEnvironment, refuseInclude } from '../aide-conf/conf-environment.ts';
import type { ScanRoot } from '../provider/provider.ts';
import { refuseExecution } from '../aide-conf/include.ts';

export interface LedConf {
  readonly text: string;
  /**
   * Lines for `--before`: `root_prefix`, set to the directory where the job's files are, if the job's prefix is empty and the
   * configuration does not set it; otherwise, or if that directory is `/`, none.
   */
  readonly before: readonly string[];
  /** The part of the configuration that our own engine understands. */
  readonly conf: AideConf;
  /** Whether our own engine does not understand all of it. */
  readonly isPartial: boolean;
  /** Converts a path of AIDE to that of the job; `toAide` converts it back. A path outside the job's root is unchanged. */
  readonly toJob: (path: ByteString) => ByteString;
  readonly toAide: (path: ByteString) => ByteString;
}

/** Options that Rampart sets: lines that set them have no effect. */
const ours: ReadonlySet<string> = new Set([
  ...['database', 'database_in', 'database_out', 'database_new', 'database_attrs', 'database_add_metadata'],
  ...['gzip_dbout', 'num_workers', 'log_level'],
  ...['report_url', 'report_format', 'report_append', 'report_quiet', 'report_level', 'report_detailed_init'],
  ...['report_grouped', 'grouped', 'report_summarize_changes', 'summarize_changes'],
]);

/**
 * @param dialect of the installed AIDE
 * @throws {RampartError} INPUT with all lines that cannot be converted
 */
export function leadAideConf(name: string, text: string, root: ScanRoot, dialect: Dialect): LedConf {
  const { directory, prefix } = root;
  const problems = new ProblemList();
  const real = directory.length > 1 ? directory.replace(/\/+$/, '') : '';
  // Errors of our own engine do not matter here: AIDE reports its own.
  const unusable = new ProblemList(Infinity);
  const conf = tryAideConf(name, text, nodeEnvironment(root), unusable);
  const prunes = conf.dialect === '0.18' && dialect === '0.19';
  const edits = new Led(text, real, { root, prunes }, problems);
  const led = edits.lead(name);
  for (const { at, what, next } of conf.unreadIncludes) problems.error(at, what, next);
  problems.throwErrors(`cannot use the configuration ${name}`);
  const own = edits.rootPrefix;
  const stripped = own ?? (prefix === '' ? '' : undefined);
  return {
    // AIDE 0.18 fails if the last line has no newline and `--after` adds more lines.
    text: led.endsWith('\n') ? led : `${led}\n`,
    before: own === undefined && prefix === '' && real !== '' ? [`root_prefix=${writtenPath(real)}`] : [],
    conf,
    isPartial: unusable.errorCount > 0,
    toJob: (path) =>
      stripped !== undefined
        ? joined(stripped, path)
        : isAtOrBelow(path, real)
          ? joined(prefix, path.slice(real.length))
          : path,
    toAide: (path) => {
      const from = stripped ?? prefix;
      if (!isAtOrBelow(path, from)) return path;
      const rest = path.slice(from.length);
      const at = stripped === undefined ? real + rest : rest;
      return at === '' ? '/' : at;
    },
  };
}

/** Joins the two. The root itself has no trailing slash, unless it is `/`. */
function joined(directory: string, path: string): string {
  if (path !== '/' && path !== '') return directory + path;
  return directory === '' ? '/' : directory;
}

class Led {
  /** The `root_prefix` that the configuration sets, as written for the job: AIDE then reports paths without a prefix. */
  rootPrefix: string | undefined;
  readonly #edits: TextEdits;
  readonly #real: string;
  readonly #root: ScanRoot;
  readonly #prefix: string;
  /** Whether `!` has to become `-`. */
  readonly #prunes: boolean;
  readonly #problems: ProblemList;

  constructor(
    text: string,
    real: string,
    { root, prunes }: { readonly root: ScanRoot; readonly prunes: boolean },
    problems: ProblemList,
  ) {
    this.#edits = new TextEdits(text);
    this.#real = real;
    this.#root = root;
    this.#prefix = root.prefix;
    this.#prunes = prunes;
    this.#problems = problems;
  }

  lead(name: string): string {
    const wrong = new ProblemList(Infinity);
    const statements = [...allStatements(parseAideConf(sourceOf(name, this.#edits.text), wrong))];
    for (const { severity, at, what, next } of wrong.problems) {
      // Only errors in lines that name files matter: AIDE may read such a line in an unknown way. AIDE itself, or the
      // caller of tryAideConf, reports errors in other lines.
      if (severity === 'error' && opensFile(lineOf(at))) this.#problems.error(at, what, next);
    }
    for (const statement of statements) {
      if (statement.kind !== 'option' || statement.name !== 'root_prefix' || 'terms' in statement.value)
        continue;
      // The first one takes effect, as in AIDE.
      this.rootPrefix ??= this.#edits.written(statement.value.at).replace(/\/$/, '');
      this.#path(statement.value.at);
    }
    const asIs = this.rootPrefix !== undefined || this.#prefix === '';
    for (const statement of statements) {
      switch (statement.kind) {
        case 'rule':
          if (!asIs) this.#rule(statement.path.at);
          if (this.#prunes && isForAllTypes(statement)) this.#prune(statement.at);
          break;
        case 'option':
          // Replaced by a comment, so that line numbers do not change.
          if (ours.has(statement.name)) this.#edits.replace(statement.at, '#');
          break;
        case 'if':
          this.#condition(statement.condition);
          break;
        case 'include':
          this.#include(statement, asIs);
          break;
        case 'group':
        case 'define':
        case 'undef':
        case 'setenv':
          break;
        default:
          statement satisfies never;
      }
    }
    return this.#edits.applied();
  }

  #condition(condition: Condition): void {
    if (condition.test === 'not') this.#condition(condition.condition);
    if (condition.test === 'exists') this.#path(condition.text.at);
  }

  #include({ at, executes, path, pattern, prefix }: IncludeStatement, asIs: boolean): void {
    if (executes) return refuseExecution(at, this.#problems);
    this.#refuseOther(path);
    this.#path(path.at);
    if (asIs) return;
    if (pattern === undefined || prefix === undefined) {
      this.#problems.error(
        at,
        fault`the include does not state that the rules of the file apply to ${this.#prefix}`,
        this.#convert,
      );
      return;
    }
    const rest = this.#rest(this.#edits.written(prefix.at));
    if (rest === undefined) this.#problems.error(prefix.at, fault`it is not ${this.#prefix}`, this.#convert);
    else if (this.#real + rest === '') this.#remove(pattern, prefix);
    else this.#edits.replace(prefix.at, escaped(this.#real) + rest);
  }

  /**
   * Refuses to include a file that is not part of AIDE's configuration. Checked even in a branch that our evaluation
   * skips: AIDE evaluates conditions in its own pod, and may take that branch.
   */
  #refuseOther({ at, parts }: Text): void {
    const [only, ...more] = parts;
    if (only === undefined || more.length > 0 || !('literal' in only)) {
      const next = 'Write the path without macros';
      this.#problems.error(at, fault`where '${this.#edits.written(at)}' leads is known to AIDE alone`, next);
      return;
    }
    try {
      refuseInclude(this.#root, only.literal);
    } catch (error) {
      // A missing file is an error in AIDE as well.
      if (error instanceof SystemCallError && error.errno === 'ENOENT') return;
      this.#problems.error(at, fault`cannot read ${only.literal}: ${messageOf(error)}`, 'Remove the line');
    }
  }

  get #convert(): string {
    return 'Convert the configuration with convertAideConf first';
  }

  /** Removes the rule prefix of an include. */
  #remove(pattern: Text, prefix: Text): void {
    this.#edits.replace({ offset: pattern.at.end, end: prefix.at.end }, '');
  }

  /** Converts a path that is not an expression. */
  #path(at: Position): void {
    const written = this.#edits.written(at);
    if (!written.startsWith('/')) return;
    const rest = this.#prefix === '' ? written : this.#rest(written);
    if (rest === undefined)
      this.#problems.error(at, fault`'${written}' is not in ${this.#prefix}`, this.#convert);
    else this.#edits.replace(at, writtenPath(this.#real) + rest || '/');
  }

  /** Replaces the sign, the first character of the rule. */
  #prune({ offset }: Position): void {
    this.#edits.replace({ offset, end: offset + 1 }, '-');
  }

  #rule(at: Position): void {
    const written = this.#edits.written(at);
    const rest = this.#rest(written);
    if (rest === undefined)
      this.#problems.error(at, fault`'${written}' is not in ${this.#prefix}`, this.#convert);
    else this.#edits.replace(at, this.#real === '' ? fromRoot(rest) : escaped(this.#real) + rest);
  }

  /** The part after the prefix; undefined if the path is not below it. */
  #rest(written: string): string | undefined {
    for (const start of [this.#prefix, escaped(this.#prefix)]) {
      if (!written.startsWith(start)) continue;
      const rest = written.slice(start.length);
      if (rest === '' || /^[/$(]/.test(rest) || rest.startsWith('@@{')) return rest;
    }
    return undefined;
  }
}

/** Whether a line makes AIDE open a file: an include, a database, a report. */
function opensFile(line: string): boolean {
  return /^\s*(?:@@\s*x?_?include|database|report_url)/i.test(line);
}

function lineOf({ source: { text }, offset }: Position): string {
  const end = text.indexOf('\n', offset);
  return text.slice(text.lastIndexOf('\n', offset - 1) + 1, end === -1 ? undefined : end);
}

/** Whether it is a negative rule for all file types: in 0.18, one for some types only never prunes. */
function isForAllTypes({ type, restriction }: RuleStatement): boolean {
  return type === 'negative' && (restriction?.types.every(({ name }) => name === '0') ?? true);
}

/**
 * Converts an expression to one for the root `/`. `/hostroot/.*` does not match `/hostroot`, but `/.*` would match `/`.
 * So if the part after `/` may match nothing, a lookahead requires another character.
 */
function fromRoot(rest: string): string {
  if (rest === '') return '/';
  if (rest.startsWith('$')) return `/${rest}`;
  if (rest.startsWith('(')) return `/?${rest}`;
  const mayBeEmpty = rest.startsWith('/') && /^\/(?:$|[$(^*?]|\[[^\]]*\][*?{]|\\?.[*?{])/.test(rest);
  return mayBeEmpty ? `/(?=.)${rest.slice(1)}` : rest;
}
