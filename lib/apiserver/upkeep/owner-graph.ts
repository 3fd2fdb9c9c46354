/** A graph of owners and dependents. Has only objects with owner references, and objects that wait for their dependents. */
import { listAt, valueAt } from '../../json/fields.ts';
import { metadataText } from '../resources/metadata-text.ts';
import { fieldOf, isObject, type JsonObject } from '../../json/json.ts';
import type { StoredObject } from '../store/object.ts';

export const foregroundFinalizer = 'foregroundDeletion';
export const orphanFinalizer = 'orphan';

export interface Owner {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  /** Whether the owner's foreground deletion waits for this dependent. */
  readonly blocks: boolean;
}

interface Ownership {
  readonly owners: readonly Owner[];
  readonly deleting: boolean;
  readonly finalizers: readonly string[];
}

export interface Node {
  readonly storeName: string;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** Objects are shared between nodes with the same owner. */
  readonly owners: readonly Owner[];
  readonly deleting: boolean;
  /** Whether it is being deleted in the foreground: after the dependents that block it. */
  readonly foreground: boolean;
  /** Whether it is being deleted and orphans its dependents. */
  readonly orphaning: boolean;
}

const none: Ownership = { owners: [], deleting: false, finalizers: [] };

/** Reads the fields that matter here; most texts have none of them and are not parsed. */
export function ownershipOf(stored: StoredObject): Ownership {
  const { text } = stored;
  if (!text.includes('"ownerReferences"') && !text.includes('"deletionTimestamp"')) return none;
  const own = metadataText(stored);
  const metadata: unknown = own === undefined ? fieldOf(JSON.parse(text), 'metadata') : JSON.parse(own);
  return isObject(metadata) ? ownershipIn(metadata) : none;
}

export function ownershipIn(metadata: JsonObject): Ownership {
  return {
    owners: listAt(metadata, 'ownerReferences').filter(isObject).map(ownerOf),
    deleting: valueAt(metadata, 'deletionTimestamp') !== undefined,
    finalizers: listAt(metadata, 'finalizers').filter((one) => typeof one === 'string'),
  };
}

function ownerOf(reference: JsonObject): Owner {
  return {
    apiVersion: String(fieldOf(reference, 'apiVersion')),
    kind: String(fieldOf(reference, 'kind')),
    name: String(fieldOf(reference, 'name')),
    uid: String(fieldOf(reference, 'uid')),
    blocks: fieldOf(reference, 'blockOwnerDeletion') === true,
  };
}

interface Transition {
  readonly node: Node | undefined;
  /** UIDs of owners that the object no longer blocks, or no longer has. */
  readonly released: readonly string[];
  /** Whether it is new in the graph, or its owners have changed. */
  readonly ownersChanged: boolean;
  readonly foregroundBegins: boolean;
  readonly orphaningBegins: boolean;
}

const nothing: Transition = {
  node: undefined,
  released: [],
  ownersChanged: false,
  foregroundBegins: false,
  orphaningBegins: false,
};

export class OwnerGraph {
  readonly #nodes = new Map<string, Node>();
  readonly #dependents = new Map<string, Set<Node>>();
  /** The nodes not yet seen again, for each kind that is being listed again. */
  readonly #unseen = new Map<string, Set<string>>();

  get size(): number {
    return this.#nodes.size;
  }

  get(uid: string): Node | undefined {
    return this.#nodes.get(uid);
  }

  get nodes(): Iterable<Node> {
    return this.#nodes.values();
  }

  dependentsOf(uid: string): ReadonlySet<Node> {
    return this.#dependents.get(uid) ?? noNodes;
  }

  put(object: StoredObject, { owners, deleting, finalizers }: Ownership): Transition {
    const { uid, resource, namespace, name } = object;
    this.#unseen.get(resource)?.delete(uid);
    const old = this.#nodes.get(uid);
    const foreground = deleting && finalizers.includes(foregroundFinalizer);
    const orphaning = deleting && finalizers.includes(orphanFinalizer);
    if (owners.length === 0 && !foreground && !orphaning) {
      return old === undefined ? nothing : { ...nothing, released: this.#drop(old) };
    }
    const sameOwners = old !== undefined && equalOwners(old.owners, owners);
    // Many objects have the same owner, which takes more memory than the rest of the node.
    const shared = sameOwners ? old.owners : owners.map((owner) => this.#shared(owner));
    const node: Node = {
      storeName: old?.storeName ?? resource,
      namespace,
      name,
      uid,
      owners: shared,
      deleting,
      foreground,
      orphaning,
    };
    const blockedBefore = old === undefined ? [] : this.#drop(old);
    const blocked = new Set(owners.filter(({ blocks }) => blocks).map((owner) => owner.uid));
    this.#nodes.set(uid, node);
    for (const owner of owners) {
      const dependents = this.#dependents.get(owner.uid) ?? new Set();
      dependents.add(node);
      this.#dependents.set(owner.uid, dependents);
    }
    return {
      node,
      // These owners may wait for their dependents and have to be examined again.
      released: blockedBefore.filter((owner) => !blocked.has(owner)),
      ownersChanged: !sameOwners && owners.length > 0,
      foregroundBegins: foreground && old?.foreground !== true,
      orphaningBegins: orphaning && old?.orphaning !== true,
    };
  }

  /** Removes a deleted object. Its dependents stay in the graph. @returns the UIDs of the owners that it blocked. */
  remove({ uid, resource }: Pick<StoredObject, 'resource' | 'uid'>): readonly string[] {
    this.#unseen.get(resource)?.delete(uid);
    const node = this.#nodes.get(uid);
    return node === undefined ? [] : this.#drop(node);
  }

  /** Call before all objects of a kind are put again. */
  listBegins(storeName: string): void {
    const unseen = new Set<string>();
    for (const node of this.#nodes.values()) if (node.storeName === storeName) unseen.add(node.uid);
    this.#unseen.set(storeName, unseen);
  }

  /** @returns the nodes that were not put again. */
  listEnds(storeName: string): readonly Node[] {
    const unseen = this.#unseen.get(storeName) ?? new Set();
    this.#unseen.delete(storeName);
    return [...unseen].map((uid) => this.#nodes.get(uid)).filter((node) => node !== undefined);
  }

  #shared(owner: Owner): Owner {
    const [first] = this.dependentsOf(owner.uid);
    return first?.owners.find((other) => equalOwner(owner, other)) ?? owner;
  }

  /** @returns the UIDs of the owners that it blocked. */
  #drop(node: Node): string[] {
    this.#nodes.delete(node.uid);
    for (const { uid } of node.owners) {
      const dependents = this.#dependents.get(uid);
      if (dependents?.delete(node) && dependents.size === 0) this.#dependents.delete(uid);
    }
    return node.owners.filter(({ blocks }) => blocks).map(({ uid }) => uid);
  }
}

const noNodes: ReadonlySet<Node> = new Set();

function equalOwners(a: readonly Owner[], b: readonly Owner[]): boolean {
  return a.length === b.length && a.every((owner, index) => equalOwner(owner, b[index]));
}

function equalOwner(a: Owner, b: Owner | undefined): boolean {
  return (
    a.uid === b?.uid &&
    a.blocks === b.blocks &&
    a.name === b.name &&
    a.kind === b.kind &&
    a.apiVersion === b.apiVersion
  );
}
