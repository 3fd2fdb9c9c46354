/** The result of reading and evaluating a configuration. */
import type { RegexNode } from '../pcre/program.ts';
import type { AttributeSet } from '../model/attributes.ts';
import type { ByteString, FileType } from '../model/entry.ts';
import type { ConfProblem, Dialect, Position } from './source.ts';
import type { RuleKind } from './syntax.ts';

/** One line of the configuration: which files it selects, and which of their attributes are compared. */
export interface Rule {
  readonly kind: RuleKind;
  /** Includes the prefix of the `@@include` through which it was read. Matched from the start of a path. */
  readonly pattern: ByteString;
  readonly regex: RegexNode;
  /** All types if `undefined`. */
  readonly types: ReadonlySet<FileType> | undefined;
  /** 0 for a negative rule. */
  readonly attributes: AttributeSet;
  readonly at: Position;
}

export interface OptionValue {
  readonly value: string;
  readonly at: Position;
}

export interface AideConf {
  readonly dialect: Dialect;
  /** In the order in which AIDE reads them. */
  readonly rules: readonly Rule[];
  /** Keyed by their current names. For an option that is set twice, the value that takes effect. */
  readonly options: ReadonlyMap<string, OptionValue>;
  readonly reportUrls: readonly OptionValue[];
  /** Values of `report_ignore_changed_attrs` and the other options that take attributes. */
  readonly attributeOptions: ReadonlyMap<string, AttributeSet>;
  /** The prefix to strip from paths before the rules are applied, without a trailing slash; empty if no prefix is set. */
  readonly rootPrefix: string;
  /**
   * Errors of includes that were not read: a single file that is missing (AIDE itself does not report that, see
   * convert-path.ts) or may not be read, or files above the limit.
   */
  readonly unreadIncludes: readonly ConfProblem[];
  readonly warnings: readonly ConfProblem[];
}

/** What evaluating a configuration may read of the node. Paths are those written in the configuration. */
export interface ConfEnvironment {
  /** Hostname of the node, without its domain; empty if unknown. */
  readonly hostname: string;
  readonly exists: (path: string) => boolean;
  /** @throws if the file cannot be read, may not be read, or is not a regular file */
  readonly readFile: (path: string) => string | Uint8Array;
  /**
   * Whether messages may quote included files, because the author of the configuration may read them. Default: false,
   * messages contain only the place and the kind of the fault.
   */
  readonly reportsIncluded?: boolean;
  /** The names of regular files, of links to regular files, and of dangling links. @throws if the directory cannot be read */
  readonly readDirectory: (path: string) => readonly string[];
  /**
   * Runs a file of `@@x_include` and returns its stdout, as AIDE does. It fails if the file exits with an error, writes
   * to stderr, or is writable by other users. A file that is not executable is read instead. If `execute` is absent,
   * `@@x_include` is refused.
   */
  readonly execute?: (path: string, environment: ReadonlyMap<string, string>) => string | Uint8Array;
  /** Default: 0.19 if the file contains something that 0.18 would refuse (`-/x`), otherwise 0.18. */
  readonly dialect?: Dialect;
}

/** For a configuration that includes no files and depends on nothing of the machine. */
export const noEnvironment: ConfEnvironment = {
  hostname: '',
  exists: () => false,
  readFile: () => {
    throw new Error('there are no files here');
  },
  readDirectory: () => {
    throw new Error('there are no files here');
  },
};
