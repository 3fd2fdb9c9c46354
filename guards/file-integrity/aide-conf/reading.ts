/** What includes and rules need of the state while a configuration is read. */
import type { ByteString } from '../model/entry.ts';
import type { ConfEnvironment } from './conf.ts';
import type { Groups, Value } from './expression.ts';
import type { ConfProblem, Dialect, ProblemList, Source } from './source.ts';
import type { Expression, Text } from './syntax.ts';

/** The state of reading a configuration: what has been defined so far, and which problems were found. */
export interface Reading {
  readonly environment: ConfEnvironment;
  readonly dialect: Dialect;
  readonly problems: ProblemList;
  readonly groups: Groups;
  /** Variables set by `@@x_include_setenv`. */
  readonly executionEnvironment: ReadonlyMap<string, string>;
  filesRead: number;
  bytesRead: number;
  readonly unreadIncludes: ConfProblem[];
  /** @param prefix is put before every rule; @param depth of nested includes */
  read(source: Source, prefix: ByteString, depth: number): void;
  /** The bytes of a text, with its macros expanded. */
  bytes(text: Text): ByteString;
  /** The text with its macros expanded; for paths and names. */
  text(text: Text): string;
  /** Evaluates attribute arithmetic. Undefined groups are reported, and count as empty. */
  value(expression: Expression): Value;
}
