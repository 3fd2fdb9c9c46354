/** Parses the payload of a guest's call, which may be anything. */
import type { JsonObject } from '../evaluator.ts';

/** @throws {Error} if it is not JSON. */
export function payloadOf(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (error) {
    throw new Error(`the payload is not JSON: ${(error as Error).message}`, { cause: error });
  }
}

export function payloadObject(value: unknown): JsonObject {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as JsonObject;
  throw new Error('the payload is malformed: an object is required');
}

export function payloadText(value: unknown): string {
  if (typeof value === 'string') return value;
  throw new Error('the payload is malformed: it must be a string');
}

export function textIn(fields: JsonObject, name: string): string {
  const value = fields[name];
  if (typeof value === 'string') return value;
  throw new Error(`the payload is malformed: ${name} must be a string`);
}

export function optionalTextIn(fields: JsonObject, name: string): string | undefined {
  const value = fields[name] ?? undefined;
  return value === undefined ? undefined : textIn(fields, name);
}
