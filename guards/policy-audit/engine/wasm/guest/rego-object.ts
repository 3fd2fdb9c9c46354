/** Rego's functions on objects, arrays, sets and graphs that modules may leave to the host. */
import { type Builtin, BuiltinError, membersAt, operandError } from './builtin.ts';
import { compareValues, entriesOf, objectOf } from './rego-value.ts';

export const objectBuiltins: Readonly<Record<string, Builtin>> = {
  'array.reverse': ([array]) => {
    if (!Array.isArray(array)) throw operandError(0, 'array', array);
    return array.toReversed();
  },
  'array.flatten': ([array]) => {
    if (!Array.isArray(array)) throw operandError(0, 'array', array);
    return array.flat(1);
  },
  'object.keys': (args) => new Set(objectAt(args, 0).map(([key]) => key)),
  'object.union_n': (args) => {
    const objects = membersAt(args, 0);
    return objects.map((_, at) => objectOf(objectAt(objects, at))).reduce(union, {});
  },
  'object.subset': ([whole, part]) => {
    const isSubset = contains(whole, part);
    if (isSubset === undefined) throw new BuiltinError('the operands must be objects, sets or arrays');
    return isSubset;
  },
  'graph.reachable_paths': (args) => {
    const graph = objectAt(args, 0);
    const paths = new Set<unknown>();
    for (const node of membersAt(args, 1)) {
      const next = neighbours(graph, node);
      if (next?.length === 0) paths.add([node]);
      for (const one of next ?? []) follow(graph, one, [node], paths);
    }
    return paths;
  },
};

type Entries = readonly (readonly [unknown, unknown])[];

function objectAt(args: readonly unknown[], at: number): Entries {
  const entries = entriesOf(args[at]);
  if (entries === undefined) throw operandError(at, 'object', args[at]);
  return entries;
}

const valueOf = (entries: Entries, key: unknown): readonly [unknown, unknown] | undefined =>
  entries.find(([one]) => compareValues(one, key) === 0);

/** If a key is in both, objects are merged; otherwise the value of `b` wins. */
function union(a: unknown, b: unknown): unknown {
  const [left, right] = [entriesOf(a), entriesOf(b)];
  if (left === undefined || right === undefined) return b;
  const kept = left.filter(([key]) => valueOf(right, key) === undefined);
  const changed = right.map(([key, value]) => {
    const known = valueOf(left, key);
    return [key, known === undefined ? value : union(known[1], value)] as const;
  });
  return objectOf([...kept, ...changed]);
}

const isEqual = (a: unknown, b: unknown): boolean => compareValues(a, b) === 0;

/** `undefined` if the types cannot be compared. */
function contains(whole: unknown, part: unknown): boolean | undefined {
  const members = whole instanceof Set || Array.isArray(whole) ? [...(whole as unknown[])] : undefined;
  if (part instanceof Set && members !== undefined)
    return [...part].every((one) => members.some((member) => isEqual(member, one)));
  if (Array.isArray(part) && Array.isArray(whole)) {
    if (part.length === 0) return true;
    return whole.some((_, from) =>
      part.every((one, at) => from + at < whole.length && isEqual(whole[from + at], one)),
    );
  }
  const [left, right] = [entriesOf(whole), entriesOf(part)];
  if (left === undefined || right === undefined) return undefined;
  return right.every(([key, value]) => {
    const known = valueOf(left, key);
    return known !== undefined && (contains(known[1], value) ?? isEqual(known[1], value));
  });
}

/** The nodes that a node has edges to; `undefined` if the node is not in the graph. */
function neighbours(graph: Entries, node: unknown): readonly unknown[] | undefined {
  const found = valueOf(graph, node);
  if (found === undefined) return undefined;
  return found[1] instanceof Set || Array.isArray(found[1]) ? [...(found[1] as unknown[])] : [];
}

/** A path ends at a node without edges, before a node that is not in the graph, and before a node that it already contains. */
function follow(graph: Entries, node: unknown, path: readonly unknown[], paths: Set<unknown>): void {
  const next = neighbours(graph, node);
  if (next === undefined) {
    paths.add(path);
    return;
  }
  const extended = [...path, node];
  if (next.length === 0) paths.add(extended);
  for (const one of next) {
    if (extended.some((known) => isEqual(known, one))) paths.add(extended);
    else follow(graph, one, extended, paths);
  }
}
