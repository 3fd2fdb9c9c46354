/** Objects that have to be audited, by namespace. Pure. */

/** Names of objects of one kind in one namespace, or all objects of that kind. */
export type DirtyNames = 'all' | ReadonlySet<string>;

/** Objects of one namespace, by kind. */
export interface DirtyNamespace {
  readonly kinds: ReadonlyMap<string, DirtyNames>;
  /** Uids of objects that are gone: their reports have to be removed, too. */
  readonly gone: ReadonlySet<string>;
}

interface Work {
  kinds: Map<string, 'all' | Set<string>>;
  gone: Set<string>;
}

/** The namespace '' stands for cluster-scoped objects. */
export class DirtyObjects {
  readonly #byNamespace = new Map<string, Work>();
  /** From this many names on, a list is cheaper than single requests. */
  readonly #listFrom: number;

  constructor(listFrom: number) {
    this.#listFrom = listFrom;
  }

  add(namespace: string, kind: string, name: string): void {
    const { kinds } = this.#work(namespace);
    const names = kinds.get(kind);
    if (names === 'all') return;
    if (names === undefined) kinds.set(kind, new Set([name]));
    else if (names.add(name).size > this.#listFrom) kinds.set(kind, 'all');
  }

  addAll(namespace: string, kind: string): void {
    this.#work(namespace).kinds.set(kind, 'all');
  }

  addGone(namespace: string, uid: string): void {
    this.#work(namespace).gone.add(uid);
  }

  /** Removes and returns all objects of a namespace; the caller puts back those that it does not audit. */
  take(namespace: string): DirtyNamespace | undefined {
    const work = this.#byNamespace.get(namespace);
    this.#byNamespace.delete(namespace);
    return work;
  }

  putBack(namespace: string, kind: string, names: DirtyNames): void {
    if (names === 'all') this.addAll(namespace, kind);
    else for (const name of names) this.add(namespace, kind, name);
  }

  #work(namespace: string): Work {
    let work = this.#byNamespace.get(namespace);
    if (work === undefined) this.#byNamespace.set(namespace, (work = { kinds: new Map(), gone: new Set() }));
    return work;
  }
}
