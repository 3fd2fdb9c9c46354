/**
 * The definition of a policy of expressions: the settings of the module `cel-policy`, which are the spec of a
 * ValidatingAdmissionPolicy and the parameter reference of its binding in one object.
 */
import { fieldOf, isObject } from '../../../../lib/json/json.ts';
import { goQuote } from '../../../../lib/cel/go-text.ts';
import type { LabelSelectorObject } from '../../../../lib/kube/selectors/selectors.ts';
import type { JsonObject } from '../evaluator.ts';

const reasons = ['Unauthorized', 'Forbidden', 'Invalid', 'RequestEntityTooLarge'] as const;
export type Reason = (typeof reasons)[number];

export interface Validation {
  readonly expression: string;
  readonly message: string;
  readonly messageExpression: string;
  readonly reason: Reason;
}

export interface NamedExpression {
  readonly name: string;
  readonly expression: string;
}

export interface AuditAnnotation {
  readonly key: string;
  readonly valueExpression: string;
}

export interface Mutation {
  /** `ApplyConfiguration`: an `Object{...}` that is merged into the object. `JSONPatch`: a list of operations. */
  readonly patchType: 'ApplyConfiguration' | 'JSONPatch';
  readonly expression: string;
  /** Name of the field that contains the expression: `jsonPatch`. */
  readonly field: string;
}

export interface ParamRef {
  readonly name: string;
  readonly namespace: string;
  readonly selector: LabelSelectorObject | undefined;
  readonly parameterNotFoundAction: 'Allow' | 'Deny';
}

export interface CelSettings {
  readonly variables: readonly NamedExpression[];
  readonly validations: readonly Validation[];
  readonly auditAnnotations: readonly AuditAnnotation[];
  readonly matchConditions: readonly NamedExpression[];
  readonly mutations: readonly Mutation[];
  readonly failurePolicy: 'Fail' | 'Ignore';
  readonly paramKind: { readonly apiVersion: string; readonly kind: string } | undefined;
  readonly paramRef: ParamRef | undefined;
}

/** A problem of a field, as in `details.causes` of a Status. */
export interface Problem {
  readonly reason:
    'FieldValueInvalid' | 'FieldValueNotSupported' | 'FieldValueRequired' | 'FieldValueTooMany';
  readonly field: string;
  /** In the words of Kubernetes: the kind of problem, the value, the reason. */
  readonly message: string;
}

/** The problem as one line. */
export function problemText({ field, message }: Problem): string {
  return `${field}: ${message}`;
}

/** Collects problems. */
export class Problems {
  readonly #all: Problem[] = [];

  get all(): readonly Problem[] {
    return this.#all;
  }

  get texts(): readonly string[] {
    return this.#all.map(problemText);
  }

  required(field: string, words: string): void {
    this.#add('FieldValueRequired', field, `Required value: ${words}`);
  }

  invalid(field: string, value: string, words: string): void {
    this.#add('FieldValueInvalid', field, `Invalid value: ${goQuote(value)}: ${words}`);
  }

  unsupported(field: string, value: string, supported: readonly string[]): void {
    const values = supported.map((one) => `"${one}"`).join(', ');
    const message = `Unsupported value: ${goQuote(value)}: supported values: ${values}`;
    this.#add('FieldValueNotSupported', field, message);
  }

  tooMany(field: string, count: number, max: number): void {
    this.#add('FieldValueTooMany', field, `Too many: ${count}: must have at most ${max} items`);
  }

  wrongShape(field: string, wanted: string): void {
    this.#add('FieldValueInvalid', field, `Invalid value: must be ${wanted}`);
  }

  #add(reason: Problem['reason'], field: string, message: string): void {
    this.#all.push({ reason, field, message });
  }
}

/** Parses settings; what cannot be parsed is reported in the problems and left out. Expressions are not compiled here. */
export function readSettings(settings: JsonObject, problems: Problems): CelSettings {
  const at = new Reader(settings, '', problems);
  const read: CelSettings = {
    variables: at.objects('variables').map(named),
    validations: at.objects('validations').map((one) => validation(one, problems)),
    auditAnnotations: at.objects('auditAnnotations').map((one) => annotation(one, problems)),
    matchConditions: at.objects('matchConditions').map(named),
    mutations: at.objects('mutations').map((one) => mutation(one, problems)),
    failurePolicy: at.oneOf('failurePolicy', ['Fail', 'Ignore']) ?? 'Fail',
    paramKind: paramKind(at, problems),
    paramRef: paramRef(at, problems),
  };
  if (read.paramRef !== undefined && read.paramKind === undefined)
    problems.required('paramKind', 'paramRef needs the kind of the parameters');
  return read;
}

/** A list of names with their expressions. */
export function readNamed(holder: JsonObject, field: string, problems: Problems): NamedExpression[] {
  return new Reader(holder, '', problems).objects(field).map(named);
}

