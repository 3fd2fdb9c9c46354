/**
 * Parses and writes JSON, including integers that a `number` cannot hold: an int64 in Kubernetes may have more than
 * 53 bits, and is then a `bigint` here.
 */
import { parseJsonKeys } from '../../json/escaped-keys.ts';
import { jsonInteger } from '../../json/json.ts';

/** An integer that a `number` cannot hold has at least 16 digits. */
const manyDigits = /[0-9]{16}/;

interface Source {
  readonly source?: string;
}

/** @throws {SyntaxError} */
export function parseJson(text: string): unknown {
  return parseJsonKeys(text, manyDigits.test(text) ? exact : undefined);
}

function exact(_name: string, value: unknown, { source }: Source = {}): unknown {
  if (typeof value !== 'number' || Number.isSafeInteger(value) || source === undefined) return value;
  return /^-?[0-9]{16,19}$/.test(source) ? jsonInteger(BigInt(source)) : value;
}

/** @param indent spaces per level; default: everything in one line. @throws {TypeError} for a value that JSON cannot express. */
export function jsonText(value: unknown, indent?: number): string {
  try {
    return JSON.stringify(value, undefined, indent);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    const exactly = (_name: string, part: unknown): unknown =>
      typeof part === 'bigint' ? rawJson(part) : part;
    return JSON.stringify(value, exactly, indent);
  }
}

function rawJson(value: bigint): unknown {
  return (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON(String(value));
}
