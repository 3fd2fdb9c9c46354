/**
 * Rego's `json.patch`: JSON Patch (RFC 6902) on values, including sets within them. The patches of the API server
 * (`lib/json`) differ: there, an index may count from the end, and `replace` may add.
 */
import { compareValues, entriesOf, objectOf } from './rego-value.ts';

type Path = readonly unknown[];

/** The operation does not apply, or is malformed. */
class NotApplicable extends Error {
  override readonly name = 'NotApplicable';
}

/** The patched document; `undefined` if an operation does not apply. `document` is not changed. */
export function patched(document: unknown, patch: readonly unknown[]): unknown {
  try {
    return patch.reduce(applied, document);
  } catch (error) {
    if (error instanceof NotApplicable) return undefined;
    throw error;
  }
}

function applied(document: unknown, operation: unknown): unknown {
  const fields = new Map(entriesOf(operation) ?? []);
  const given = (name: string): unknown => {
    if (!fields.has(name)) throw new NotApplicable(name);
    return fields.get(name);
  };
  const path = pathOf(given('path'));
  switch (given('op')) {
    case 'add':
      return added(document, path, given('value'));
    case 'remove':
      return removed(document, path);
    case 'replace': {
      const value = given('value');
      return path.length === 0 ? value : added(removed(document, path), path, value);
    }
    case 'move': {
      const from = pathOf(given('from'));
      return added(removed(document, from), path, valueAt(document, from));
    }
    case 'copy':
      return added(document, path, valueAt(document, pathOf(given('from'))));
    case 'test':
      if (compareValues(valueAt(document, path), given('value')) !== 0) throw new NotApplicable('test');
      return document;
    default:
      throw new NotApplicable('op');
  }
}

/** Parses a path: a pointer, which may lack its leading slash, or a list of steps. */
function pathOf(path: unknown): Path {
  if (Array.isArray(path)) return path;
  if (typeof path !== 'string') throw new NotApplicable('path');
  if (path === '') return [];
  const steps = path.replace(/^\/+/, '').split('/');
  return steps.map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));
}

/** @param length - Number of valid indexes. */
function indexOf(step: unknown, length: number): number {
  const index = typeof step === 'string' && /^(?:0|[1-9]\d*)$/.test(step) ? Number(step) : step;
  if (typeof index !== 'number' || !Number.isInteger(index) || index < 0 || index >= length)
    throw new NotApplicable('index');
  return index;
}

const isKey = (step: unknown) => (entry: readonly [unknown, unknown]) => compareValues(entry[0], step) === 0;

function child(holder: unknown, step: unknown): unknown {
  if (Array.isArray(holder)) return holder[indexOf(step, holder.length)] as unknown;
  const entry = entriesOf(holder)?.find(isKey(step));
  if (entry === undefined) throw new NotApplicable('path');
  return entry[1];
}

const valueAt = (document: unknown, path: Path): unknown => path.reduce(child, document);

/** A copy of `holder`, with `change` applied to the parent of the last step of the path. */
function edited(
  holder: unknown,
  [step, ...rest]: Path,
  change: (holder: unknown, step: unknown) => unknown,
): unknown {
  if (rest.length === 0) return change(holder, step);
  const inner = edited(child(holder, step), rest, change);
  if (Array.isArray(holder)) return holder.with(indexOf(step, holder.length), inner);
  return withEntry(holder, step, inner);
}

function withEntry(holder: unknown, step: unknown, value: unknown): unknown {
  const entries = entriesOf(holder);
  if (entries === undefined) throw new NotApplicable('path');
  const at = entries.findIndex(isKey(step));
  return objectOf(at < 0 ? [...entries, [step, value]] : entries.with(at, [step, value]));
}

function added(document: unknown, path: Path, value: unknown): unknown {
  if (path.length === 0) return value;
  return edited(document, path, (holder, step) => {
    if (!Array.isArray(holder)) return withEntry(holder, step, value);
    return holder.toSpliced(step === '-' ? holder.length : indexOf(step, holder.length + 1), 0, value);
  });
}

function removed(document: unknown, path: Path): unknown {
  if (path.length === 0) throw new NotApplicable('path');
  return edited(document, path, (holder, step) => {
    if (Array.isArray(holder)) return holder.toSpliced(indexOf(step, holder.length), 1);
    child(holder, step);
    return objectOf((entriesOf(holder) ?? []).filter((entry) => !isKey(step)(entry)));
  });
}
