/**
 * How large and how deep a JSON value is, found without recursion: a value may come from a request and be
 * nested so deep that a function that calls itself for each level would end the process.
 */
import { isObject } from './json.ts';
import { Refusal } from './refusal.ts';

/** Deeper than any real object. Limited because code that walks objects recurses once per level. */
export const maxNesting = 500;

/** Whether a value has at most `levels` levels; recurses once for each. */
export function isWithin(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return true;
  if (levels === 0) return false;
  if (Array.isArray(value)) {
    for (const item of value) if (!isWithin(item, levels - 1)) return false;
    return true;
  }
  for (const name of Object.keys(value)) {
    if (!isWithin((value as Readonly<Record<string, unknown>>)[name], levels - 1)) return false;
  }
  return true;
}

export interface Extent {
  /** Levels of lists and objects: 0 for a scalar, 1 for `{}`. */
  readonly depth: number;
  /** At least the length of the JSON text, in UTF-16 code units, without white space. */
  readonly sizeUnits: number;
}

/** Measures a value; stops once either limit is passed, and then gives figures above that limit. */
export function extentOf(value: unknown, maxDepth = Infinity, maxUnits = Infinity): Extent {
  let depth = 0;
  let sizeUnits = 0;
  const pending: { readonly value: unknown; readonly depth: number }[] = [{ value, depth: 0 }];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    if (depth > maxDepth || sizeUnits > maxUnits) break;
    if (Array.isArray(next.value)) {
      depth = Math.max(depth, next.depth + 1);
      sizeUnits += 2 + next.value.length;
      for (const item of next.value) pending.push({ value: item, depth: next.depth + 1 });
    } else if (isObject(next.value)) {
      depth = Math.max(depth, next.depth + 1);
      sizeUnits += 2;
      for (const [name, item] of Object.entries(next.value)) {
        sizeUnits += name.length + 4;
        pending.push({ value: item, depth: next.depth + 1 });
      }
    } else {
      sizeUnits += typeof next.value === 'string' ? next.value.length + 2 : String(next.value).length;
    }
  }
  return { depth, sizeUnits };
}

/** @param what names the value: "the patch". @throws {Refusal} 400 for more than {@link maxNesting} levels. */
export function assertNesting(value: unknown, what: string): void {
  if (!isWithin(value, maxNesting)) {
    throw new Refusal(400, `${what} is nested deeper than ${maxNesting} levels`);
  }
}
