/** The operator's caches for this guard, with their indexes. */
import type { GuardContext } from '../../../guard/context.ts';
import { controllerOf } from '../../../lib/kube/object/owner-references.ts';
import { fieldsOf, nodeFacts } from '../../../lib/kube/object/facts.ts';
import type { IndexedCache } from '../../../lib/kube/cache/indexed-cache.ts';
import {
  type ConfigMap,
  configMaps,
  type Node,
  nodes,
  type RoleBinding,
  roleBindings,
  type Secret,
  secrets,
} from '../../../lib/kube/object/object.ts';
import {
  bothGroups,
  type FileIntegrity,
  type FileIntegrityNodeStatus,
  type IntegrityTypes,
  names,
} from '../api.ts';
import { labelValue } from '../results/object-names.ts';

/** Has the key `hmac-sha256` with 32 random bytes. */
export const baselineKeySecret = 'file-integrity-baseline-key';
/** Name of the ClusterRole, and of its RoleBinding in each namespace. */
export const agentRole = 'rampart-agent-file-integrity';

/** The caches of one API group. */
export interface GroupCaches {
  readonly types: IntegrityTypes;
  /** Indexes: `namespace`; `label`, which is the namespace and the value of the owner label. */
  readonly integrities: IndexedCache<FileIntegrity>;
  /** Index: `integrity`, the namespace/name of the FileIntegrity. */
  readonly statuses: IndexedCache<FileIntegrityNodeStatus>;
}

export interface ClusterCaches {
  readonly groups: readonly GroupCaches[];
  /** Index: `label`, the node's name as a label value. */
  readonly nodes: IndexedCache<Node>;
  /** Temporary ConfigMaps, without their data. */
  readonly results: IndexedCache<ConfigMap>;
  readonly active: IndexedCache<ConfigMap>;
  /** ConfigMaps with a kept log, without their data. Index: `label`, the namespace and the owner label. */
  readonly kept: IndexedCache<ConfigMap>;
  /** Without their data. */
  readonly secrets: IndexedCache<Secret>;
  readonly bindings: IndexedCache<RoleBinding>;
}

export function openCaches(context: GuardContext): ClusterCaches {
  const slim = { parsedLimit: 64 };
  return {
    groups: bothGroups.map((types) => ({
      types,
      integrities: context.cache<FileIntegrity>(
        {
          type: types.integrities,
          indexes: { namespace: namespaceOf, label: nameLabelOf },
        },
        `${types.integrities.plural}.${types.group}`,
      ),
      statuses: context.cache<FileIntegrityNodeStatus>(
        {
          type: types.nodeStatuses,
          projection: slimStatus,
          indexes: { integrity: integrityOf },
        },
        `${types.nodeStatuses.plural}.${types.group}`,
      ),
    })),
    nodes: context.cache<Node>(
      { type: nodes, projection: nodeFacts, indexes: { label: nodeLabelOf } },
      'nodes',
    ),
    results: context.cache<ConfigMap>(
      { type: configMaps, labelSelector: names.logLabel, projection: withoutData, ...slim },
      'results',
    ),
    active: context.cache<ConfigMap>(
      { type: configMaps, labelSelector: names.aideConfLabel, ...slim },
      'active',
    ),
    kept: context.cache<ConfigMap>(
      {
        type: configMaps,
        labelSelector: names.resultLogLabel,
        projection: withoutData,
        indexes: { label: ownerKeyOf },
        ...slim,
      },
      'kept',
    ),
    secrets: context.cache<Secret>(
      {
        type: secrets,
        fieldSelector: `metadata.name=${baselineKeySecret}`,
        projection: withoutData,
        ...slim,
      },
      'secrets',
    ),
    bindings: context.cache<RoleBinding>(
      { type: roleBindings, fieldSelector: `metadata.name=${agentRole}`, ...slim },
      'bindings',
    ),
  };
}

// Defined once: watchers share a cache only if they pass the same functions.
const namespaceOf = ({ metadata }: FileIntegrity): string[] => [metadata.namespace ?? ''];
const nameLabelOf = ({ metadata }: FileIntegrity): string[] => [
  labelKey(metadata.namespace, labelValue(metadata.name ?? '')),
];
const integrityOf = (status: FileIntegrityNodeStatus): string[] => [integrityKeyOf(status)];
const nodeLabelOf = ({ metadata }: Node): string[] => [labelValue(metadata.name ?? '')];
const ownerKeyOf = ({ metadata }: ConfigMap): string[] => [
  labelKey(metadata.namespace, ownerLabelOf(metadata)),
];

export function labelKey(namespace: string | undefined, label: string): string {
  return `${namespace ?? ''}/${label}`;
}

function ownerLabelOf({ labels }: ConfigMap['metadata']): string {
  return labels?.[names.ownerLabel] ?? '';
}

/** `namespace/name` of the FileIntegrity that a FileIntegrityNodeStatus belongs to. */
export function integrityKeyOf({ metadata }: FileIntegrityNodeStatus): string {
  const owner = controllerOf({ metadata });
  const name = owner?.kind === 'FileIntegrity' ? owner.name : metadata.labels?.[names.ownerLabel];
  return `${metadata.namespace ?? ''}/${name ?? ''}`;
}

/** Drops the data of an object, which may be up to 1 MiB. */
function withoutData<T extends ConfigMap | Secret>(object: T): T {
  const { managedFields: _theServersOwn, annotations: _long, ...metadata } = object.metadata;
  return { ...fieldsOf(object, ['apiVersion', 'kind']), metadata } as T;
}

/** Drops the findings, which only the FileIntegrityNodeStatus itself shows: leaves some 600 bytes of up to 300 kB. */
function slimStatus(status: FileIntegrityNodeStatus): FileIntegrityNodeStatus {
  const { findings: _many, detection: _unused, ...kept } = status;
  const { managedFields: _theServersOwn, ...metadata } = kept.metadata;
  return { ...kept, metadata };
}

/**
 * Whether two versions of a node are selected by the same FileIntegrities. The kubelet writes the node's status all the
 * time, which does not matter here.
 */
export function decidesAlike(a: Node | undefined, b: Node): boolean {
  const facts = (node: Node | undefined): string =>
    JSON.stringify([node?.metadata.labels ?? {}, node?.spec?.taints ?? []]);
  return a !== undefined && facts(a) === facts(b);
}
