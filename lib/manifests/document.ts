/** The objects of a manifest, with the lines of their fields. */
import { isObject } from '../json/json.ts';
import {
  type Document,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  parseAllDocuments,
  type Tags,
} from 'yaml';

import type { KubeObject } from '../kube/object/object.ts';
import type { Problem } from './problem.ts';

export interface ManifestObject {
  readonly file: string;
  readonly document: number;
  /** Has a name, an apiVersion and a kind. */
  readonly object: KubeObject & { readonly apiVersion: string; readonly kind: string };
  /** The line of a field such as `spec.traps[0].path`, or of the deepest part of it that exists; from 1. */
  lineOf(field: string): number;
}

interface ParsedManifest {
  readonly objects: readonly ManifestObject[];
  readonly problems: readonly Problem[];
}

/** Dates and the like stay strings, as in the YAML parser of the API server and kubectl. */
const foreign = new Set(
  ['timestamp', 'omap', 'pairs', 'set', 'binary'].map((name) => `tag:yaml.org,2002:${name}`),
);
const MAX_ALIASES = 100;

/** One value of a file, or one item of a `List`. */
interface ManifestValue {
  readonly document: number;
  readonly value: unknown;
  /** See {@link ManifestObject}. */
  lineOf(field: string): number;
}

/** Never throws: unreadable documents become problems, and do not affect other documents. */
export function parseManifest(text: string, file: string): ParsedManifest {
  const { values, problems } = parseManifestValues(text, file);
  const objects: ManifestObject[] = [];
  const all: Problem[] = [...problems];
  for (const { document, value, lineOf } of values) {
    const problem = whatIsMissing(value);
    if (problem === undefined)
      objects.push({ file, document, object: value as ManifestObject['object'], lineOf });
    else all.push({ file, document, line: lineOf(problem.field), ...problem });
  }
  return { objects, problems: all };
}

/** Like {@link parseManifest}, for files with any values: they need not be objects that can be applied. */
export function parseManifestValues(
  text: string,
  file: string,
): { readonly values: readonly ManifestValue[]; readonly problems: readonly Problem[] } {
  const values: ManifestValue[] = [];
  const problems: Problem[] = [];
  const lines = new LineCounter();
  const documents = parseDocuments(text, lines);
  if (!Array.isArray(documents)) return { values, problems: [{ file, why: documents.why }] };
  let number = 0;
  for (const document of documents) {
    const [error] = document.errors;
    // There may be nothing between two `---`, or only comments.
    const isEmpty = error === undefined && (document.contents === null || isEmptyScalar(document.contents));
    if (isEmpty) continue;
    number++;
    if (error !== undefined) {
      const { line } = lines.linePos(error.pos[0]);
      problems.push({ file, line, document: number, why: `invalid YAML: ${error.message}` });
      continue;
    }
    let value: unknown;
    try {
      value = document.toJS({ maxAliasCount: MAX_ALIASES });
    } catch (failure) {
      const why = failure instanceof Error ? failure.message : String(failure);
      problems.push({ file, document: number, line: lineAt(document, lines, []), why });
      continue;
    }
    for (const [path, one] of unfolded(value)) {
      const lineOf = (field: string): number => lineAt(document, lines, [...path, ...fieldPath(field)]);
      values.push({ document: number, value: one, lineOf });
    }
  }
  return { values, problems };
}

function parseDocuments(
  text: string,
  lineCounter: LineCounter,
): Document.Parsed[] | { readonly why: string } {
  try {
    const documents = parseAllDocuments(text, {
      version: '1.1',
      schema: 'yaml-1.1',
      customTags: (tags: Tags) =>
        tags.filter(
          (tag) => typeof tag === 'string' || (tag.format !== 'TIME' && !foreign.has(String(tag.tag))),
        ),
      merge: true,
      lineCounter,
      prettyErrors: false,
      logLevel: 'error',
    });
    return 'empty' in documents ? [] : documents;
  } catch (error) {
    // Also a stack overflow: the parser recurses once per level.
    return { why: `invalid YAML: ${error instanceof Error ? error.message : String(error)}` };
  }
}

function isEmptyScalar(node: unknown): boolean {
  return isScalar(node) && (node.value === null || node.value === '') && !node.anchor;
}

/** Replaces a `List` by its items. */
function unfolded(value: unknown): readonly (readonly [readonly (number | string)[], unknown])[] {
  if (!isObject(value) || !Array.isArray(value['items'])) return [[[], value]];
  if (typeof value['kind'] !== 'string' || !value['kind'].endsWith('List')) return [[[], value]];
  return value['items'].map((item: unknown, index) => [['items', index], item] as const);
}

function whatIsMissing(value: unknown): { readonly field: string; readonly why: string } | undefined {
  if (!isObject(value)) return { field: '', why: 'not a Kubernetes object: expected fields' };
  for (const field of ['apiVersion', 'kind'] as const) {
    if (typeof value[field] !== 'string' || value[field] === '') {
      return { field, why: `${field} is missing or not a string` };
    }
  }
  const { metadata } = value;
  const field = 'metadata.name';
  if (!isObject(metadata) || typeof metadata['name'] !== 'string' || metadata['name'] === '') {
    const given = isObject(metadata) ? metadata['name'] : undefined;
    // YAML reads `name: 7` and `name: no` as a number and a boolean.
    const isOther = given !== undefined && given !== null && given !== '';
    return {
      field,
      why: isOther ? 'the name is not a string: put it in quotes' : 'a name is required to apply it',
    };
  }
  if (metadata['namespace'] !== undefined && typeof metadata['namespace'] !== 'string') {
    return { field: 'metadata.namespace', why: 'the namespace is not a string' };
  }
  return undefined;
}

/** `spec.traps[0].path`, `metadata.labels[a.b/c]`, with or without a dot in front. */
function fieldPath(field: string): (number | string)[] {
  return [...field.matchAll(/\[(\d+)\]|\[([^\]]*)\]|([^.[\]]+)/g)].map(([, index, key, name]) =>
    index === undefined ? (key ?? name ?? '') : Number(index),
  );
}

/** The line of the deepest node of a path that exists; for a field, the line of its name. */
function lineAt(document: Document.Parsed, lines: LineCounter, path: readonly (number | string)[]): number {
  let node: unknown = document.contents;
  let offset = isNode(node) ? (node.range?.[0] ?? 0) : 0;
  for (const step of path) {
    let key: unknown;
    if (isMap(node)) {
      const pair = node.items.find((item) => isScalar(item.key) && String(item.key.value) === String(step));
      if (pair === undefined) break;
      key = pair.key;
      node = pair.value;
    } else if (isSeq(node) && typeof step === 'number') {
      node = node.items[step];
      key = node;
    } else break;
    if (!isNode(key) || !key.range) break;
    offset = key.range[0];
  }
  return lines.linePos(offset).line;
}
