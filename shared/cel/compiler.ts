/**
 * Compiles syntax trees: checks the types, and makes of each node a function that runs it. The functions count what
 * they do, and check the values that they get, since the type of a value may be known only then.
 *
 * @module
 */
import type { ASTNode } from '@marcbachmann/cel-js';
import { select, selectOptional } from './access.ts';
import {
  overloadProblem,
  problem,
  type Code,
  type Compiling,
  type Node,
  type Run,
  type Selection,
  type SelectionCode,
} from './code.ts';
import { callCost } from './costs.ts';
import { failure } from './failure.ts';
import { expression } from './library-strings.ts';
import { macros } from './macros.ts';
import { charge } from './meter.ts';
import {
  compileBinary,
  compileCondition,
  compileList,
  compileLiteral,
  compileLogic,
  compileMap,
  compileUnary,
} from './nodes.ts';
import { dispatch, type Library } from './register.ts';
import { dyn, int, matching, optionalOf, staticType, typeText, unify, type Type } from './static-types.ts';

interface Variable {
  readonly type: Type;
  readonly place: number;
}

/** Functions whose second argument is a regular expression. */
const regexFunctions: ReadonlySet<string> = new Set(['matches', 'find', 'findAll']);

export class Compiler implements Compiling {
  readonly #library: Library;
  readonly #variables: Map<string, Variable>;
  /** The variables of the expression, without those of its macros. */
  readonly #roots: readonly string[];
  #depth: number;
  /** Those of the variables that the expression names. */
  readonly used = new Set<string>();

  constructor(library: Library, variables: ReadonlyMap<string, Type>) {
    this.#library = library;
    this.#roots = [...variables.keys()];
    this.#depth = variables.size;
    this.#variables = new Map([...variables].map(([name, type], place) => [name, { type, place }]));
  }

  compile(node: ASTNode): Code {
    switch (node.op) {
      case 'value':
        return compileLiteral(node.args);
      case 'id':
        return this.#identifier(node);
      case '.':
      case '.?':
        return this.#selection(node);
      case '[]':
      case '[?]':
        return this.#index(node);
      case 'call':
        return this.#call(node, node.args[0], undefined, node.args[1]);
      case 'rcall':
        return this.#call(node, node.args[0], node.args[1], node.args[2]);
      case 'list':
        return compileList(this, node);
      case 'map':
        return compileMap(this, node);
      case '?:':
        return compileCondition(this, node);
      case '||':
      case '&&':
        return compileLogic(this, node);
      case '!_':
      case '-_':
        return compileUnary(this, node);
      case '==':
      case '!=':
      case 'in':
      case '+':
      case '-':
      case '*':
      case '/':
      case '%':
      case '<':
      case '<=':
      case '>':
      case '>=':
        return compileBinary(this, node);
    }
  }

  withVariable<T>(name: string, type: Type, inner: (place: number) => T): T {
    const hidden = this.#variables.get(name);
    const place = this.#depth++;
    this.#variables.set(name, { type, place });
    try {
      return inner(place);
    } finally {
      this.#depth--;
      if (hidden === undefined) this.#variables.delete(name);
      else this.#variables.set(name, hidden);
    }
  }

  #identifier(node: Node<'id'>): Code {
    const name = node.args;
    const variable = this.#variables.get(name);
    if (variable === undefined) {
      return this.#typeNamed(node) ?? problem(node, `undeclared reference to '${name}' (in container '')`);
    }
    const { type, place } = variable;
    if (place < this.#roots.length) this.used.add(name);
    const run: Run = (frame) => {
      charge(1);
      const value = frame[place];
      if (value === undefined) throw failure(`no such attribute(s): ${name}`);
      return value;
    };
    return { type, run };
  }

  /** The type that a chain of names denotes. */
  #typeNamed(node: ASTNode): Code | undefined {
    const name = qualifiedName(node);
    if (name === undefined || this.#variables.has(name.split('.', 1)[0] ?? '')) return undefined;
    const value = this.#library.typeValue(name);
    return value && { type: { kind: 'type' }, run: () => value };
  }

