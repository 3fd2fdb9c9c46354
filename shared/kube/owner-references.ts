/**
 * Who owns an object: the API deletes what is owned together with its owner, and a controller finds by it whom a
 * change of a child concerns.
 *
 * @module
 */
import { errorCodes, RampartError } from '../observe/errors.ts';
import {
  apiVersionOf,
  describeTarget,
  type KubeObject,
  type OwnerReference,
  type ResourceType,
} from './object.ts';

export interface OwnerOptions {
  /** Whether a deletion of the owner in the foreground waits for this object. Default: true. */
  readonly blockOwnerDeletion?: boolean;
}

/** An owner as it is found in a child. */
export interface OwnerKey {
  /** Absent for a cluster-scoped owner. */
  readonly namespace: string | undefined;
  readonly name: string;
  /** Tells an owner from a later one of the same name. */
  readonly uid: string;
}

/**
 * `child` with `owner` as its controller, the one owner that looks after it. The same object where it is so already;
 * an entry for this owner (by uid) is replaced, others are kept.
 *
 * @throws {RampartError} `CONFLICT` when another controller owns it; `INPUT` for an owner that is not stored yet, and
 *   for one in another namespace: the garbage collector takes such an owner for missing, and deletes the child.
 */
export function withController<T extends KubeObject>(
  child: T,
  ownerType: ResourceType,
  owner: KubeObject,
  { blockOwnerDeletion = true }: OwnerOptions = {},
): T {
  const other = controllerOf(child);
  if (other !== undefined && other.uid !== owner.metadata.uid) {
    throw new RampartError(errorCodes.CONFLICT, {
      what: `cannot make ${describe(ownerType, owner)} the controller of ${nameOf(child)}`,
      why: `${other.kind} "${other.name}" is its controller already`,
    });
  }
  return withReference(child, {
    ...reference(child, ownerType, owner),
    controller: true,
    blockOwnerDeletion,
  });
}

/**
 * `child` with `owner` among its owners, without being its controller; it is deleted when the last owner is gone.
 *
 * @throws {RampartError} `INPUT` as {@link withController}.
 */
export function withOwner<T extends KubeObject>(
  child: T,
  ownerType: ResourceType,
  owner: KubeObject,
  { blockOwnerDeletion = false }: OwnerOptions = {},
): T {
  return withReference(child, {
    ...reference(child, ownerType, owner),
    ...(blockOwnerDeletion && { blockOwnerDeletion }),
  });
}

/** `child` without this owner, by its uid; the same object where it is none. */
export function withoutOwner<T extends KubeObject>(child: T, owner: KubeObject): T {
  const owners = child.metadata.ownerReferences ?? [];
  const left = owners.filter(({ uid }) => uid !== owner.metadata.uid);
  if (left.length === owners.length) return child;
  return { ...child, metadata: { ...child.metadata, ownerReferences: left } };
}

/** The one owner that looks after this object. */
export function controllerOf(object: KubeObject): OwnerReference | undefined {
  return object.metadata.ownerReferences?.find(({ controller }) => controller === true);
}

/**
 * Which owner of this type looks after `child`: whom a change of the child concerns. Any version of the type counts, as
 * references keep the version that they were written with.
 */
export function controllerKey(child: KubeObject, ownerType: ResourceType): OwnerKey | undefined {
  const found = controllerOf(child);
  return found && isOf(found, ownerType) ? keyOf(found, child, ownerType) : undefined;
}

/** All owners of this type, whether or not they look after `child`. */
export function ownerKeys(child: KubeObject, ownerType: ResourceType): OwnerKey[] {
  const owners = child.metadata.ownerReferences ?? [];
  return owners.filter((one) => isOf(one, ownerType)).map((one) => keyOf(one, child, ownerType));
}

/** Whether `owner` itself, not one of the same name before it, is among the owners. */
export function isOwnedBy(child: KubeObject, owner: KubeObject): boolean {
  const { uid } = owner.metadata;
  return uid !== undefined && child.metadata.ownerReferences?.some((one) => one.uid === uid) === true;
}

function isOf({ apiVersion, kind }: OwnerReference, type: ResourceType): boolean {
  const slash = apiVersion.indexOf('/');
  return kind === type.kind && (slash === -1 ? '' : apiVersion.slice(0, slash)) === type.group;
}

function keyOf({ name, uid }: OwnerReference, child: KubeObject, { namespaced }: ResourceType): OwnerKey {
  return { namespace: namespaced ? child.metadata.namespace : undefined, name, uid };
}

function reference(child: KubeObject, type: ResourceType, owner: KubeObject): OwnerReference {
  const { name, uid } = owner.metadata;
  const refuse = (why: string): RampartError =>
    new RampartError(errorCodes.INPUT, {
      what: `${describe(type, owner)} as an owner of ${nameOf(child)}`,
      why,
    });
  if (!name || !uid) throw refuse('an owner needs a name and a uid, so it must be stored first');
  if (type.namespaced && owner.metadata.namespace !== child.metadata.namespace) {
    throw refuse('an owner must be in the same namespace, or cluster-scoped');
  }
  return { apiVersion: apiVersionOf(type), kind: type.kind, name, uid };
}

function withReference<T extends KubeObject>(child: T, wanted: OwnerReference): T {
  const owners = child.metadata.ownerReferences ?? [];
  const old = owners.find(({ uid }) => uid === wanted.uid);
  if (old !== undefined && isSame(old, wanted)) return child;
  const ownerReferences =
    old === undefined ? [...owners, wanted] : owners.map((one) => (one === old ? wanted : one));
  return { ...child, metadata: { ...child.metadata, ownerReferences } };
}

function isSame(a: OwnerReference, b: OwnerReference): boolean {
  return (
    a.apiVersion === b.apiVersion &&
    a.kind === b.kind &&
    a.name === b.name &&
    (a.controller ?? false) === (b.controller ?? false) &&
    (a.blockOwnerDeletion ?? false) === (b.blockOwnerDeletion ?? false)
  );
}

function describe(type: ResourceType, { metadata: { namespace, name } }: KubeObject): string {
  return describeTarget(type, { namespace, name });
}

function nameOf({ kind, metadata: { namespace, name, generateName } }: KubeObject): string {
  const where = namespace === undefined ? '' : `${namespace}/`;
  return `${kind ?? 'object'} ${where}${name ?? `${generateName ?? ''}...`}`;
}
