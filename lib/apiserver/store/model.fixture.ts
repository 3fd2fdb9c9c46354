// The simplest model of the store: a map, and a copy of it for each version.
import type { ChangeType, ObjectKey } from './object.ts';

export interface ModelObject extends ObjectKey {
  readonly version: bigint;
  readonly uid: string;
  readonly mark: unknown;
}

export interface ModelChange {
  readonly type: ChangeType;
  readonly version: bigint;
  readonly object: ModelObject;
  readonly previous: ModelObject | undefined;
}

/** The order of lists: bytes of the UTF-8 of `namespace/name`. */
function inListOrder(a: ObjectKey, b: ObjectKey): number {
  return Buffer.compare(bytesOf(a), bytesOf(b));
}

function bytesOf({ namespace, name }: ObjectKey): Buffer {
  return Buffer.from(`${namespace}/${name}`);
}

export class Model {
  version = 1n;
  readonly changes: ModelChange[] = [];
  readonly #states = new Map<bigint, ReadonlyMap<string, ModelObject>>([[1n, new Map()]]);

  /** `undefined` when it would be refused. */
  create(key: ObjectKey, uid: string, mark: unknown): ModelObject | undefined {
    if (this.get(key) !== undefined) return undefined;
    return this.#change('ADDED', { ...key, uid, mark, version: this.version + 1n }, undefined);
  }

  update(key: ObjectKey, expectedVersion: bigint, mark: unknown): ModelObject | undefined {
    const found = this.get(key);
    if (found?.version !== expectedVersion) return undefined;
    return this.#change('MODIFIED', { ...found, mark, version: this.version + 1n }, found);
  }

  delete(key: ObjectKey, expectedVersion: bigint | undefined): ModelObject | undefined {
    const found = this.get(key);
    if (found === undefined || (expectedVersion ?? found.version) !== found.version) return undefined;
    return this.#change('DELETED', { ...found, version: this.version + 1n }, found);
  }

  get(key: ObjectKey): ModelObject | undefined {
    return this.#state(this.version).get(keyText(key));
  }

  list(resource: string, namespace: string | undefined, version: bigint): ModelObject[] {
    return [...this.#state(version).values()]
      .filter(
        (object) => object.resource === resource && (namespace ?? object.namespace) === object.namespace,
      )
      .sort(inListOrder);
  }

  changesAfter(resource: string, namespace: string | undefined, version: bigint): ModelChange[] {
    return this.changes.filter(
      (change) =>
        change.version > version &&
        change.object.resource === resource &&
        (namespace ?? change.object.namespace) === change.object.namespace,
    );
  }

  #change(type: ChangeType, object: ModelObject, previous: ModelObject | undefined): ModelObject {
    const state = new Map(this.#state(this.version));
    if (type === 'DELETED') state.delete(keyText(object));
    else state.set(keyText(object), object);
    this.version = object.version;
    this.#states.set(object.version, state);
    this.changes.push({ type, version: object.version, object, previous });
    return object;
  }

  #state(version: bigint): ReadonlyMap<string, ModelObject> {
    const state = this.#states.get(version);
    if (state === undefined) throw new RangeError(`no version ${version}`);
    return state;
  }
}

function keyText({ resource, namespace, name }: ObjectKey): string {
  return JSON.stringify([resource, namespace, name]);
}
