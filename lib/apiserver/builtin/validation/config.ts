/**
 * Checks of configuration: ConfigMaps and Secrets (kubernetes `pkg/apis/core/validation/validation.go`,
 * ValidateConfigMap and ValidateSecret).
 */
import { fieldError, type Cause } from '../../schema/field-error.ts';
import { deepEqual, type JsonObject } from '../../../json/json.ts';
import { objectAt, textAt, valueAt } from '../../../json/fields.ts';
import { checkBase64, checkImmutable } from './checks.ts';

/** Limit for all values together, in bytes (MaxSecretSize). */
const maxSize = 1024 * 1024;

function checkKeys(map: JsonObject, path: string, causes: Cause[]): void {
  for (const key of Object.keys(map)) {
    const at = `${path}[${key}]`;
    if (Buffer.byteLength(key) > 253) {
      causes.push(fieldError.invalid(at, key, 'must be no more than 253 characters'));
    }
    if (!/^[-._a-zA-Z0-9]+$/.test(key)) {
      const words =
        "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
      causes.push(fieldError.invalid(at, key, words));
    } else if (key === '.' || key === '..') {
      causes.push(fieldError.invalid(at, key, `must not be '${key}'`));
    } else if (key.startsWith('..')) {
      causes.push(fieldError.invalid(at, key, "must not start with '..'"));
    }
  }
}

function sizeOf(map: JsonObject, bytes: (text: string) => number): number {
  let size = 0;
  for (const value of Object.values(map)) if (typeof value === 'string') size += bytes(value);
  return size;
}

const decodedSize = (text: string): number => Buffer.byteLength(text, 'base64');
const textSize = (text: string): number => Buffer.byteLength(text);

function checkFrozen(object: JsonObject, old: JsonObject, fields: readonly string[], causes: Cause[]): void {
  if (valueAt(old, 'immutable') !== true) return;
  const words = 'field is immutable when `immutable` is set';
  if (valueAt(object, 'immutable') !== true) causes.push(fieldError.forbidden('immutable', words));
  for (const field of fields) {
    if (!deepEqual(objectAt(object, field), objectAt(old, field))) {
      causes.push(fieldError.forbidden(field, words));
    }
  }
}

export function configMapCauses(map: JsonObject, old: JsonObject | undefined): Cause[] {
  const causes: Cause[] = [];
  const [data, binary] = [objectAt(map, 'data'), objectAt(map, 'binaryData')];
  checkKeys(data, 'data', causes);
  for (const key of Object.keys(data)) {
    if (Object.hasOwn(binary, key)) {
      causes.push(fieldError.invalid(`data[${key}]`, key, 'duplicate of key present in binaryData'));
    }
  }
  checkKeys(binary, 'binaryData', causes);
  checkBase64(binary, 'binaryData', causes);
  if (sizeOf(data, textSize) + sizeOf(binary, decodedSize) > maxSize)
    causes.push(fieldError.tooLong('', maxSize));
  if (old !== undefined) checkFrozen(map, old, ['data', 'binaryData'], causes);
  return causes;
}

/** The keys that a Secret of a type must have. */
const requiredKeys: Readonly<Record<string, readonly string[]>> = {
  'kubernetes.io/dockercfg': ['.dockercfg'],
  'kubernetes.io/dockerconfigjson': ['.dockerconfigjson'],
  'kubernetes.io/ssh-auth': ['ssh-privatekey'],
  'kubernetes.io/tls': ['tls.crt', 'tls.key'],
};
const jsonKeys: ReadonlySet<string> = new Set(['.dockercfg', '.dockerconfigjson']);

export function secretCauses(secret: JsonObject, old: JsonObject | undefined): Cause[] {
  const causes: Cause[] = [];
  const [data, type] = [objectAt(secret, 'data'), textAt(secret, 'type')];
  checkKeys(data, 'data', causes);
  checkBase64(data, 'data', causes);
  if (sizeOf(data, decodedSize) > maxSize) causes.push(fieldError.tooLong('data', maxSize));
  for (const key of requiredKeys[type] ?? []) {
    const path = `data[${key}]`;
    const value = valueAt(data, key);
    if (value === undefined) causes.push(fieldError.required(path));
    else if (jsonKeys.has(key) && !isJson(value)) {
      causes.push(fieldError.invalid(path, '<secret contents redacted>', 'invalid character in JSON'));
    }
  }
  if (type === 'kubernetes.io/basic-auth') {
    const keys = ['username', 'password'];
    if (keys.every((key) => valueAt(data, key) === undefined)) {
      for (const key of keys) causes.push(fieldError.required(`data[${key}]`));
    }
  }
  const account = 'kubernetes.io/service-account.name';
  if (
    type === 'kubernetes.io/service-account-token' &&
    textAt(secret, 'metadata', 'annotations', account) === ''
  ) {
    causes.push(fieldError.required(`metadata.annotations[${account}]`));
  }
  if (old !== undefined) {
    checkImmutable(secret, old, ['type'], causes);
    checkFrozen(secret, old, ['data'], causes);
  }
  return causes;
}

function isJson(value: unknown): boolean {
  if (typeof value !== 'string') return false;
  try {
    JSON.parse(Buffer.from(value, 'base64').toString());
    return true;
  } catch {
    return false;
  }
}
