/**
 * What expressions may name: the functions of Kubernetes, and variables with their types. An expression that names a field
 * which its type does not have fails to compile.
 *
 * @module
 */
import { addFormats } from './library-format.ts';
import { addLists } from './library-lists.ts';
import { addNetwork } from './library-net.ts';
import { addQuantities } from './library-quantity.ts';
import { addStandard } from './library-standard.ts';
import { addStrings } from './library-strings.ts';
import { addTime } from './library-time.ts';
import { Library } from './register.ts';
import { optionalOf, staticType, type Type } from './static-types.ts';
import type { CelType } from './types.ts';

let functions: Library | undefined;

/** All functions; made once. */
export function allFunctions(): Library {
  if (functions !== undefined) return functions;
  functions = new Library();
  for (const add of [addStandard, addTime, addStrings, addLists, addQuantities, addNetwork, addFormats]) {
    add(functions);
  }
  return functions;
}

/** A variable of a {@link Scope}. */
export interface Variable {
  readonly type: CelType;
  /** It is an optional, which may hold nothing. */
  readonly optional?: boolean;
}

/** The variables of expressions, with their types. */
export class Scope {
  readonly variables: ReadonlyMap<string, Type>;

  constructor(variables: Readonly<Record<string, Variable>>) {
    this.variables = new Map(
      Object.entries(variables).map(([name, { type, optional }]) => {
        // What variables hold is never null: nothing runs on null.
        const own = staticType(type, false);
        return [name, optional === true ? optionalOf(own) : own];
      }),
    );
  }
}
