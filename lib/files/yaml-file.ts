/** Settings files in YAML, of which JSON is a part. */
import { readFileSync } from 'node:fs';

import { parseDocument } from 'yaml';

import { errorCodes, RampartError } from '../errors/errors.ts';

/** Limits aliases: a small file cannot expand into a large one. */
const MAX_ALIASES = 100;

/** Reads a file with one document. @throws {RampartError} `NOT_FOUND`, `SYSTEM`, `INPUT` with the line */
export function readYaml(path: string): unknown {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw unreadable(path, error);
  }
  return parseYaml(text, path);
}

/** The error for a file that cannot be read: `NOT_FOUND` or `SYSTEM`. */
export function unreadable(what: string, error: unknown): RampartError {
  const missing = (error as NodeJS.ErrnoException).code === 'ENOENT';
  return new RampartError(missing ? errorCodes.NOT_FOUND : errorCodes.SYSTEM, {
    what: `cannot read ${what}`,
    why: missing ? 'it does not exist' : (error as Error).message,
    cause: error,
  });
}

/** @param what - Where the text comes from, for messages. @throws {RampartError} `INPUT` with the line */
export function parseYaml(text: string, what: string): unknown {
  const document = parseDocument(text, { prettyErrors: true, uniqueKeys: true });
  const [problem] = document.errors;
  if (problem !== undefined) {
    throw new RampartError(errorCodes.INPUT, { what: `${what} is malformed`, why: problem.message.trim() });
  }
  try {
    return document.toJS({ maxAliasCount: MAX_ALIASES }) as unknown;
  } catch (error) {
    throw new RampartError(errorCodes.INPUT, { what: `${what} is malformed`, why: (error as Error).message });
  }
}

/** @param what - Where the mapping comes from, for messages. @throws {RampartError} `INPUT` for the first key that is not in `known` */
export function refuseUnknown(
  record: Readonly<Record<string, unknown>>,
  known: readonly string[],
  what: string,
): void {
  const key = Object.keys(record).find((name) => !known.includes(name));
  if (key === undefined) return;
  throw unusable(what, `unknown key ${JSON.stringify(key)} (known: ${known.join(', ')})`);
}

/** The error for a file that is well-formed YAML, but whose contents are invalid: `INPUT`. */
export function unusable(what: string, why: string): RampartError {
  return new RampartError(errorCodes.INPUT, { what: `${what} cannot be used`, why });
}
