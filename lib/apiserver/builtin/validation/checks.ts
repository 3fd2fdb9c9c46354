/**
 * Checks that many kinds share. All add to a list of causes; the messages are those of kubernetes
 * `pkg/apis/core/validation/validation.go` and apimachinery `pkg/util/validation`, as of 1.35.
 */
import { isIP } from 'node:net';
import { labelKeyProblems, labelValueProblems } from '../../../kube/selectors/label-names.ts';
import { nameProblems } from '../../resources/object-names.ts';
import type { NameRule } from '../../resources/resource.ts';
import { goQuote } from '../../../cel/go-text.ts';
import { fieldError, type Cause } from '../../schema/field-error.ts';
import { deepEqual, isObject, type JsonObject } from '../../../json/json.ts';
import { numberAt, objectAt, objectsAt, textAt, textsAt, valueAt } from '../../../json/fields.ts';

export const immutable = 'field is immutable';
export const notNegative = 'must be greater than or equal to 0';

export function notFound(field: string, value: string): Cause {
  return { reason: 'FieldValueNotFound', field, message: `Not found: ${goQuote(value)}` };
}

export function addProblems(problems: readonly string[], value: string, path: string, causes: Cause[]): void {
  for (const problem of problems) causes.push(fieldError.invalid(path, value, problem));
}

/** Checks a required name. The schema checks that it is a string. */
export function checkName(rule: NameRule, name: string, path: string, causes: Cause[]): void {
  if (name === '') causes.push(fieldError.required(path));
  else checkOptionalName(rule, name, path, causes);
}

export function checkOptionalName(rule: NameRule, name: string, path: string, causes: Cause[]): void {
  if (name !== '') addProblems(nameProblems(rule, name), name, path, causes);
}

export function checkNotNegative(
  object: JsonObject,
  fields: readonly string[],
  path: string,
  causes: Cause[],
): void {
  for (const field of fields) {
    const value = numberAt(object, field);
    if (value !== undefined && value < 0)
      causes.push(fieldError.invalid(`${path}.${field}`, value, notNegative));
  }
}

/** Checks that a port, if it is set, is from 1 to 65535. */
export function checkPort(value: number | undefined, path: string, causes: Cause[]): void {
  if (value === undefined || (value >= 1 && value <= 65_535)) return;
  causes.push(fieldError.invalid(path, value, 'must be between 1 and 65535, inclusive'));
}

/** The name of a port has to be an IANA service name. */
export function portNameProblems(name: string): readonly string[] {
  const problems: string[] = [];
  if (name.length > 15) problems.push('must be no more than 15 characters');
  if (!/^[-a-z0-9]+$/.test(name)) {
    problems.push('must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)');
  }
  if (!/[a-z]/.test(name)) problems.push('must contain at least one letter (a-z)');
  if (name.includes('--')) problems.push('must not contain consecutive hyphens');
  if (/^-|-$/.test(name)) problems.push('must not begin or end with a hyphen');
  return problems;
}

export function checkPortOrName(value: unknown, path: string, causes: Cause[]): void {
  if (typeof value === 'number') checkPort(value, path, causes);
  else if (typeof value === 'string') addProblems(portNameProblems(value), value, path, causes);
}

const addressWords = 'must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)';

export function checkAddress(address: string, path: string, causes: Cause[]): void {
  if (!isAddress(address)) causes.push(fieldError.invalid(path, address, addressWords));
}

function isAddress(text: string): boolean {
  return isIP(text) !== 0 && !text.includes('%');
}

export function checkLabels(labels: JsonObject, path: string, causes: Cause[]): void {
  for (const [key, value] of Object.entries(labels)) {
    addProblems(labelKeyProblems(key), key, path, causes);
    if (typeof value === 'string') addProblems(labelValueProblems(value), value, path, causes);
  }
}

const selectorOperators = ['DoesNotExist', 'Exists', 'In', 'NotIn'];

/** apimachinery `pkg/apis/meta/v1/validation/validation.go` */
export function checkSelector(selector: JsonObject, path: string, causes: Cause[]): void {
  checkLabels(objectAt(selector, 'matchLabels'), `${path}.matchLabels`, causes);
  for (const [index, one] of objectsAt(selector, 'matchExpressions').entries()) {
    const at = `${path}.matchExpressions[${index}]`;
    const [key, operator, values] = [textAt(one, 'key'), textAt(one, 'operator'), textsAt(one, 'values')];
    if (operator === 'In' || operator === 'NotIn') {
      if (values.length === 0) {
        const words = "must be specified when `operator` is 'In' or 'NotIn'";
        causes.push(fieldError.required(`${at}.values`, words));
      }
    } else if (operator === 'Exists' || operator === 'DoesNotExist') {
      if (values.length > 0) {
        const words = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
        causes.push(fieldError.forbidden(`${at}.values`, words));
      }
    } else if (!selectorOperators.includes(operator)) {
      causes.push(fieldError.invalid(`${at}.operator`, operator, 'not a valid selector operator'));
    }
    addProblems(labelKeyProblems(key), key, `${at}.key`, causes);
    for (const [position, value] of values.entries()) {
      addProblems(labelValueProblems(value), value, `${at}.values[${position}]`, causes);
    }
  }
}

export function isEmptySelector(selector: JsonObject): boolean {
  return (
    Object.keys(objectAt(selector, 'matchLabels')).length === 0 &&
    objectsAt(selector, 'matchExpressions').length === 0
  );
}

export function checkImmutable(
  object: JsonObject,
  old: JsonObject,
  path: readonly string[],
  causes: Cause[],
): void {
  const [value, before] = [valueAt(object, ...path), valueAt(old, ...path)];
  if (!deepEqual(value, before)) causes.push(fieldError.invalid(path.join('.'), value ?? null, immutable));
}

/** Adds a cause for each repeated value in one field of a list's items; the first occurrence is not reported. */
export function checkUnique(
  values: readonly string[],
  pathAt: (index: number) => string,
  causes: Cause[],
  seen: Set<string> = new Set(),
): void {
  for (const [index, value] of values.entries()) {
    if (value === '') continue;
    if (seen.has(value)) causes.push(fieldError.duplicate(pathAt(index), value));
    seen.add(value);
  }
}

export function checkIntOrPercent(value: unknown, path: string, causes: Cause[]): void {
  if (typeof value === 'number') {
    if (value < 0) causes.push(fieldError.invalid(path, value, notNegative));
  } else if (typeof value === 'string' && !/^[0-9]+%$/.test(value)) {
    const words =
      "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
    causes.push(fieldError.invalid(path, value, words));
  }
}

/** The offset of the first base64 error that Go's decoder finds; `undefined` for a valid text, including the empty one. */
function base64Fault(text: string): number | undefined {
  const clean = text.replaceAll(/[\r\n]/g, '');
  const match = /^[A-Za-z0-9+/]*/.exec(clean)?.[0].length ?? 0;
  const rest = clean.slice(match);
  if (rest === '' && clean.length % 4 === 0) return undefined;
  if (/^={1,2}$/.test(rest) && clean.length % 4 === 0) return undefined;
  return match;
}

export function checkBase64(map: unknown, path: string, causes: Cause[]): void {
  if (!isObject(map)) return;
  for (const [name, value] of Object.entries(map)) {
    if (typeof value === 'string') checkBase64Text(value, `${path}[${name}]`, causes);
  }
}

export function checkBase64Text(text: string, path: string, causes: Cause[]): void {
  const fault = base64Fault(text);
  if (fault === undefined) return;
  causes.push(fieldError.invalid(path, text, `illegal base64 data at input byte ${fault}`));
}
