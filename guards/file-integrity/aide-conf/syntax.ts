/**
 * The parts of aide.conf, before it is evaluated. Every part has its position, for messages and edits. Source:
 * aide.conf(5) of 0.18.3 and 0.19.2, and observed behaviour of 0.18.3.
 */
import type { Position } from './source.ts';

/** A text with macros, such as `a@@{B}c`; escapes are resolved. */
export interface Text {
  readonly at: Position;
  readonly parts: readonly ({ readonly literal: string } | { readonly variable: string })[];
}

export interface Term {
  readonly at: Position;
  readonly operator: '+' | '-';
  readonly name: string;
}

/** Attribute arithmetic such as `p+u-G`, evaluated from left to right. */
export interface Expression {
  readonly at: Position;
  readonly terms: readonly Term[];
}

/** Restricts a rule to file types, such as `f,d=tmpfs`. */
export interface Restriction {
  readonly at: Position;
  readonly types: readonly { readonly at: Position; readonly name: string }[];
  /** The type of the file system; only in 0.19. */
  readonly fileSystem: string | undefined;
}

/** `regular`: /x; `equals`: =/x; `negative`: !/x; `prune`: -/x, which in 0.19 does what `!` does in 0.18. */
export type RuleKind = 'regular' | 'equals' | 'negative' | 'prune';

export type Condition =
  | { readonly test: 'not'; readonly condition: Condition }
  | { readonly test: 'defined' | 'hostname' | 'exists'; readonly text: Text }
  | { readonly test: 'version_ge'; readonly left: Text; readonly right: Text };

interface At {
  /** The whole line, without surrounding blanks. */
  readonly at: Position;
}

export type OptionStatement = At & {
  readonly kind: 'option';
  readonly name: string;
  readonly nameAt: Position;
  readonly value: Text | Expression;
};
export type RuleStatement = At & {
  readonly kind: 'rule';
  readonly type: RuleKind;
  readonly path: Text;
  readonly restriction: Restriction | undefined;
  /** Undefined for negative rules. */
  readonly expression: Expression | undefined;
};
export type IfStatement = At & {
  readonly kind: 'if';
  /** `@@if`, `@@ifdef` and so on, as written. */
  readonly word: string;
  /** From the word to the end of the line. */
  readonly condition: Condition;
  readonly branch: readonly Statement[];
  readonly otherwise: readonly Statement[] | undefined;
};
export type IncludeStatement = At & {
  readonly kind: 'include';
  readonly executes: boolean;
  readonly path: Text;
  /** If present, `path` is a directory. */
  readonly pattern: Text | undefined;
  readonly prefix: Text | undefined;
};
export type Statement =
  | OptionStatement
  | RuleStatement
  | IfStatement
  | IncludeStatement
  | (At & {
      readonly kind: 'group';
      readonly name: string;
      readonly nameAt: Position;
      readonly expression: Expression;
    })
  | (At & { readonly kind: 'define'; readonly name: string; readonly value: Text | undefined })
  | (At & { readonly kind: 'undef'; readonly name: string })
  | (At & { readonly kind: 'setenv'; readonly name: string; readonly value: Text });

/** All statements, including those inside conditions. */
export function* allStatements(statements: readonly Statement[]): Generator<Statement> {
  for (const statement of statements) {
    yield statement;
    if (statement.kind !== 'if') continue;
    yield* allStatements(statement.branch);
    if (statement.otherwise !== undefined) yield* allStatements(statement.otherwise);
  }
}

/** Whether only 0.19 accepts the statement. */
function isNew(statement: Statement): boolean {
  if (statement.kind === 'rule')
    return statement.type === 'prune' || statement.restriction?.fileSystem !== undefined;
  if (statement.kind !== 'if') return false;
  let { condition } = statement;
  while (condition.test === 'not') ({ condition } = condition);
  return condition.test === 'version_ge';
}

/** Whether there is a statement that only 0.19 accepts. */
export function needsNew(statements: readonly Statement[]): boolean {
  for (const statement of allStatements(statements)) if (isNew(statement)) return true;
  return false;
}
