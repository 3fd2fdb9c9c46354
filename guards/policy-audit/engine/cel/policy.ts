/** A policy of expressions, compiled: each expression once, with the types of the variables that it sees. */
import type { Scope } from '../../../../lib/cel/environment.ts';
import { compileExpression, type Expression } from '../../../../lib/cel/program.ts';
import { typeText } from '../../../../lib/cel/static-types.ts';
import { policyScope, type Dialect } from './scope.ts';
import type { CelSettings, Mutation, NamedExpression, Problems, Validation } from './settings.ts';

export interface CompiledValidation {
  readonly validation: Validation;
  readonly expression: Expression;
  readonly messageExpression: Expression | undefined;
}

export interface CompiledPolicy {
  readonly dialect: Dialect;
  readonly settings: CelSettings;
  readonly scope: Scope;
  readonly matchConditions: readonly CompiledCondition[];
  readonly validations: readonly CompiledValidation[];
  readonly auditAnnotations: readonly (CompiledSource & { readonly key: string })[];
  readonly mutations: readonly CompiledMutation[];
  /** The variables of the scope that are used by expressions. */
  readonly used: ReadonlySet<string>;
}

interface CompiledSource {
  readonly source: string;
  readonly expression: Expression;
}

export interface CompiledMutation extends CompiledSource {
  readonly patchType: Mutation['patchType'];
}

export interface CompiledCondition extends CompiledSource {
  readonly name: string;
}

/** Compiles what can be compiled; the rest is reported in the problems. */
export function compilePolicy(settings: CelSettings, dialect: Dialect, problems: Problems): CompiledPolicy {
  const scope = policyScope(dialect, settings.paramKind !== undefined);
  const { validations: rules, auditAnnotations: notes, mutations: patches } = settings;
  // The module ignores everything but validations.
  const known = dialect === 'cel-policy' ? rules.length : rules.length + notes.length + patches.length;
  if (known === 0) problems.required('validations', 'validations must contain at least one item');
  const compiler = new PolicyCompiler(scope, problems);
  compiler.define(settings.variables, 'variables');
  const matchConditions = compiler.conditions(settings.matchConditions, 'matchConditions');
  const validations = settings.validations.flatMap((validation, index) => {
    const at = `validations[${index}]`;
    const expression = compiler.compile(validation.expression, ['bool'], `${at}.expression`);
    const message = compiler.compile(validation.messageExpression, ['string'], `${at}.messageExpression`);
    return expression === undefined ? [] : [{ validation, expression, messageExpression: message }];
  });
  const auditAnnotations = settings.auditAnnotations.flatMap(({ key, valueExpression }, index) => {
    const at = `auditAnnotations[${index}].valueExpression`;
    const expression = compiler.compile(valueExpression, ['string', 'null'], at);
    return expression === undefined ? [] : [{ key, source: valueExpression, expression }];
  });
  const mutations = settings.mutations.flatMap(({ patchType, expression: source, field }, index) => {
    const wanted = patchType === 'JSONPatch' ? 'list' : 'Object';
    const expression = compiler.compile(source, [wanted], `mutations[${index}].${field}.expression`);
    return expression === undefined ? [] : [{ source, expression, patchType }];
  });
  const { used } = compiler;
  return { dialect, settings, scope, matchConditions, validations, auditAnnotations, mutations, used };
}

/** Compiles the expressions of one scope. */
export class PolicyCompiler {
  readonly #scope: Scope;
  readonly #problems: Problems;
  readonly used = new Set<string>();

  constructor(scope: Scope, problems: Problems) {
    this.#scope = scope;
    this.#problems = problems;
  }

  /** Declares variables for the expressions that are compiled after them. */
  define(variables: readonly NamedExpression[], path: string): void {
    for (const [index, { name, expression }] of variables.entries()) {
      const at = `${path}[${index}]`;
      if (!/^[_a-zA-Z][_a-zA-Z0-9]*$/.test(name)) {
        if (name.trim() !== '')
          this.#problems.invalid(`${at}.name`, name, 'name is not a valid CEL identifier');
        continue;
      }
      const known = `variables.${name}`;
      if (this.#scope.variables.has(known)) {
        this.#problems.invalid(`${at}.name`, name, 'the name must appear exactly once');
        continue;
      }
      const compiled = this.compile(expression, undefined, `${at}.expression`);
      // An expression that uses this variable must not fail because the variable does not compile.
      if (compiled === undefined) this.#scope.declare(known, { kind: 'dyn' });
      else this.#scope.define(known, compiled);
    }
  }

  conditions(conditions: readonly NamedExpression[], path: string): CompiledCondition[] {
    return conditions.flatMap(({ name, expression: source }, index) => {
      const expression = this.compile(source, ['bool'], `${path}[${index}].expression`);
      return expression === undefined ? [] : [{ name, source, expression }];
    });
  }

  /**
   * @param wanted - Allowed kinds of types, or names of types. Undefined: any.
   * @returns undefined if the source is empty or does not compile.
   */
  compile(source: string, wanted: readonly string[] | undefined, field: string): Expression | undefined {
    if (source.trim() === '') return undefined;
    const compiled = compileExpression(source, this.#scope);
    if (typeof compiled === 'string') {
      this.#problems.invalid(field, source, `compilation failed: ${compiled}`);
      return undefined;
    }
    const { kind, name: typeName = kind } = compiled.type;
    if (wanted !== undefined && !wanted.includes(kind) && !wanted.includes(typeName)) {
      const types = wanted.length === 1 ? wanted.join('') : `one of [${wanted.join(' ')}]`;
      this.#problems.invalid(field, source, `must evaluate to ${types} but got ${typeText(compiled.type)}`);
      return undefined;
    }
    // Only the variables that expressions use are evaluated.
    if (wanted !== undefined) for (const name of compiled.variables) this.used.add(name);
    return compiled;
  }
}
