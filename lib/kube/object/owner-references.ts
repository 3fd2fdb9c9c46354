/** Who owns an object: the API deletes owned objects together with their owner. */
import { errorCodes, RampartError } from '../../errors/errors.ts';
import {
  apiVersionOf,
  describeTarget,
  type KubeObject,
  type OwnerReference,
  type ResourceType,
} from './object.ts';

interface OwnerOptions {
  /** Whether a deletion of the owner in the foreground waits for this object. Default: true. */
  readonly blockOwnerDeletion?: boolean;
}

/**
 * `child` with `owner` as its controller, the one owner that manages it. The same object if it has that controller already;
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
      what: `cannot set ${describe(ownerType, owner)} as the controller of ${nameOf(child)}`,
      why: `${other.kind} "${other.name}" is already its controller`,
    });
  }
  return withReference(child, {
    ...reference(child, ownerType, owner),
    controller: true,
    blockOwnerDeletion,
  });
}

/** The one owner that manages this object. */
export function controllerOf(object: KubeObject): OwnerReference | undefined {
  return object.metadata.ownerReferences?.find(({ controller }) => controller === true);
}

function reference(child: KubeObject, type: ResourceType, owner: KubeObject): OwnerReference {
  const { name, uid } = owner.metadata;
  const refuse = (why: string): RampartError =>
    new RampartError(errorCodes.INPUT, {
      what: `${describe(type, owner)} as an owner of ${nameOf(child)}`,
      why,
    });
  if (!name || !uid) throw refuse('an owner requires a name and a uid, so it must be stored first');
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
