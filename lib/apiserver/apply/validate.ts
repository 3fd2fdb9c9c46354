/** Checks that an applied configuration fits its type, which the other steps of apply take for granted. */
import { canonicalJson, isObject } from '../../json/json.ts';
import { elementText, fieldElement, itemElement } from './path-element.ts';
import { kindIn, type ApplyType, type ListType, type MapType, type Scalar } from './type.ts';

/** Limit of reported problems: a person does not read more. */
const maxProblems = 20;

/** Errors such as `.spec.replicas: expected numeric (int or float), got "x"`; empty for a valid value. */
export function problemsOf(value: unknown, type: ApplyType): readonly string[] {
  const problems: string[] = [];
  check(value, type, '', problems);
  return problems;
}

function check(value: unknown, type: ApplyType, path: string, problems: string[]): void {
  if (value === null || problems.length >= maxProblems) return;
  const report = (problem: string) => problems.push(path === '' ? problem : `${path}: ${problem}`);
  switch (kindIn(type, value)) {
    case 'scalar':
      if (!isScalar(value, type.scalar))
        report(`expected ${scalarNames[type.scalar ?? 'untyped']}, got ${shown(value)}`);
      return;
    case 'list':
      if (!Array.isArray(value)) report(`expected list, got ${shown(value)}`);
      else if (type.list !== undefined) checkItems(value, type.list, path, problems);
      return;
    case 'map':
      if (!isObject(value)) report(`expected map, got ${shown(value)}`);
      else if (type.map !== undefined) checkFields(value, type.map, path, problems);
  }
}

function checkFields(
  value: Readonly<Record<string, unknown>>,
  map: MapType,
  path: string,
  problems: string[],
): void {
  for (const name of Object.keys(value)) {
    const type = map.fields.get(name) ?? map.rest;
    const inner = path + elementText(fieldElement(name));
    if (type !== undefined) check(value[name], type, inner, problems);
    else if (problems.length < maxProblems) problems.push(`${inner}: field not declared in schema`);
  }
}

function checkItems(items: readonly unknown[], list: ListType, path: string, problems: string[]): void {
  const seen = new Set<string>();
  for (const [index, item] of items.entries()) {
    if (problems.length >= maxProblems) return;
    if (list.relation === 'atomic') {
      check(item, list.items, `${path}[${index}]`, problems);
      continue;
    }
    const element = itemElement(list, item);
    if (typeof element !== 'string') {
      problems.push(`${path}: element ${index}: ${element.problem}`);
      continue;
    }
    if (seen.has(element)) problems.push(`${path}: duplicate entries for key ${elementText(element)}`);
    seen.add(element);
    check(item, list.items, path + elementText(element), problems);
  }
}

const scalarNames: Readonly<Record<Scalar, string>> = {
  string: 'string',
  numeric: 'numeric (int or float)',
  boolean: 'boolean',
  untyped: 'any value',
};

function isScalar(value: unknown, scalar: Scalar | undefined): boolean {
  switch (scalar) {
    case 'string':
    case 'boolean':
      return typeof value === scalar;
    case 'numeric':
      return typeof value === 'number' || typeof value === 'bigint';
    case 'untyped':
    case undefined:
      return true;
  }
}

function shown(value: unknown): string {
  if (Array.isArray(value)) return 'a list';
  if (isObject(value)) return 'a map';
  const text = canonicalJson(value);
  return text.length > 100 ? `${text.slice(0, 100)}...` : text;
}
