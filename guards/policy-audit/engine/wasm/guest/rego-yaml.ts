/** Rego's `yaml`: plain scalars are interpreted as in YAML 1.1, like in the Go library that Open Policy Agent uses. */
import { createRequire } from 'node:module';
import type * as Yaml from 'yaml';

import { jsonInteger } from '../../../../../lib/json/json.ts';
import { messageOf } from '../../../../../lib/errors/errors.ts';
import { BuiltinError } from './builtin.ts';
import { asJson, entriesOf, objectOf } from './rego-value.ts';

const maxAliases = 100;
const require = createRequire(import.meta.url);

/** Loaded when first needed: few policies read YAML. */
function library(): typeof Yaml {
  return require('yaml') as typeof Yaml;
}

/** Tags of values that stay strings, such as dates. */
const foreign = new Set(
  ['timestamp', 'omap', 'pairs', 'set', 'binary'].map((name) => `tag:yaml.org,2002:${name}`),
);

const options = {
  version: '1.1',
  schema: 'yaml-1.1',
  customTags: (tags: Yaml.Tags) =>
    tags.filter((tag) => typeof tag === 'string' || (tag.format !== 'TIME' && !foreign.has(String(tag.tag)))),
} as const;

/** Parses the first document. @throws {BuiltinError} */
export function parseYaml(text: string): unknown {
  try {
    const [document] = library().parseAllDocuments(text, {
      ...options,
      intAsBigInt: true,
      merge: true,
      prettyErrors: false,
      uniqueKeys: false,
      logLevel: 'error',
    }) as Yaml.Document.Parsed[];
    const [error] = document?.errors ?? [];
    if (error !== undefined) throw new BuiltinError(error.message);
    return plain(document?.toJS({ maxAliasCount: maxAliases }) ?? null);
  } catch (error) {
    throw error instanceof BuiltinError ? error : new BuiltinError(messageOf(error));
  }
}

export function isYaml(text: string): boolean {
  try {
    parseYaml(text);
    return true;
  } catch {
    return false;
  }
}

function plain(value: unknown): unknown {
  if (typeof value === 'bigint') return jsonInteger(value);
  if (typeof value === 'number' && !Number.isFinite(value))
    throw new BuiltinError(`JSON has no number ${value}`);
  if (Array.isArray(value)) return value.map(plain);
  const entries = entriesOf(value);
  if (entries === undefined) return value ?? null;
  return asJson(objectOf(entries.map(([key, of]) => [key, plain(of)])));
}

/** YAML with sorted keys; list items are at the indentation of their key. */
export function yamlText(value: unknown): string {
  return library().stringify(value, {
    ...options,
    indentSeq: false,
    lineWidth: 0,
    sortMapEntries: true,
    aliasDuplicateObjects: false,
  });
}
