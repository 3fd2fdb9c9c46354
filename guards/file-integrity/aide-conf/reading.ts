/** The state that includes and rules need while a configuration is read. */
import type { ByteString } from '../model/entry.ts';
import type { ConfEnvironment } from './conf.ts';
import type { Groups, Value } from './expression.ts';
import type { ConfProblem, Dialect, ProblemList, Source } from './source.ts';
import type { Expression, Text } from './syntax.ts';

/** A configuration that is being read: what has been defined so far, and what is wrong. */
export interface Reading {
  readonly environment: ConfEnvironment;
  readonly dialect: Dialect;
  readonly problems: ProblemList;
  readonly groups: Groups;
  /** Variables of `@@x_include_setenv`. */
  readonly executionEnvironment: ReadonlyMap<string, string>;
  filesRead: number;
  bytesRead: number;
  readonly unreadIncludes: ConfProblem[];
  /** @param prefix goes before every rule; @param depth of includes */
  read(source: Source, prefix: ByteString, depth: number): void;
  /** As bytes, with its variables. */
  bytes(text: Text): ByteString;
  /** As text, with its variables: for paths and names. */
  text(text: Text): string;
  /** Undefined groups are reported, and count as empty. */
  value(expression: Expression): Value;
}