function named(at: Reader): NamedExpression {
  return { name: at.required('name'), expression: at.required('expression') };
}

function validation(at: Reader, problems: Problems): Validation {
  const expression = at.required('expression');
  const [message, messageExpression] = [at.text('message'), at.text('messageExpression')];
  if (message !== '' && message.trim() === '')
    problems.invalid(`${at.path}.message`, message, 'message must be non-empty if specified');
  else if (/[\r\n]/.test(message.trim()))
    problems.invalid(`${at.path}.message`, message, 'message must not contain line breaks');
  if (messageExpression !== '' && messageExpression.trim() === '')
    problems.invalid(`${at.path}.messageExpression`, messageExpression, 'must be non-empty if specified');
  return { expression, message, messageExpression, reason: at.oneOf('reason', reasons) ?? 'Invalid' };
}

/** Parses a mutation of a MutatingAdmissionPolicy. */
function mutation(at: Reader, problems: Problems): Mutation {
  const type = at.oneOf('patchType', ['ApplyConfiguration', 'JSONPatch']);
  if (type === undefined) problems.required(`${at.path}.patchType`, 'patchType is not specified');
  const field = type === 'ApplyConfiguration' ? 'applyConfiguration' : 'jsonPatch';
  const expression = at.object(field)?.text('expression') ?? '';
  if (type !== undefined && expression.trim() === '')
    problems.required(`${at.path}.${field}.expression`, 'expression is not specified');
  return { patchType: type ?? 'JSONPatch', expression, field };
}

function annotation(at: Reader, problems: Problems): AuditAnnotation {
  const key = at.text('key');
  if (key === '') problems.required(`${at.path}.key`, 'key is not specified');
  return { key, valueExpression: at.required('valueExpression') };
}

function paramKind(at: Reader, problems: Problems): CelSettings['paramKind'] {
  const given = at.object('paramKind');
  if (given === undefined) return undefined;
  const [apiVersion, kind] = [given.text('apiVersion'), given.text('kind')];
  if (apiVersion === '' || kind === '')
    problems.required('paramKind', 'paramKind must have both apiVersion and kind specified');
  return { apiVersion, kind };
}

function paramRef(at: Reader, problems: Problems): ParamRef | undefined {
  const given = at.object('paramRef');
  if (given === undefined) return undefined;
  const name = given.text('name');
  const selector = given.object('selector')?.value;
  if (name === '' && selector === undefined)
    problems.required('paramRef', 'one of name or selector must be specified');
  if (name !== '' && selector !== undefined)
    problems.invalid('paramRef.name', name, 'name and selector are mutually exclusive');
  const action = given.oneOf('parameterNotFoundAction', ['Allow', 'Deny']);
  if (action === undefined)
    problems.required('paramRef.parameterNotFoundAction', "must be 'Deny' or 'Allow'");
  return {
    name,
    namespace: given.text('namespace'),
    selector,
    parameterNotFoundAction: action ?? 'Deny',
  };
}

/** Reads the fields of an object that was written by hand. */
class Reader {
  readonly value: JsonObject;
  readonly path: string;
  readonly #problems: Problems;

  constructor(value: JsonObject, path: string, problems: Problems) {
    this.value = value;
    this.path = path;
    this.#problems = problems;
  }

  #at(name: string): string {
    return this.path === '' ? name : `${this.path}.${name}`;
  }

  /** The text of a field; empty if the field is missing. */
  text(name: string): string {
    const value = fieldOf(this.value, name) ?? '';
    if (typeof value === 'string') return value;
    this.#problems.wrongShape(this.#at(name), 'a string');
    return '';
  }

  /** Like `text`, but reports a problem if the text is blank. */
  required(name: string): string {
    const text = this.text(name);
    if (text.trim() === '') this.#problems.required(this.#at(name), `${name} is not specified`);
    return text;
  }

  oneOf<T extends string>(name: string, known: readonly T[]): T | undefined {
    const text = this.text(name);
    const found = known.find((one) => one === text);
    if (found === undefined && text !== '') this.#problems.unsupported(this.#at(name), text, known);
    return found;
  }

  object(name: string): Reader | undefined {
    const value = fieldOf(this.value, name) ?? undefined;
    if (value === undefined) return undefined;
    if (isObject(value)) return new Reader(value, this.#at(name), this.#problems);
    this.#problems.wrongShape(this.#at(name), 'an object');
    return undefined;
  }

  objects(name: string): Reader[] {
    const value = fieldOf(this.value, name) ?? [];
    if (!Array.isArray(value)) {
      this.#problems.wrongShape(this.#at(name), 'a list');
      return [];
    }
    return value.flatMap((item: unknown, index) => {
      const path = `${this.#at(name)}[${index}]`;
      if (isObject(item)) return new Reader(item, path, this.#problems);
      this.#problems.wrongShape(path, 'an object');
      return [];
    });
  }
}
