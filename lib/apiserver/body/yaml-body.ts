/**
 * YAML from a request. Clients of the API send JSON; YAML comes from people with curl, and from server-side
 * apply, whose media type is YAML and whose text is nearly always JSON.
 *
 * The meaning of plain scalars follows YAML 1.1 as gopkg.in/yaml.v2 has it, which is what an API server
 * decodes with: `yes` is true, `010` is 8, dates and `1:20` are strings.
 */
import { isUtf8 } from 'node:buffer';

import { isMap, isScalar, LineCounter, parseDocument, type Tags, visit, type YAMLMap } from 'yaml';

import { messageOf } from '../../errors/errors.ts';
import { extentOf, maxNesting } from '../../json/bounds.ts';
import { jsonInteger, type JsonObject, setField } from '../../json/json.ts';
import type { Body } from '../verbs/request.ts';
import { BodyMistake } from './body-mistake.ts';
import { decodeJson } from './json-body.ts';

/** Parsing takes about a second per MiB, and longer for malicious texts: `YamlReader` limits the time. */
export const maxYamlBytes = 1024 * 1024;
/** Limit of nodes that aliases repeat (`maxAliasCount` of the parser). */
const maxAliases = 100;
/** Limit for the expanded value: an alias costs three bytes in the text. */
const maxExpandedUnits = 3 * 1024 * 1024;
const maxDuplicates = 100;

/** @throws {BodyMistake} for invalid YAML, YAML that has no form in JSON, and aliases that would expand too far */
export function decodeYaml(bytes: Buffer): Body {
  const json = asJsonBody(bytes);
  if (json !== undefined) return json;
  if (!isUtf8(bytes)) throw new BodyMistake('yaml: invalid UTF-8');
  assertYamlSize(bytes);
  const lines = new LineCounter();
  try {
    return decode(bytes.toString('utf8'), lines);
  } catch (error) {
    if (error instanceof BodyMistake) throw error;
    // The parser recurses once per level, so deep nesting overflows the stack (RangeError). It refuses too many aliases with a
    // ReferenceError.
    if (error instanceof RangeError) throw tooDeep();
    if (error instanceof ReferenceError) throw new BodyMistake('yaml: document contains excessive aliasing');
    // Any other error is due to the text as well: parsing depends on nothing else.
    throw new BodyMistake(`yaml: ${messageOf(error)}`);
  }
}

/** JSON is YAML, but is read much faster. `undefined` if it is not a JSON object. */
export function asJsonBody(bytes: Buffer): Body | undefined {
  if (firstSign(bytes) !== 0x7b) return undefined;
  try {
    return decodeJson(bytes);
  } catch (error) {
    if (error instanceof BodyMistake) return undefined;
    throw error;
  }
}

/** @throws {BodyMistake} */
export function assertYamlSize(bytes: Buffer): void {
  if (bytes.length > maxYamlBytes) throw new BodyMistake(`yaml: longer than ${maxYamlBytes} bytes`);
}

function decode(text: string, lineCounter: LineCounter): Body {
  const document = parseDocument(text, {
    version: '1.1',
    schema: 'yaml-1.1',
    customTags: withoutForeignTags,
    intAsBigInt: true,
    lineCounter,
    merge: true,
    prettyErrors: false,
    uniqueKeys: false,
    logLevel: 'error',
  });
  const [error] = document.errors;
  if (error !== undefined) {
    if (error.code === 'RESOURCE_EXHAUSTION') throw tooDeep();
    const { line } = lineCounter.linePos(error.pos[0]);
    throw new BodyMistake(`yaml: line ${line}: ${error.message}`);
  }
  const expanded: unknown = document.toJS({ maxAliasCount: maxAliases });
  const { depth, sizeUnits } = extentOf(expanded, maxNesting, maxExpandedUnits);
  if (depth > maxNesting) throw tooDeep();
  if (sizeUnits > maxExpandedUnits) throw new BodyMistake('yaml: document contains excessive aliasing');

  const duplicates: string[] = [];
  visit(document, {
    Map(_key, map) {
      collectDuplicates(map, lineCounter, duplicates);
    },
  });
  return { value: asJson(expanded), duplicates };
}

const foreign = new Set(
  ['timestamp', 'omap', 'pairs', 'set', 'binary'].map((name) => `tag:yaml.org,2002:${name}`),
);

/** Without tags that the library knows but yaml.v2 reads as strings. */
function withoutForeignTags(tags: Tags): Tags {
  return tags.filter(
    (tag) => typeof tag === 'string' || (tag.format !== 'TIME' && !foreign.has(String(tag.tag))),
  );
}

function collectDuplicates(map: YAMLMap, lines: LineCounter, duplicates: string[]): void {
  const seen = new Set<unknown>();
  for (const { key } of map.items) {
    if (isMap(key)) throw new BodyMistake('yaml: invalid map key: a map');
    if (!isScalar(key)) continue;
    if (seen.has(key.value) && duplicates.length < maxDuplicates) {
      const { line } = lines.linePos(key.range?.[0] ?? 0);
      // Like YAMLToJSONStrict of sigs.k8s.io/yaml, this names the line, not the path.
      duplicates.push(`line ${line}: key ${JSON.stringify(String(key.value))} already set in map`);
    }
    seen.add(key.value);
  }
}

/** A copy that shares nothing, with integers as `number` if that keeps them. */
function asJson(value: unknown): unknown {
  if (typeof value === 'bigint') return jsonInteger(value);
  if (typeof value === 'number' && !Number.isFinite(value)) {
    throw new BodyMistake(`json: unsupported value: ${value}`);
  }
  if (typeof value === 'string') return value.toWellFormed();
  if (Array.isArray(value)) return value.map(asJson);
  if (typeof value !== 'object' || value === null) return value ?? null;
  const copy: JsonObject = {};
  for (const [name, field] of Object.entries(value)) setField(copy, name, asJson(field));
  return copy;
}

/** The first byte that is no white space. */
function firstSign(bytes: Buffer): number | undefined {
  return bytes.find((byte) => byte > 0x20);
}

function tooDeep(): BodyMistake {
  return new BodyMistake(`yaml: nested deeper than ${maxNesting} levels`);
}
