/**
 * The names that expressions may use: Kubernetes' functions, and variables with their types. An expression with a
 * field that a type lacks does not compile.
 */
import { addAuthorizer } from './library-authorizer.ts';
import { addFormats } from './library-format.ts';
import { addLists } from './library-lists.ts';
import { addNetwork } from './library-net.ts';
import { addQuantities } from './library-quantity.ts';
import { addSemver } from './library-semver.ts';
import { addStandard } from './library-standard.ts';
import { addStrings } from './library-strings.ts';
import { addTime } from './library-time.ts';
import { Library } from './register.ts';
import type { Code, MessageType } from './code.ts';
import { optionalOf, staticType, type Type } from './static-types.ts';
import type { CelType } from './types.ts';

let functions: Library | undefined;

/** The library with all functions, which is created once. */
export function allFunctions(): Library {
  if (functions !== undefined) return functions;
  functions = new Library();
  for (const add of [
    ...[addStandard, addTime, addStrings, addLists, addQuantities],
    ...[addNetwork, addFormats, addSemver, addAuthorizer],
  ]) {
    add(functions);
  }
  return functions;
}

/** A variable of a {@link Scope}. */
interface Variable {
  readonly type: CelType;
  /** Whether the variable is an optional, which may be empty. */
  readonly optional?: boolean;
}

/** A variable and its slot in the frame. */
export interface Placed {
  readonly type: Type;
  readonly place: number;
  /** The expression that defines the variable, evaluated when the variable is first used. */
  readonly definition?: Definition;
}

export interface Definition extends Code {
  /** The variables of the scope that the expression uses. */
  readonly variables: ReadonlySet<string>;
}

/**
 * The variables of expressions, with their types and their slots in the frames on which the expressions run. Each variable of
 * each expression has its own slot, so that all expressions of a scope can run on one frame.
 */
export class Scope {
  readonly #variables = new Map<string, Placed>();
  readonly #messages: ((name: string) => MessageType | undefined)[] = [];
  #size = 0;

  /** The functions that its expressions may call. */
  readonly library: Library;

  constructor(variables: Readonly<Record<string, Variable>>, library = allFunctions()) {
    this.library = library;
    for (const [name, { type, optional }] of Object.entries(variables)) {
      const own = staticType(type);
      this.declare(name, optional === true ? optionalOf(own) : own);
    }
  }

  get variables(): ReadonlyMap<string, Placed> {
    return this.#variables;
  }

  /** Number of allocated slots. */
  get size(): number {
    return this.#size;
  }

  /** Declares types whose objects expressions may create: the callback returns the type with a name, or undefined. */
  declareMessages(find: (name: string) => MessageType | undefined): void {
    this.#messages.push(find);
  }

  messageType(name: string): MessageType | undefined {
    for (const find of this.#messages) {
      const type = find(name);
      if (type !== undefined) return type;
    }
    return undefined;
  }

  /** Allocates a slot. */
  allocate(): number {
    return this.#size++;
  }

  /** Adds a variable, whose name may contain dots. @returns its slot. */
  declare(name: string, type: Type): number {
    const place = this.allocate();
    this.#variables.set(name, { type, place });
    return place;
  }

  /** Adds a variable that stands for an expression of this scope. */
  define(name: string, definition: Definition): void {
    this.#variables.set(name, { type: definition.type, place: this.allocate(), definition });
  }
}
