/**
 * What the operator keeps of the API for this guard, and under which values it looks it up.
 *
 * @module
 */
import { controllerOf } from '../../../shared/kube/owner-references.ts';
import { IndexedCache } from '../../../shared/kube/indexed-cache.ts';
import {
  type ConfigMap,
  configMaps,
  type Node,
  nodes,
  type RoleBinding,
  roleBindings,
  type Secret,
  secrets,
} from '../../../shared/kube/object.ts';
import type { Logger } from '../../../shared/observe/log.ts';
import {
  bothGroups,
  type FileIntegrity,
  type FileIntegrityNodeStatus,
  type IntegrityTypes,
  names,
} from '../api.ts';
import { labelValue } from '../object-names.ts';

/** The caches of one API group. */
export interface GroupCaches {
  readonly types: IntegrityTypes;
  /** Indexes `namespace`, and `label`: namespace and the value of the owner label. */
  readonly integrities: IndexedCache<FileIntegrity>;
  /** Indexes `integrity`: namespace/name of the FileIntegrity. */
  readonly statuses: IndexedCache<FileIntegrityNodeStatus>;
}

export interface ClusterCaches {
  readonly groups: readonly GroupCaches[];
  /** Index `label`: its name as the value of a label. */
  readonly nodes: IndexedCache<Node>;
  /** Temporary ConfigMaps, without their data. */
  readonly results: IndexedCache<ConfigMap>;
  readonly active: IndexedCache<ConfigMap>;
  /** Kept logs, without their data. Index `label`: namespace and owner label. */
  readonly kept: IndexedCache<ConfigMap>;
  /** Without their data. */
  readonly secrets: IndexedCache<Secret>;
  readonly bindings: IndexedCache<RoleBinding>;
}

export function newCaches(logger: Logger): ClusterCaches {
  const slim = { parsedLimit: 64, logger };
  return {
    groups: bothGroups.map((types) => ({
      types,
      integrities: new IndexedCache<FileIntegrity>({
        type: types.integrities,
        indexes: {
          namespace: ({ metadata }) => [metadata.namespace ?? ''],
          label: ({ metadata }) => [labelKey(metadata.namespace, labelValue(metadata.name ?? ''))],
        },
        logger,
      }),
      statuses: new IndexedCache<FileIntegrityNodeStatus>({
        type: types.nodeStatuses,
        indexes: { integrity: (status) => [integrityKeyOf(status)] },
        logger,
      }),
    })),
    nodes: new IndexedCache<Node>({
      type: nodes,
      indexes: { label: ({ metadata }) => [labelValue(metadata.name ?? '')] },
      logger,
    }),
    results: new IndexedCache<ConfigMap>({ type: configMaps, ...slim }),
    active: new IndexedCache<ConfigMap>({ type: configMaps, ...slim }),
    kept: new IndexedCache<ConfigMap>({
      type: configMaps,
      indexes: { label: ({ metadata }) => [labelKey(metadata.namespace, ownerLabelOf(metadata))] },
      ...slim,
    }),
    secrets: new IndexedCache<Secret>({ type: secrets, ...slim }),
    bindings: new IndexedCache<RoleBinding>({ type: roleBindings, ...slim }),
  };
}

export function labelKey(namespace: string | undefined, label: string): string {
  return `${namespace ?? ''}/${label}`;
}

function ownerLabelOf({ labels }: ConfigMap['metadata']): string {
  return labels?.[names.ownerLabel] ?? '';
}

/** `namespace/name` of the FileIntegrity that a FileIntegrityNodeStatus is of. */
export function integrityKeyOf({ metadata }: FileIntegrityNodeStatus): string {
  const owner = controllerOf({ metadata });
  const name = owner?.kind === 'FileIntegrity' ? owner.name : metadata.labels?.[names.ownerLabel];
  return `${metadata.namespace ?? ''}/${name ?? ''}`;
}

/** Without what agents and users put in it: up to 1 MiB each. */
export function withoutData<T extends ConfigMap | Secret>({ apiVersion, kind, metadata }: T): T {
  const { managedFields: _theServersOwn, annotations: _long, ...kept } = metadata;
  return {
    ...(apiVersion !== undefined && { apiVersion }),
    ...(kind !== undefined && { kind }),
    metadata: kept,
  } as T;
}

/** Without findings, of which only their own node status tells: some 600 bytes instead of up to 300 kB. */
export function slimStatus(status: FileIntegrityNodeStatus): FileIntegrityNodeStatus {
  const { findings: _many, detection: _unused, ...kept } = status;
  const { managedFields: _theServersOwn, ...metadata } = kept.metadata;
  return { ...kept, metadata };
}

/** Whether a change of a node may change for whom it is: the kubelet writes its status all the time. */
export function decidesAlike(a: Node | undefined, b: Node): boolean {
  const facts = (node: Node | undefined): string =>
    JSON.stringify([node?.metadata.labels ?? {}, node?.spec?.taints ?? []]);
  return a !== undefined && facts(a) === facts(b);
}
