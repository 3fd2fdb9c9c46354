/**
 * Syntax trees of expressions. `pos` is the position that cel-go gives for errors of a node: that of the operator, of a
 * selection's dot or of a call's parenthesis.
 */
import type { Uint } from './values.ts';

export type Literal = string | number | bigint | boolean | null | Uint | Uint8Array;

export type BinaryOperator = '==' | '!=' | '<' | '<=' | '>' | '>=' | 'in' | '+' | '-' | '*' | '/' | '%';

/** The indexes of entries written with `?`, which are omitted if the optional is empty. */
type OptionalEntries = ReadonlySet<number>;

type Pair = readonly [ASTNode, ASTNode];

interface Arguments {
  readonly value: Literal;
  readonly id: string;
  /** The operand, and the name of the field. */
  readonly '.': readonly [ASTNode, string];
  readonly '.?': readonly [ASTNode, string];
  readonly '[]': Pair;
  readonly '[?]': Pair;
  readonly call: readonly [name: string, args: readonly ASTNode[]];
  /** A call with a receiver. */
  readonly rcall: readonly [name: string, receiver: ASTNode, args: readonly ASTNode[]];
  readonly list: readonly ASTNode[];
  readonly map: readonly Pair[];
  /** An object of a type: `Object.spec{replicas: 3}`. */
  readonly message: readonly [type: string, fields: readonly (readonly [string, ASTNode])[]];
  readonly '?:': readonly [ASTNode, ASTNode, ASTNode];
  readonly '||': Pair;
  readonly '&&': Pair;
  readonly '!_': ASTNode;
  readonly '-_': ASTNode;
  readonly '==': Pair;
  readonly '!=': Pair;
  readonly '<': Pair;
  readonly '<=': Pair;
  readonly '>': Pair;
  readonly '>=': Pair;
  readonly in: Pair;
  readonly '+': Pair;
  readonly '-': Pair;
  readonly '*': Pair;
  readonly '/': Pair;
  readonly '%': Pair;
}

/** A node, whose kind is `op`. */
export type ASTNode = {
  readonly [Op in keyof Arguments]: {
    readonly op: Op;
    readonly args: Arguments[Op];
    readonly pos: number;
    /** Optional entries of a list, map or message. */
    readonly optional?: OptionalEntries;
  };
}[keyof Arguments];

/** A syntax error: the reason, in the words of cel-go, and its position. */
export class CelSyntaxError extends Error {
  readonly pos: number;

  constructor(pos: number, message: string) {
    super(message);
    this.name = 'CelSyntaxError';
    this.pos = pos;
  }
}
