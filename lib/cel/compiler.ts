/**
 * Compiles syntax trees: checks the types, and turns each node into a function that runs it. The functions charge their
 * cost, and check the types of their values, which may be known only at run time.
 */
import { select, selectOptional } from './access.ts';
import {
  type Code,
  type Compiling,
  type MessageType,
  type Node,
  overloadProblem,
  problem,
  type Run,
  type Selection,
  type SelectionCode,
} from './code.ts';
import { callCost } from './costs.ts';
import type { Placed, Scope } from './environment.ts';
import { CelError, failure } from './failure.ts';
import { goQuote } from './go-text.ts';
import { macros } from './macros.ts';
import { apart, charge } from './meter.ts';
import {
  compileBinary,
  compileCondition,
  compileList,
  compileLiteral,
  compileLogic,
  compileMap,
  compileMessageLiteral,
  compileUnary,
} from './nodes.ts';
import { dispatch, type Library } from './register.ts';
import { dyn, int, matching, optionalOf, staticType, type Type, typeText, unify } from './static-types.ts';
import type { ASTNode } from './syntax.ts';
import { isTimestamp, parseGoDuration } from './formats.ts';
import { expression } from './library-strings.ts';

export class Compiler implements Compiling {
  readonly #library: Library;
  readonly #scope: Scope;
  /** The variables of the surrounding macros, keyed by name. */
  readonly #inner = new Map<string, Placed>();
  /** The variables of the scope that the expression uses, directly or through the definition of another. */
  readonly used = new Set<string>();
  mixed = false;
  readonly #types: Map<ASTNode, Type> | undefined;

  /** @param types receives the type of each node. */
  constructor(library: Library, scope: Scope, types?: Map<ASTNode, Type>) {
    this.#library = library;
    this.#scope = scope;
    this.#types = types;
  }

  compile(node: ASTNode): Code {
    const code = this.#code(node);
    this.#types?.set(node, code.type);
    return code;
  }

  #code(node: ASTNode): Code {
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
      case 'message':
        return compileMessageLiteral(this, node);
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
    const hidden = this.#inner.get(name);
    const place = this.#scope.allocate();
    this.#inner.set(name, { type, place });
    try {
      return inner(place);
    } finally {
      if (hidden === undefined) this.#inner.delete(name);
      else this.#inner.set(name, hidden);
    }
  }

  messageType(name: string): MessageType | undefined {
    return this.#scope.messageType(name);
  }

  isVariable(node: ASTNode): boolean {
    const name = qualifiedName(node);
    return name !== undefined && this.#isOuter(name) && this.#scope.variables.has(name);
  }

  /** Whether the first name of `a.b.c` is not the variable of a surrounding macro. */
  #isOuter(name: string): boolean {
    return !this.#inner.has(name.split('.', 1)[0] ?? '');
  }

  #identifier(node: Node<'id'>): Code {
    const name = node.args;
    const inner = this.#inner.get(name);
    if (inner !== undefined) return { type: inner.type, run: (frame) => (charge(1), frame[inner.place]) };
    return (
      this.#outer(name) ??
      this.#typeNamed(node) ??
      problem(node, `undeclared reference to '${name}' (in container '')`)
    );
  }

  /** The code of a variable of the scope; `undefined` if it has no such variable. */
  #outer(name: string): Code | undefined {
    const variable = this.#scope.variables.get(name);
    if (variable === undefined) return undefined;
    const { type, place, definition } = variable;
    this.used.add(name);
    if (definition !== undefined) {
      for (const one of definition.variables) this.used.add(one);
      return { type, run: runOnce(name, place, definition.run) };
    }
    const run: Run = (frame) => {
      charge(1);
      const value = frame[place];
      if (value === undefined) throw failure(`no such attribute(s): ${name}`);
      return value;
    };
    return { type, run };
  }

  /** The code of a type's name, such as `google.protobuf.Duration`; `undefined` if the node does not name a type. */
  #typeNamed(node: ASTNode): Code | undefined {
    const name = qualifiedName(node);
    if (name === undefined || !this.#isOuter(name) || this.#scope.variables.has(name.split('.', 1)[0] ?? ''))
      return undefined;
    const value = this.#library.typeValue(name);
    return value && { type: { kind: 'type' }, run: () => value };
  }

  #selection(node: Selection): Code {
    const qualified = this.isVariable(node) ? this.#outer(qualifiedName(node) ?? '') : undefined;
    const named = qualified ?? this.#typeNamed(node);
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
    if (type.kind === 'opaque') {
      const message = this.messageType(type.name ?? '');
      if (message !== undefined)
        return message.fieldType(field) ?? problem(node, `undefined field '${field}'`);
    }
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
    const outer = this.mixed;
    this.mixed ||= name === 'format';
    const operands = (method ? [receiver, ...args] : args).map((operand) => this.compile(operand));
    this.mixed = outer;
    const known = inNamespace ?? this.#library.find(method ? `.${name}` : name);
    if (known === undefined) return problem(node, `undeclared reference to '${name}' (in container '')`);
    const types = operands.map(({ type }) => type);
    const { found, result } = matching(known, types);
    if (found.length === 0) {
      const [first, ...rest] = types.map(typeText);
      const applied = method ? `${first}.(${rest.join(', ')})` : `(${types.map(typeText).join(', ')})`;
      return problem(node, `found no matching overload for '${name}' applied to '${applied}'`);
    }
    checkLiterals(name, args, method);
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

