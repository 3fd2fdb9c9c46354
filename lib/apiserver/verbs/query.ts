/** Reads query parameters like apimachinery's `pkg/runtime/converter.go`: the first value counts. */
import { type ApiError, apiErrors } from '../resources/api-error.ts';
import { type Cause, fieldError } from '../schema/field-error.ts';
import { managerName } from '../apply/managed-fields.ts';
import type { ResourceRequest } from './request.ts';

export type FieldValidation = 'Ignore' | 'Strict' | 'Warn';

/** Options of create, update and patch. */
export interface WriteOptions {
  readonly dryRun: boolean;
  /** The field manager, which becomes the owner of written fields. */
  readonly manager: string;
  readonly fieldValidation: FieldValidation;
  /** For an apply: whether to take over fields that other managers own. */
  readonly force: boolean;
}

/** `undefined` if the parameter is absent. Every value except `false` and `0` means true. */
export function booleanOf(query: URLSearchParams, name: string): boolean | undefined {
  const text = query.get(name);
  if (text === null) return undefined;
  return text !== '0' && text.toLowerCase() !== 'false';
}

const int64 = { min: -(2n ** 63n), max: 2n ** 63n - 1n };

/** @throws {ApiError} 400 */
export function integerOf(query: URLSearchParams, name: string): number | undefined {
  const text = query.get(name);
  if (text === null) return undefined;
  if (!/^[-+]?[0-9]+$/.test(text)) throw badNumber('ParseInt', text, 'invalid syntax');
  const value = text.length > 20 ? int64.max + 1n : BigInt(text.replace('+', ''));
  if (value < int64.min || value > int64.max) throw badNumber('ParseInt', text, 'value out of range');
  return Number(value);
}

function badNumber(how: string, text: string, why: string): ApiError {
  return apiErrors.badRequest(`strconv.${how}: parsing ${JSON.stringify(text)}: ${why}`);
}

/** A resourceVersion as a number: 0 for '' and `0`, `undefined` if it is invalid. */
export function versionOf(text: string): bigint | undefined {
  if (text === '' || text === '0') return 0n;
  if (!/^[0-9]{1,20}$/.test(text)) return undefined;
  const version = BigInt(text);
  return version < 2n ** 64n ? version : undefined;
}

/** The cause for an invalid version in a field. */
export function versionCause(field: string, text: string): Cause {
  const why = /^[0-9]+$/.test(text) ? 'value out of range' : 'invalid syntax';
  return fieldError.invalid(field, text, `strconv.ParseUint: parsing ${JSON.stringify(text)}: ${why}`);
}

/** @throws {ApiError} 422 if there are causes. */
export function refuseOptions(kind: string, causes: readonly Cause[]): void {
  if (causes.length > 0) throw apiErrors.invalid({ group: 'meta.k8s.io', kind }, '', causes);
}

/** @throws {ApiError} 422 */
export function writeOptions(
  { query, userAgent, patchType }: ResourceRequest,
  kind: 'CreateOptions' | 'PatchOptions' | 'UpdateOptions',
): WriteOptions {
  if (query.size === 0 && patchType !== 'application/apply-patch+yaml') {
    return {
      dryRun: false,
      manager: managerName(undefined, userAgent),
      fieldValidation: 'Warn',
      force: false,
    };
  }
  const causes: Cause[] = [];
  const fieldManager = query.get('fieldManager') ?? '';
  const force = booleanOf(query, 'force');
  if (kind === 'PatchOptions') {
    if (patchType !== 'application/apply-patch+yaml') {
      if (force !== undefined)
        causes.push(fieldError.forbidden('force', 'may not be specified for non-apply patch'));
    } else if (fieldManager === '') {
      causes.push(fieldError.required('fieldManager', 'is required for apply patch'));
    }
  }
  causes.push(...fieldManagerCauses(fieldManager));
  const dryRun = query.getAll('dryRun');
  causes.push(...dryRunCauses(dryRun));
  const fieldValidation = query.get('fieldValidation') ?? '';
  if (!fieldValidations.includes(fieldValidation)) {
    causes.push(fieldError.notSupported('fieldValidation', fieldValidation, fieldValidations));
  }
  refuseOptions(kind, causes);
  return {
    dryRun: dryRun.length > 0,
    manager: managerName(fieldManager, userAgent),
    fieldValidation: fieldValidation === '' ? 'Warn' : (fieldValidation as FieldValidation),
    force: force === true,
  };
}

const fieldValidations: readonly string[] = ['', 'Ignore', 'Strict', 'Warn'];

export function dryRunCauses(values: readonly unknown[]): Cause[] {
  return values.every((value) => value === 'All') ? [] : [fieldError.notSupported('dryRun', values, ['All'])];
}

const maxManagerBytes = 128;

function fieldManagerCauses(name: string): Cause[] {
  const causes: Cause[] = [];
  if (Buffer.byteLength(name) > maxManagerBytes)
    causes.push(fieldError.tooLong('fieldManager', maxManagerBytes));
  let position = 0;
  for (const character of name.toWellFormed()) {
    if (causes.length >= 10) break;
    // Go's unicode.IsPrint
    if (!/^[\p{L}\p{M}\p{N}\p{P}\p{S} ]$/u.test(character)) {
      const code = (character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0');
      causes.push(
        fieldError.invalid('fieldManager', name, `invalid character U+${code} (at position ${position})`),
      );
    }
    position += Buffer.byteLength(character);
  }
  return causes;
}
