/** Short forms for the tests of schemas. */
import { compileSchema, InvalidSchemaError, type CompileOptions } from './compiled-schema.ts';
import type { Cause } from './field-error.ts';

/** `field: message`, as the API server writes an error of a field. */
export const lines = (causes: readonly Cause[]): string[] =>
  causes.map(({ field, message }) => `${field}: ${message}`);

/** Errors in an object, by a schema with one property `field`; it need not be structural. */
export function problemsOf(field: object, value: unknown, old?: unknown): string[] {
  const schema = compileSchema({ properties: { field } }, { strict: false });
  return lines(schema.validate({ field: value }, old === undefined ? undefined : { field: old }));
}

const root = 'spec.validation.openAPIV3Schema';

/** Why a schema is refused; the path of the root is written `~`. Empty when it is not. */
export function refusals(schema: unknown, options?: CompileOptions): string[] {
  try {
    compileSchema(schema, options);
    return [];
  } catch (error) {
    if (!(error instanceof InvalidSchemaError)) throw error;
    return lines(error.causes).map((line) => line.replaceAll(root, '~'));
  }
}

/** The schema of a resource whose spec is the given one. */
export const resource = (spec: object): object => ({ type: 'object', properties: { spec } });

/** Causes from rules on `spec`, with a schema of these properties. */
export function ruleProblems(
  properties: object,
  rules: readonly (string | object)[],
  spec: unknown,
  old?: unknown,
  warnings: string[] = [],
): string[] {
  const validations = rules.map((rule) => (typeof rule === 'string' ? { rule } : rule));
  const schema = compileSchema(
    resource({ type: 'object', properties, 'x-kubernetes-validations': validations }),
  );
  return lines(schema.validate({ spec }, old === undefined ? undefined : { spec: old }, warnings));
}