/** Runs the definition of a variable on its first use, and caches the result, even an error. */
function runOnce(name: string, place: number, definition: Run): Run {
  return (frame) => {
    charge(1);
    const known = frame[place];
    if (known !== undefined) {
      if (known instanceof CelError) throw known;
      return known;
    }
    try {
      return (frame[place] = apart(() => definition(frame)));
    } catch (error) {
      if (!(error instanceof CelError)) throw error;
      const own = failure(
        `composited variable ${goQuote(name.slice(name.indexOf('.') + 1))} fails to evaluate: ${error.message}`,
      );
      frame[place] = own;
      throw own;
    }
  };
}

/** `google.protobuf.Duration` as a string; `undefined` if the node is not made of names and dots. */
function qualifiedName(node: ASTNode): string | undefined {
  if (node.op === 'id') return node.args;
  if (node.op !== '.') return undefined;
  const holder = qualifiedName(node.args[0]);
  return holder === undefined ? undefined : `${holder}.${node.args[1]}`;
}

/** Functions whose argument after the text is a regular expression. */
const regexFunctions: ReadonlySet<string> = new Set(['matches', 'find', 'findAll']);

/**
 * Checks literal arguments: regular expressions, timestamps and durations.
 *
 * @param args of the call, without the receiver.
 * @throws {CompileError}
 */
function checkLiterals(name: string, args: readonly ASTNode[], method: boolean): void {
  const pattern = regexFunctions.has(name) ? args[method ? 0 : 1] : undefined;
  if (pattern?.op === 'value' && typeof pattern.args === 'string') checkPattern(pattern, name, pattern.args);
  const [first] = args;
  if (!method && first?.op === 'value') checkTime(first, name, first.args);
}

function checkPattern(node: ASTNode, name: string, pattern: string): void {
  try {
    // Also caches the compiled pattern for the evaluation.
    expression(pattern);
  } catch (error) {
    if (!(error instanceof CelError)) throw error;
    problem(node, `invalid ${name} argument: ${error.message}`);
  }
}

function checkTime(node: ASTNode, name: string, value: unknown): void {
  if (typeof value !== 'string' || (name !== 'duration' && name !== 'timestamp')) return;
  const good = name === 'duration' ? parseGoDuration(value) !== undefined : isTimestamp(value);
  if (!good) problem(node, `invalid ${name} argument`);
}
