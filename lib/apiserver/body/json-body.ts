import { isUtf8 } from 'node:buffer';

import { JsonSyntaxError, parseJsonCarefully } from '../../json/careful-json.ts';
import { maxNesting } from '../../json/bounds.ts';
import type { Body } from '../verbs/request.ts';
import { BodyMistake } from './body-mistake.ts';
import { countFields, outlineJson } from './json-outline.ts';

/**
 * Decodes JSON. `JSON.parse` does it, unless the bytes show something that it would lose: see {@link outlineJson}.
 * Integers that a `number` cannot hold but an int64 can come as `bigint`.
 *
 * @throws {BodyMistake} with the reason, in Go's words where Go refuses it too.
 */
export function decodeJson(bytes: Buffer): Body {
  if (!isUtf8(bytes)) throw new BodyMistake('invalid UTF-8');
  const { fields, depth, isDelicate } = outlineJson(bytes);
  if (depth > maxNesting) throw new BodyMistake(`nested deeper than ${maxNesting} levels`);
  const text = bytes.toString('utf8');
  if (isDelicate) return carefully(text);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    // The careful parser finds the error and its place. If it finds none, its result is used.
    if (error instanceof SyntaxError) return carefully(text);
    throw error;
  }
  return countFields(value) === fields ? { value, duplicates: none } : carefully(text);
}

const none: readonly string[] = [];

function carefully(text: string): Body {
  try {
    const { value, duplicates } = parseJsonCarefully(text);
    return { value, duplicates: duplicates.map((path) => `duplicate field ${JSON.stringify(path)}`) };
  } catch (error) {
    if (error instanceof JsonSyntaxError) throw new BodyMistake(error.message);
    throw error;
  }
}
