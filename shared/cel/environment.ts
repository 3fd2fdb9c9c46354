/**
 * What expressions may name: the functions of Kubernetes, and variables with their types. An expression that names a field
 * which its type does not have fails to compile.
 *
 * @module
 */
import { Environment } from '@marcbachmann/cel-js';
import { walk, type CelNode } from './internals.ts';
import { addFormats } from './library-format.ts';
import { addLists } from './library-lists.ts';
import { addNetwork } from './library-net.ts';
import { addQuantities } from './library-quantity.ts';
import { addStrings } from './library-strings.ts';
import { addMacros } from './macros.ts';
import { Library } from './register.ts';
import type { CelType } from './types.ts';
import { CelObject, type ObjectClass, type ObjectClasses } from './values.ts';
import { deepEqual } from './json.ts';

let base: Environment | undefined;

/** The environment with all functions and no variables; made once. */
export function baseEnvironment(): Environment {
  if (base !== undefined) return base;
  base = new Environment({
    enableOptionalTypes: true,
    limits: { maxAstNodes: 20_000, maxDepth: 150, maxListElements: 5_000, maxMapEntries: 5_000 },
  });
  const library = new Library(base);
  addStrings(library);
  addLists(library);
  addQuantities(library);
  addNetwork(library);
  addFormats(library);
  addMacros(base);
  return base;
}

/** The names that an expression selects, and the strings it holds: fields it may look at. */
export function mentionedNames(tree: CelNode, names: Set<string>): void {
  walk(tree, (node) => {
    if (node.op === '.' || node.op === '.?') names.add((node.args as [CelNode, string])[1]);
    if (node.op === 'value' && typeof node.args === 'string') names.add(node.args);
  });
}

const primitives: Readonly<Partial<Record<CelType['kind'], string>>> = {
  int: 'int',
  double: 'double',
  bool: 'bool',
  string: 'string',
  bytes: 'bytes',
  duration: 'google.protobuf.Duration',
  timestamp: 'google.protobuf.Timestamp',
};

/** A variable of a {@link Scope}. */
export interface Variable {
  readonly type: CelType;
  /** It is an optional, which may hold nothing. */
  readonly optional?: boolean;
}

/** The functions of Kubernetes, and variables with their types. */
export class Scope {
  readonly environment: Environment;
  readonly classes: ObjectClasses;
  readonly #classes = new Map<CelType, ObjectClass>();
  readonly #declared = new Map<CelType, string>();
  readonly #names: ReadonlySet<string>;

  /**
   * @param names the fields that the expressions of this scope mention: only these are given their type. A schema of
   *   thousands of fields would otherwise take seconds to declare.
   */
  constructor(variables: Readonly<Record<string, Variable>>, names: ReadonlySet<string>) {
    this.environment = baseEnvironment().clone();
    this.classes = this.#classes;
    this.#names = names;
    for (const [name, { type, optional }] of Object.entries(variables)) {
      const declared = this.#declare(type, name, false);
      this.environment.registerVariable(name, optional === true ? `optional<${declared}>` : declared);
    }
  }

  /** The name of a type for cel-js, declared under a path when it is an object. */
  #declare(type: CelType, path: string, nullable = type.nullable === true): string {
    // What may be null is of no one type; its uses are checked when the rule runs.
    if (nullable) {
      this.#declare(type, path, false);
      return 'dyn';
    }
    if (type.kind === 'object') return this.#declareObject(type, path);
    const element = type.element;
    if (type.kind === 'list') return `list<${element ? this.#declare(element, `${path}.items`) : 'dyn'}>`;
    if (type.kind === 'map')
      return `map<string, ${element ? this.#declare(element, `${path}.values`) : 'dyn'}>`;
    return primitives[type.kind] ?? 'dyn';
  }

  #declareObject(type: CelType, path: string): string {
    const known = this.#declared.get(type);
    if (known !== undefined) return known;
    this.#declared.set(type, path);
    const fields: Record<string, string> = {};
    for (const [name, field] of type.fields ?? []) {
      fields[name] = this.#names.has(name) ? this.#declare(field.type, `${path}.${name}`) : 'dyn';
    }
    class TypedObject extends CelObject {}
    this.#classes.set(type, TypedObject);
    this.environment.registerType(path, { fields, ctor: TypedObject } as { fields: Record<string, string> });
    this.environment.registerOperator(`${path} == null`, () => false);
    this.environment.registerOperator(`${path} == ${path}`, (a: CelObject, b: CelObject) =>
      deepEqual(a.raw, b.raw),
    );
    return path;
  }
}
