/** Sets of fields: who owns what. A tree of path elements; the parent of a member need not be a member. */
import { compareElements, type FieldPath, type PathElement } from './path-element.ts';

export class FieldSet {
  readonly members = new Set<PathElement>();
  /** Sets of nested fields; once the whole set is built, none of them is empty. */
  readonly children = new Map<PathElement, FieldSet>();

  static of(...paths: readonly FieldPath[]): FieldSet {
    const set = new FieldSet();
    for (const path of paths) set.insert(path);
    return set;
  }

  get isEmpty(): boolean {
    if (this.members.size > 0) return false;
    for (const child of this.children.values()) if (!child.isEmpty) return false;
    return true;
  }

  /**
   * Adds a path. The empty path, the whole object, has no owner and is not added.
   *
   * @param from index of the path's first element below this set.
   */
  insert(path: FieldPath, from = 0): void {
    const element = path[from];
    if (element === undefined) return;
    if (from === path.length - 1) this.members.add(element);
    else this.child(element).insert(path, from + 1);
  }

  /** The subset below an element, created if it is missing. */
  child(element: PathElement): FieldSet {
    let child = this.children.get(element);
    if (child === undefined) {
      child = new FieldSet();
      this.children.set(element, child);
    }
    return child;
  }

  has(path: FieldPath, from = 0): boolean {
    const element = path[from];
    if (element === undefined) return false;
    if (from === path.length - 1) return this.members.has(element);
    return this.children.get(element)?.has(path, from + 1) === true;
  }

  /** All members, parents before children. */
  *paths(prefix: FieldPath = []): Generator<FieldPath> {
    for (const element of [...this.members].sort(compareElements)) yield [...prefix, element];
    for (const element of [...this.children.keys()].sort(compareElements)) {
      yield* this.children.get(element)?.paths([...prefix, element]) ?? [];
    }
  }
}

const empty = new FieldSet();

export function union(a: FieldSet, b: FieldSet): FieldSet {
  const both = new FieldSet();
  for (const set of [a, b]) {
    for (const element of set.members) both.members.add(element);
    for (const [element, child] of set.children) {
      const before = both.children.get(element);
      both.children.set(element, before === undefined ? child : union(before, child));
    }
  }
  return both;
}

export function intersection(a: FieldSet, b: FieldSet): FieldSet {
  const shared = new FieldSet();
  for (const element of a.members) if (b.members.has(element)) shared.members.add(element);
  for (const [element, child] of a.children) {
    const other = b.children.get(element);
    if (other !== undefined) keep(shared, element, intersection(child, other));
  }
  return shared;
}

/** The members of `a` that are not members of `b`; a member of `b` does not exclude what is below it. */
export function difference(a: FieldSet, b: FieldSet): FieldSet {
  const rest = new FieldSet();
  for (const element of a.members) if (!b.members.has(element)) rest.members.add(element);
  for (const [element, child] of a.children) {
    const other = b.children.get(element);
    if (other === undefined) rest.children.set(element, child);
    else keep(rest, element, difference(child, other));
  }
  return rest;
}

/** The members of `a` that are neither in `b` nor below a member of `b`. */
export function recursiveDifference(a: FieldSet, b: FieldSet): FieldSet {
  const rest = new FieldSet();
  for (const element of a.members) if (!b.members.has(element)) rest.members.add(element);
  for (const [element, child] of a.children) {
    if (b.members.has(element)) continue;
    keep(rest, element, recursiveDifference(child, b.children.get(element) ?? empty));
  }
  return rest;
}

export function equalSets(a: FieldSet, b: FieldSet): boolean {
  if (a.members.size !== b.members.size || a.children.size !== b.children.size) return false;
  for (const element of a.members) if (!b.members.has(element)) return false;
  for (const [element, child] of a.children) {
    const other = b.children.get(element);
    if (other === undefined || !equalSets(child, other)) return false;
  }
  return true;
}

function keep(set: FieldSet, element: PathElement, child: FieldSet): void {
  if (!child.isEmpty) set.children.set(element, child);
}
