/** A configuration that was read and evaluated. */
import type { RegexNode } from '../pcre/program.ts';
import type { AttributeSet } from '../model/attributes.ts';
import type { ByteString, FileType } from '../model/entry.ts';
import type { ConfProblem, Dialect, Position } from './source.ts';
import type { RuleKind } from './syntax.ts';

/** Which files and which of their attributes: one line of the configuration. */
export interface Rule {
  readonly kind: RuleKind;
  /** With the prefix of the includes that lead to it; matched from the start of a path on. */
  readonly pattern: ByteString;
  readonly regex: RegexNode;
  /** Any, when `undefined`. */
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
  /** Keyed by their current names. If an option is set twice, the value that counts. */
  readonly options: ReadonlyMap<string, OptionValue>;
  readonly reportUrls: readonly OptionValue[];
  /** Values of `report_ignore_changed_attrs` and the other options that take attributes. */
  readonly attributeOptions: ReadonlyMap<string, AttributeSet>;
  /**
   * The prefix to strip from paths before the rules are applied; without a slash at its end, empty for none.
   */
  readonly rootPrefix: string;
  /**
   * Errors of includes that were not read: a missing single file, which AIDE itself does not report (see
   * convert-path.ts), one that may not be read, more files than the limit.
   */
  readonly unreadIncludes: readonly ConfProblem[];
  readonly warnings: readonly ConfProblem[];
}

/** The evaluation's access to the node. Paths are as in the configuration. */
export interface ConfEnvironment {
  /** Hostname of the node, without its domain; empty if unknown. */
  readonly hostname: string;
  readonly exists: (path: string) => boolean;
  /** @throws when it cannot be read, may not be read, or is not a regular file */
  readonly readFile: (path: string) => string | Uint8Array;
  /**
   * Messages may have the text of included files: whoever writes the configuration may read these. Without this, a message
   * about them has the place and the kind of the fault.
   */
  readonly reportsIncluded?: boolean;
  /** The names of the regular files, of links to such, and of dangling links; @throws when it cannot be read */
  readonly readDirectory: (path: string) => readonly string[];
  /**
   * Runs a file of `@@x_include` and returns its stdout, as AIDE does: an error when it fails, writes to
   * stderr, or is writable by other users. A file that may not be executed is read. Without this
   * `@@x_include` is refused.
   */
  readonly execute?: (path: string, environment: ReadonlyMap<string, string>) => string | Uint8Array;
  /** Default: 0.19 if the file has something that 0.18 would refuse (`-/x`), else 0.18. */
  readonly dialect?: Dialect;
}

/** For a configuration that includes nothing and asks nothing of the machine. */
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
