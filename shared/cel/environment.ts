/**
 * What expressions may name: the functions of Kubernetes, and variables with their types. An expression that names a field
 * which its type does not have fails to compile.
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

/** All functions; made once. */
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
  /** It is an optional, which may hold nothing. */
  readonly optional?: boolean;
}

/** A variable and its place in the frame. */
export interface Placed {
  readonly type: Type;
  readonly place: number;
  /** The expression that it stands for, which is run when the variable is first asked for. */
  readonly definition?: Definition;
}

export interface Definition extends Code {
  /** The variables of the scope that the expression names. */
  readonly variables: ReadonlySet<string>;
}

/**
 * The variables of expressions, with their types, and their places in the frames that the expressions run on. Each variable of
 * each expression has a place of its own, so that all expressions of a scope can run on one frame.
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
      // What variables hold is never null: nothing runs on null.
      const own = staticType(type, false);
      this.declare(name, optional === true ? optionalOf(own) : own);
    }
  }

  get variables(): ReadonlyMap<string, Placed> {
    return this.#variables;
  }

  /** Places in the frames so far. */
  get size(): number {
    return this.#size;
  }

  /** Makes types known whose objects expressions may make: gives one for a name, or nothing. */
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

  /** A place of its own. */
  allocate(): number {
    return this.#size++;
  }

  /** Adds a variable, of a name that may have dots. @returns its place. */
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
