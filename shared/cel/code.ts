/** What an expression is compiled to: a type, and a function that runs it. */
import { typeText, type Type } from './static-types.ts';
import type { ASTNode } from './syntax.ts';

/** The values of the variables, by the place that the compiler gave them. */
export type Frame = unknown[];
export type Run = (frame: Frame) => unknown;

export interface Code {
  readonly type: Type;
  readonly run: Run;
}

/** An expression that cannot be compiled: what is wrong, in the words of cel-go, and where. */
export class CompileError extends Error {
  readonly node: ASTNode;

  constructor(node: ASTNode, message: string) {
    super(message);
    this.node = node;
  }
}

/** A node of one kind, or of some. */
export type Node<Op extends ASTNode['op']> = Extract<ASTNode, { readonly op: Op }>;
export type Selection = Node<'.' | '.?'>;

/** A selection in its parts. */
export interface SelectionCode {
  /** The type of the field. */
  readonly type: Type;
  /** What the field is selected from. */
  readonly operand: Run;
  /** The result is an optional. */
  readonly optional: boolean;
}

/** A type whose objects expressions may make. */
export interface MessageType {
  readonly type: Type;
  /** `undefined` where it has no such field. */
  fieldType(field: string): Type | undefined;
  make(fields: ReadonlyMap<string, unknown>): unknown;
}

/** What macros see of the compiler. */
export interface Compiling {
  /** Literals of lists and maps may hold several types: within what is printed. */
  readonly mixed: boolean;
  compile(node: ASTNode): Code;
  /** Compiles what a field is selected from, and checks that its type has the field. */
  selection(node: Selection): SelectionCode;
  /** A type whose objects expressions may make, by its name. */
  messageType(name: string): MessageType | undefined;
  /** Whether a node names a variable of the scope: `variables.name`. */
  isVariable(node: ASTNode): boolean;
  /** Compiles what sees one more variable, whose place is given to the callback. */
  withVariable<T>(name: string, type: Type, inner: (place: number) => T): T;
}

/** @throws {CompileError} */
export function problem(node: ASTNode, words: string): never {
  throw new CompileError(node, words);
}

export const overloadProblem = (name: string, operands: readonly Type[]): string =>
  `found no matching overload for '${name}' applied to '(${operands.map(typeText).join(', ')})'`;
