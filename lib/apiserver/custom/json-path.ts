/**
 * The part of JSONPath that printer columns use: `.spec.a`, `.a['b.c']`, `.list[0]`, `.list[-1]`, `.list[*].name`,
 * `.status.conditions[?(@.type=="Ready")].status` (https://kubernetes.io/docs/reference/kubectl/jsonpath/).
 */
import { fieldOf, isObject } from '../../json/json.ts';

type Step =
  | { readonly kind: 'field'; readonly name: string }
  | { readonly kind: 'index'; readonly index: number }
  | { readonly kind: 'all' }
  | {
      readonly kind: 'filter';
      readonly path: JsonPath;
      readonly equal: boolean;
      /** `undefined`: the field only has to exist. */
      readonly value: boolean | number | string | undefined;
    };

/** A parsed path. */
type JsonPath = readonly Step[];

/** Parses a path that begins with a dot or a bracket; `undefined` if it uses other JSONPath syntax than the above. */
export function parseJsonPath(text: string): JsonPath | undefined {
  const steps: Step[] = [];
  let rest = text;
  while (rest !== '' && rest !== '.') {
    const match =
      /^\.((?:[^.[\]\\]|\\.)+)/.exec(rest) ??
      /^\.?\[(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|(-?\d+)|(\*)|\?\((.*?)\))\]/.exec(rest);
    const step = match === null ? undefined : stepOf(match);
    if (match === null || step === undefined) return undefined;
    steps.push(step);
    rest = rest.slice(match[0].length);
  }
  return steps;
}

function stepOf(match: RegExpExecArray): Step | undefined {
  const [, first, double, index, all, filter] = match;
  if (index !== undefined) return { kind: 'index', index: Number(index) };
  if (all !== undefined || match[0] === '.*') return { kind: 'all' };
  if (filter !== undefined) return filterOf(filter.trim());
  return { kind: 'field', name: (first ?? double ?? '').replaceAll(/\\(.)/g, '$1') };
}

function filterOf(text: string): Step | undefined {
  const match = /^@([.[][^<>=!\s]*)\s*(?:(==|!=)\s*(.+))?$/.exec(text);
  const path = match === null ? undefined : parseJsonPath(match[1] ?? '');
  if (match === null || path === undefined) return undefined;
  const [, , operator, literal] = match;
  if (literal === undefined) return { kind: 'filter', path, equal: true, value: undefined };
  const value = literalOf(literal.trim());
  return value === undefined ? undefined : { kind: 'filter', path, equal: operator === '==', value };
}

function literalOf(text: string): boolean | number | string | undefined {
  const quoted = /^(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')$/.exec(text);
  if (quoted !== null) return (quoted[1] ?? quoted[2] ?? '').replaceAll(/\\(.)/g, '$1');
  if (text === 'true' || text === 'false') return text === 'true';
  return /^-?\d+(?:\.\d+)?$/.test(text) ? Number(text) : undefined;
}

/** The first value at the path; `undefined` if it leads to no value. */
export function firstAt(value: unknown, path: JsonPath, from = 0): unknown {
  let at = value;
  for (let index = from; index < path.length; index++) {
    const step = path[index];
    if (step === undefined) break;
    if (step.kind === 'field') at = isObject(at) ? fieldOf(at, step.name) : undefined;
    else if (step.kind === 'index') at = Array.isArray(at) ? at.at(step.index) : undefined;
    else return firstOf(at, step, path, index + 1);
    if (at === undefined) return undefined;
  }
  return at;
}

function firstOf(value: unknown, step: Step, path: JsonPath, next: number): unknown {
  const items: readonly unknown[] = Array.isArray(value)
    ? value
    : isObject(value)
      ? Object.values(value)
      : [];
  for (const item of items) {
    if (step.kind === 'filter' && !passes(item, step)) continue;
    const found = firstAt(item, path, next);
    if (found !== undefined) return found;
  }
  return undefined;
}

function passes(item: unknown, { path, equal, value }: Extract<Step, { kind: 'filter' }>): boolean {
  const found = firstAt(item, path);
  if (value === undefined) return found !== undefined;
  return found !== undefined && (found === value) === equal;
}