  #selection(node: Selection): Code {
    const named = this.#typeNamed(node);
    if (named !== undefined) return named;
    const field = node.args[1];
    const { type, operand, optional } = this.selection(node);
    const get = node.op === '.?' ? selectOptional : select;
    return {
      type: optional ? optionalOf(type) : type,
      run: (frame) => (charge(1), get(operand(frame), field)),
    };
  }

  selection(node: Selection): SelectionCode {
    const [holder, field] = node.args;
    const { type, run } = this.compile(holder);
    const optional = node.op === '.?' || type.kind === 'optional';
    return { type: this.#fieldType(node, type, field), operand: run, optional };
  }

  #fieldType(node: ASTNode, holder: Type, field: string): Type {
    const type = (holder.kind === 'optional' && holder.element) || holder;
    if (type.kind === 'dyn') return dyn;
    if (type.kind === 'map') return type.element ?? dyn;
    if (type.kind !== 'object') {
      return problem(node, `type '${typeText(type)}' does not support field selection`);
    }
    const known = type.schema?.fields?.get(field);
    return known === undefined ? problem(node, `undefined field '${field}'`) : staticType(known.type);
  }

  #index(node: Node<'[]' | '[?]'>): Code {
    const holder = this.compile(node.args[0]);
    const key = this.compile(node.args[1]);
    const type = (holder.type.kind === 'optional' && holder.type.element) || holder.type;
    const wanted = type.kind === 'list' ? int : type.kind === 'map' ? (type.key ?? dyn) : undefined;
    const fits = type.kind === 'dyn' || (wanted !== undefined && unify(wanted, key.type) !== undefined);
    if (!fits) return problem(node, overloadProblem('_[_]', [holder.type, key.type]));
    const element = type.element ?? dyn;
    const optional = node.op === '[?]' || holder.type.kind === 'optional';
    const get = node.op === '[?]' ? selectOptional : select;
    const run: Run = (frame) => (charge(1), get(holder.run(frame), key.run(frame)));
    return { type: optional ? optionalOf(element) : element, run };
  }

  #call(node: ASTNode, name: string, receiver: ASTNode | undefined, args: readonly ASTNode[]): Code {
    const namespace = receiver && qualifiedName(receiver);
    const macro =
      macros.get(`${receiver === undefined ? '' : '.'}${name}/${args.length}`) ??
      macros.get(`${namespace}.${name}/${args.length}`);
    if (macro !== undefined) return macro(this, node, args, receiver);
    const inNamespace = namespace === undefined ? undefined : this.#library.find(`${namespace}.${name}`);
    const method = receiver !== undefined && inNamespace === undefined;
    const operands = (method ? [receiver, ...args] : args).map((operand) =>
      // What is printed may be of several types.
      name === 'format' && operand.op === 'list' ? compileList(this, operand, true) : this.compile(operand),
    );
    const known = inNamespace ?? this.#library.find(method ? `.${name}` : name);
    if (known === undefined) return problem(node, `undeclared reference to '${name}' (in container '')`);
    const types = operands.map(({ type }) => type);
    const { found, result } = matching(known, types);
    if (found.length === 0) {
      const [first, ...rest] = types.map(typeText);
      const applied = method ? `${first}.(${rest.join(', ')})` : `(${types.map(typeText).join(', ')})`;
      return problem(node, `found no matching overload for '${name}' applied to '${applied}'`);
    }
    const pattern = regexFunctions.has(name) ? (method ? args[0] : args[1]) : undefined;
    // An expression that stands in the rule is compiled with it.
    if (pattern?.op === 'value' && typeof pattern.args === 'string') expression(pattern.args);
    const runs = operands.map(({ run }) => run);
    const cost = callCost(name);
    return {
      type: result,
      run: (frame) => {
        const values: unknown[] = [];
        for (const one of runs) values.push(one(frame));
        charge(1 + cost(values));
        return dispatch(found, values);
      },
    };
  }
}

/** `google.protobuf.Duration` as a text; `undefined` for what is no chain of names. */
function qualifiedName(node: ASTNode): string | undefined {
  if (node.op === 'id') return node.args;
  if (node.op !== '.') return undefined;
  const holder = qualifiedName(node.args[0]);
  return holder === undefined ? undefined : `${holder}.${node.args[1]}`;
}
