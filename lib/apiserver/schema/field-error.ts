/**
 * Errors in fields, with the API server's messages. A cause is an entry of `details.causes` in a Status. The wording is
 * that of k8s.io/apimachinery `pkg/util/validation/field/errors.go` as of Kubernetes 1.35: objects and lists are printed
 * as JSON, a missing value as `null`.
 */
import { goJsonNumber, goQuote } from '../../cel/go-text.ts';
import { canonicalJson } from '../../json/json.ts';

export type CauseReason =
  | 'FieldValueDuplicate'
  | 'FieldValueForbidden'
  | 'FieldValueInvalid'
  | 'FieldValueNotFound'
  | 'FieldValueNotSupported'
  | 'FieldValueRequired'
  | 'FieldValueTooLong'
  | 'FieldValueTooMany'
  | 'FieldValueTypeInvalid'
  | 'InternalError';

/** One error, with the fields of `metav1.StatusCause`. */
export interface Cause {
  readonly reason: CauseReason;
  /** `spec.traps[0].path`; `<nil>` if the API server names no field. */
  readonly field: string;
  readonly message: string;
}

const words: Readonly<Record<CauseReason, string>> = {
  FieldValueDuplicate: 'Duplicate value',
  FieldValueForbidden: 'Forbidden',
  FieldValueInvalid: 'Invalid value',
  FieldValueNotFound: 'Not found',
  FieldValueNotSupported: 'Unsupported value',
  FieldValueRequired: 'Required value',
  FieldValueTooLong: 'Too long',
  FieldValueTooMany: 'Too many',
  FieldValueTypeInvalid: 'Invalid value',
  InternalError: 'Internal error',
};

/** In place of a value: the message does not show it. */
export const omitted = Symbol('omitted');

/** How Go prints the nil `*field.Path`. */
export const noField = '<nil>';

function cause(reason: CauseReason, field: string, value: string | undefined, detail: string): Cause {
  const parts = [words[reason]];
  if (value !== undefined) parts.push(value);
  if (detail !== '') parts.push(detail);
  return { reason, field: field === '' ? noField : field, message: parts.join(': ') };
}

export const fieldError = {
  invalid: (field: string, value: unknown, detail: string): Cause =>
    cause('FieldValueInvalid', field, valueText(value), detail),
  typeInvalid: (field: string, value: unknown, detail: string): Cause =>
    cause('FieldValueTypeInvalid', field, valueText(value), detail),
  required: (field: string, detail = ''): Cause => cause('FieldValueRequired', field, undefined, detail),
  forbidden: (field: string, detail: string): Cause => cause('FieldValueForbidden', field, undefined, detail),
  duplicate: (field: string, value: unknown): Cause =>
    cause('FieldValueDuplicate', field, valueText(value), ''),
  notSupported: (field: string, value: unknown, supported: readonly string[]): Cause => {
    const list = supported.map(goQuote).join(', ');
    return cause(
      'FieldValueNotSupported',
      field,
      valueText(value),
      list === '' ? '' : `supported values: ${list}`,
    );
  },
  tooLong: (field: string, max: number): Cause =>
    cause(
      'FieldValueTooLong',
      field,
      undefined,
      `may not be more than ${max} ${max === 1 ? 'byte' : 'bytes'}`,
    ),
  tooMany: (field: string, actual: number, max: number): Cause =>
    cause('FieldValueTooMany', field, String(actual), `must have at most ${max} items`),
  internal: (field: string, detail: string): Cause => cause('InternalError', field, undefined, detail),
};

function valueText(value: unknown): string | undefined {
  if (value === omitted) return undefined;
  if (typeof value === 'string') return goQuote(value);
  return typeof value === 'number' ? goJsonNumber(value) : canonicalJson(value);
}

/** Collects causes, at most a thousand: an object may have a million errors. */
export class Problems {
  readonly causes: Cause[] = [];
  readonly limit: number;

  constructor(limit = 1_000) {
    this.limit = limit;
  }

  get full(): boolean {
    return this.causes.length >= this.limit;
  }

  add(problem: Cause): void {
    if (!this.full) this.causes.push(problem);
  }

  addAll(problems: readonly Cause[]): void {
    for (const problem of problems) this.add(problem);
  }
}

/** Reports each missing field once. If both the schema and the kind report it, the kind's message is kept, as it comes last. */
export function eachRequiredOnce(causes: readonly Cause[]): Cause[] {
  const last = new Map(
    causes.flatMap((one) => (one.reason === 'FieldValueRequired' ? [[one.field, one]] : [])),
  );
  return causes.filter((one) => (last.get(one.field) ?? one) === one || one.reason !== 'FieldValueRequired');
}
