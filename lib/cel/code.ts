/** Compiled code of an expression: its type, and a function that runs it. */
import { typeText, type Type } from './static-types.ts';
import type { ASTNode } from './syntax.ts';

/** The values of the variables, by the slot that the compiler assigned. */
export type Frame = unknown[];
export type Run = (frame: Frame) => unknown;

export interface Code {
  readonly type: Type;
  readonly run: Run;
}

/** An expression that cannot be compiled: the problem, in the words of cel-go, and its position. */
export class CompileError extends Error {
  readonly node: ASTNode;

  constructor(node: ASTNode, message: string) {
    super(message);
    this.node = node;
  }
}

/** A node of one kind, or of several. */
export type Node<Op extends ASTNode['op']> = Extract<ASTNode, { readonly op: Op }>;
export type Selection = Node<'.' | '.?'>;

/** The parts of a selection. */
export interface SelectionCode {
  /** The type of the field. */
  readonly type: Type;
  /** The operand of the selection. */
  readonly operand: Run;
  /** Whether the result is an optional. */
  readonly optional: boolean;
}

/** A type whose objects expressions may create. */
export interface MessageType {
  readonly type: Type;
  /** `undefined` if it has no such field. */
  fieldType(field: string): Type | undefined;
  make(fields: ReadonlyMap<string, unknown>): unknown;
}

/** What macros use of the compiler. */
export interface Compiling {
  /** Whether literals of lists and maps may mix types: true in the arguments of `format`. */
  readonly mixed: boolean;
  compile(node: ASTNode): Code;
  /** Compiles the operand of a selection, and checks that its type has the field. */
  selection(node: Selection): SelectionCode;
  /** The type with this name, if expressions may create objects of it. */
  messageType(name: string): MessageType | undefined;
  /** Whether a node is the name of a variable of the scope, such as `variables.name`. */
  isVariable(node: ASTNode): boolean;
  /** Compiles with one more variable in scope, whose slot is passed to the callback. */
  withVariable<T>(name: string, type: Type, inner: (place: number) => T): T;
}

/** @throws {CompileError} */
export function problem(node: ASTNode, words: string): never {
  throw new CompileError(node, words);
}

export const overloadProblem = (name: string, operands: readonly Type[]): string =>
  `found no matching overload for '${name}' applied to '(${operands.map(typeText).join(', ')})'`;
