/**
 * Kubernetes objects as JSON has them, and how the API names their resources.
 *
 * The types are those of `@kubernetes/client-node`, which are generated from the API's own description. Its
 * classes have `Date`s for strings of JSON, and they rename fields that are keywords of JavaScript (`_default`,
 * `_continue`). {@link Wire} undoes only the former: do not use it for a type with renamed fields.
 */
import type {
  V1ConfigMap,
  V1DaemonSet,
  V1Deployment,
  V1Lease,
  V1Namespace,
  V1Node,
  V1ObjectMeta,
  V1OwnerReference,
  V1Pod,
  V1PriorityClass,
  V1RoleBinding,
  V1Secret,
} from '@kubernetes/client-node';

import { errorCodes, RampartError } from '../../errors/errors.ts';

/** `T` with a string, as in JSON, for every `Date`. */
export type Wire<T> = T extends Date
  ? string
  : T extends readonly (infer Item)[]
    ? Wire<Item>[]
    : T extends object
      ? { [Key in keyof T]: Wire<T[Key]> }
      : T;

export type ObjectMeta = Wire<V1ObjectMeta>;
export type OwnerReference = Wire<V1OwnerReference>;

export interface KubeObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: ObjectMeta;
}

/** A type of `@kubernetes/client-node` as an object in JSON. */
export type KubeKind<T> = Wire<Omit<T, 'apiVersion' | 'kind' | 'metadata'>> & KubeObject;

export type ConfigMap = KubeKind<V1ConfigMap>;
export type DaemonSet = KubeKind<V1DaemonSet>;
export type Deployment = KubeKind<V1Deployment>;
export type Lease = KubeKind<V1Lease>;
export type Namespace = KubeKind<V1Namespace>;
export type Node = KubeKind<V1Node>;
export type Pod = KubeKind<V1Pod>;
export type PriorityClass = KubeKind<V1PriorityClass>;
export type RoleBinding = KubeKind<V1RoleBinding>;
export type Secret = KubeKind<V1Secret>;

/** A list, or one page of it. */
export interface KubeList<T extends KubeObject = KubeObject> {
  readonly metadata: {
    readonly resourceVersion?: string;
    /** Asks for the next page; absent or empty on the last one. */
    readonly continue?: string;
    readonly remainingItemCount?: number;
  };
  readonly items: T[];
}

/** Where the API serves a kind of object. */
export interface ResourceType<T extends KubeObject = KubeObject> {
  /** '' is the core group. */
  readonly group: string;
  readonly version: string;
  /** As in paths: `networkpolicies`. */
  readonly plural: string;
  readonly kind: string;
  readonly namespaced: boolean;
  /** Never set: it ties the type of the objects to the resource. */
  readonly object?: T;
}

export const pods = namespacedKind<Pod>('', 'pods', 'Pod');
export const nodes = clusterKind<Node>('', 'nodes', 'Node');
export const namespaces = clusterKind<Namespace>('', 'namespaces', 'Namespace');
export const secrets = namespacedKind<Secret>('', 'secrets', 'Secret');
export const configMaps = namespacedKind<ConfigMap>('', 'configmaps', 'ConfigMap');
export const deployments = namespacedKind<Deployment>('apps', 'deployments', 'Deployment');
export const daemonSets = namespacedKind<DaemonSet>('apps', 'daemonsets', 'DaemonSet');
export const leases = namespacedKind<Lease>('coordination.k8s.io', 'leases', 'Lease');
export const priorityClasses = clusterKind<PriorityClass>(
  'scheduling.k8s.io',
  'priorityclasses',
  'PriorityClass',
);
export const roleBindings = namespacedKind<RoleBinding>(
  'rbac.authorization.k8s.io',
  'rolebindings',
  'RoleBinding',
);

