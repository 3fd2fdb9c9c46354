/** The content of the store: objects as JSON text under a key, each at one version, and changes. */

export interface ObjectKey {
  /** The resource, with its group if it has one: `pods`, `deployments.apps`. */
  readonly resource: string;
  /** '' for cluster-scoped objects. */
  readonly namespace: string;
  readonly name: string;
}

/** An object at one version. It is shared by all readers, so never change it. */
export interface StoredObject extends ObjectKey {
  readonly uid: string;
  /** The store's version after the last write of this object. */
  readonly resourceVersion: bigint;
  /** The object's JSON, with its version in it. */
  readonly text: string;
  /** Where in `text` the digits of the version begin (index of UTF-16 units). */
  readonly versionAt: number;
}

/**
 * An object's JSON for a write. Only the store knows its new version, so the text comes in two halves, and the digits of
 * the version go between them:
 *
 * ```ts
 * const text = { before: '{"metadata":{"resourceVersion":"', after: '","name":"a"},"kind":"Pod"}' };
 * ```
 */
export interface VersionedText {
  readonly before: string;
  readonly after: string;
}

/** The change of one object that made a new version of the store. A deletion has no object. */
export interface Revision extends ObjectKey {
  readonly version: bigint;
  /** The version of the object that the change replaced; 0 for a creation. */
  readonly previous: bigint;
  readonly uid: string;
  readonly object: StoredObject | undefined;
}

export type ChangeType = 'ADDED' | 'MODIFIED' | 'DELETED';

/** One change. All watchers get the same instance, so what is derived from it can be kept in a WeakMap. */
export interface Change {
  readonly type: ChangeType;
  /** The object after the change; for a deletion its last state, with the version of the deletion in it. */
  readonly object: StoredObject;
  /** The object before the change, if the watch requested it; `undefined` for `ADDED`. */
  readonly previous?: StoredObject | undefined;
}

/** The same object with another version in its text. */
export function restamp(object: StoredObject, resourceVersion: bigint): StoredObject {
  const { text, versionAt } = object;
  const after = text.slice(versionAt + String(object.resourceVersion).length);
  return {
    ...object,
    resourceVersion,
    text: `${text.slice(0, versionAt)}${resourceVersion}${after}`,
  };
}

/** A key for messages: `pods default/web-0`. */
export function describeKey({ resource, namespace, name }: ObjectKey): string {
  return `${resource} ${namespace === '' ? '' : `${namespace}/`}${name}`;
}