/** A kind of a group, in version v1 unless another is given; '' is the core group. */
export function namespacedKind<T extends KubeObject>(
  group: string,
  plural: string,
  kind: string,
  version = 'v1',
): ResourceType<T> {
  return { group, version, plural, kind, namespaced: true };
}

/** A cluster-scoped kind, with the parameters of {@link namespacedKind}. */
export function clusterKind<T extends KubeObject>(
  group: string,
  plural: string,
  kind: string,
  version = 'v1',
): ResourceType<T> {
  return { ...namespacedKind<T>(group, plural, kind, version), namespaced: false };
}

/** `v1`, `apps/v1`. */
export function apiVersionOf({ group, version }: Pick<ResourceType, 'group' | 'version'>): string {
  return group === '' ? version : `${group}/${version}`;
}

/** Which object or, if `name` is absent, which collection. */
export interface Target {
  /** Absent for cluster-scoped resources, and for a collection over all namespaces. */
  readonly namespace?: string | undefined;
  readonly name?: string | undefined;
  /** `status`, `scale`, ... */
  readonly subresource?: string | undefined;
}

/**
 * The path of a resource, from the server's root: `/apis/apps/v1/namespaces/default/deployments/web/status`.
 *
 * @throws {RampartError} `INPUT` for a part that is empty or invalid in a path, for a namespace of a
 * cluster-scoped resource, and for one object of a namespaced resource without its namespace.
 */
export function resourcePath(type: ResourceType, { namespace, name, subresource }: Target): string {
  if (namespace !== undefined && !type.namespaced) {
    throw unusable(`${type.plural} in namespace "${namespace}"`, `${type.plural} are not namespaced`);
  }
  if (name !== undefined && type.namespaced && namespace === undefined) {
    throw unusable(`${type.plural} "${name}"`, 'its namespace is missing');
  }
  const root = type.group === '' ? `/api/${segment(type.version)}` : groupRoot(type);
  const parts = [root];
  if (namespace !== undefined) parts.push('namespaces', segment(namespace));
  parts.push(segment(type.plural));
  if (name !== undefined) parts.push(segment(name));
  if (subresource !== undefined) parts.push(...subresource.split('/').map(segment));
  return parts.join('/');
}

function groupRoot({ group, version }: ResourceType): string {
  return `/apis/${segment(group)}/${segment(version)}`;
}

function segment(text: string): string {
  // The API server refuses such names too, but in a URL they would make another path first.
  if (text === '' || text === '.' || text === '..' || /[/%]/.test(text)) {
    throw unusable(
      `"${text}" in a path of the Kubernetes API`,
      'it is empty, ".", "..", or contains "/" or "%"',
    );
  }
  return encodeURIComponent(text);
}

function unusable(what: string, why: string): RampartError {
  return new RampartError(errorCodes.INPUT, { what, why });
}

/** The type, with the scope that an object from the API has: a kind may be namespaced in one version of a product and not in another. */
export function scopedAs<T extends KubeObject>(
  type: ResourceType<T>,
  { metadata: { namespace } }: KubeObject,
): ResourceType<T> {
  const namespaced = namespace !== undefined;
  return type.namespaced === namespaced ? type : { ...type, namespaced };
}

/** The target in a form for people: `leases kube-system/rampart`. */
export function describeTarget(type: ResourceType, { namespace, name, subresource }: Target): string {
  const where = [namespace, name].filter((part) => part !== undefined).join('/');
  const scope = namespace !== undefined && name === undefined ? `in namespace ${where}` : where;
  return [subresource === undefined ? type.plural : `${type.plural}/${subresource}`, scope].join(' ').trim();
}

/** `namespace/name`, or `name` for cluster-scoped objects. */
export function objectKey({ metadata }: KubeObject): string {
  const { namespace, name } = metadata;
  if (namespace === undefined || namespace === '') return `${name}`;
  // Not a template literal: V8 makes a string of two halves from that, and keeps these too once it is a key of a Map.
  return [namespace, name].join('/');
}
