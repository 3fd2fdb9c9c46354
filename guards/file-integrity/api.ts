/**
 * The resources of the file-integrity guard: FileIntegrity, which users write, and FileIntegrityNodeStatus, the state
 * of one node. Kinds and fields are those of the File Integrity Operator (FIO), so that objects written for it work
 * unchanged.
 *
 * They are served in two API groups, from one schema: `fileintegrity.openshift.io`, which the released operator uses,
 * and `file-integrity.openshift.io`, which its design document uses, as do all labels and annotations.
 *
 * The manifests in `crd/` are generated from this file and node-status-schema.ts: `node scripts/manifests.ts --write`.
 */
import { conditionList } from '../../lib/kube/crd/condition-list.ts';
import {
  ageColumn,
  defineResource,
  type ObjectOf,
  resourceType,
  type WrittenObjectOf,
} from '../../lib/kube/crd/resource.ts';
import {
  boolean,
  integer,
  list,
  mapOf,
  object,
  oneOf,
  optional,
  type ReadOf,
  string,
} from '../../lib/kube/crd/schema.ts';
import type { ResourceType } from '../../lib/kube/object/object.ts';
import { type finding, nodeStatusVersion, scanResult } from './node-status-schema.ts';

const releasedGroup = 'fileintegrity.openshift.io';
const designGroup = 'file-integrity.openshift.io';

const config = object('Which files are checked, and how often.', {
  name: optional(
    string(
      'The name of the ConfigMap with the aide.conf. Without name and namespace, a default configuration is used.',
    ),
  ),
  namespace: optional(string('The namespace of that ConfigMap.')),
  key: optional(string('The key in that ConfigMap; default: aide.conf.')),
  gracePeriod: integer('Seconds between two scans. Values below 10 are treated as 10.', { default: 900 }),
  maxBackups: integer('The number of earlier baselines kept on each node.', { default: 5 }),
  initialDelay: optional(
    integer(
      'Seconds to wait before the first baseline of a node is created, such as for nodes that are still being set up; default: 0.',
    ),
  ),
  acceptPackageUpdates: optional(
    boolean(
      'Accept changes into the baseline that are explained by an update of a package: made by dpkg, with the content that its database names. Default: false.',
    ),
  ),
});

const toleration = object({
  key: optional(string('The key of the taint; empty with operator Exists matches all taints.')),
  operator: optional(string('Exists or Equal; default: Equal.')),
  value: optional(string('The value of the taint.')),
  effect: optional(string('NoSchedule, PreferNoSchedule or NoExecute; empty matches all.')),
  tolerationSeconds: optional(integer('Ignored: the agent runs on the nodes anyway.', { format: 'int64' })),
});

const onRole = (role: string) =>
  ({ effect: 'NoSchedule', key: `node-role.kubernetes.io/${role}`, operator: 'Exists' }) as const;

const spec = object({
  config,
  provider: oneOf(['native', 'aide'], {
    description: 'What compares files with their baseline: the built-in engine, or AIDE itself.',
    default: 'native',
  }),
  nodeSelector: optional(
    mapOf(string(), { description: 'The labels of the nodes to check; default: all nodes.' }),
  ),
  tolerations: list(toleration, {
    description: 'Taints despite which a node is checked.',
    default: [onRole('master'), onRole('infra')],
  }),
  debug: optional(boolean('Log in more detail on the agents.')),
  priorityClassName: optional(
    string(
      'Not used: the agent of a node serves every FileIntegrity. The name of a nonexistent PriorityClass is removed, with an event.',
    ),
  ),
});

/** FIO's phases. */
const phases = ['Initializing', 'Active', 'Pending', 'Error'] as const;
export type Phase = (typeof phases)[number];

const status = object({
  phase: optional(
    oneOf(phases, {
      description:
        'Initializing: baselines are being created. Active: scans run. Pending: nothing runs yet. Error: the configuration cannot be used, or a node has an error.',
    }),
  ),
  nodeStatus: optional(
    list(object({ nodeName: string('The node.'), ...scanResult }), {
      description: 'The latest results of the nodes, at most one for each node and condition.',
    }),
  ),
  omittedNodeStatus: optional(
    integer('The number of results omitted from nodeStatus because there are too many.'),
  ),
  conditions: optional(conditionList()),
});

const integrityVersion = {
  description: 'Compares files on nodes with a baseline.',
  fields: { spec, status: optional(status) },
  columns: [
    { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
    { name: 'Provider', type: 'string', jsonPath: '.spec.provider', priority: 1 },
    ageColumn,
  ],
} as const;

function integrities<const G extends string>(group: G) {
  return defineResource({
    group,
    kind: 'FileIntegrity',
    ...kubectlNames(group, ['fileintegrities', 'nodeintegrities'], 'nodeintegrity', 'fi'),
    scope: 'Namespaced',
    versions: { v1alpha1: integrityVersion },
  });
}

function nodeStatuses<const G extends string>(group: G) {
  return defineResource({
    group,
    kind: 'FileIntegrityNodeStatus',
    ...kubectlNames(
      group,
      ['fileintegritynodestatuses', 'nodeintegritystatuses'],
      'nodeintegritystatus',
      'fins',
    ),
    scope: 'Namespaced',
    versions: { v1alpha1: nodeStatusVersion },
  });
}

/**
 * If two groups have a name, kubectl takes the alphabetically first group, which is not the released one. Users have
 * installed the released group, so only that one gets the plural and short names.
 */
function kubectlNames(
  group: string,
  [plural, ofDesign]: readonly [string, string],
  singular: string,
  shortName: string,
): { plural: string; singular?: string; shortNames?: readonly string[] } {
  return group === releasedGroup ? { plural, shortNames: [shortName] } : { plural: ofDesign, singular };
}

export const releasedFileIntegrities = integrities(releasedGroup);
export const releasedNodeStatuses = nodeStatuses(releasedGroup);
export const designFileIntegrities = integrities(designGroup);
export const designNodeStatuses = nodeStatuses(designGroup);

export type FileIntegrity = ObjectOf<typeof releasedFileIntegrities>;
/** A FileIntegrity as users write it: fields with defaults are optional. */
export type WrittenFileIntegrity = WrittenObjectOf<typeof releasedFileIntegrities>;
export type FileIntegrityNodeStatus = ObjectOf<typeof releasedNodeStatuses>;
export type FileIntegritySpec = ReadOf<typeof spec>;
export type FileIntegrityStatus = ReadOf<typeof status>;
export type NodeStatus = NonNullable<FileIntegrityStatus['nodeStatus']>[number];
/** One of the results of a FileIntegrityNodeStatus. */
export type ScanResult = FileIntegrityNodeStatus['results'][number];
export type ReportedFinding = ReadOf<typeof finding>;
export type Toleration = ReadOf<typeof toleration>;

/** The resources of one API group, for clients and reflectors. */
export interface IntegrityTypes {
  readonly group: string;
  readonly integrities: ResourceType<FileIntegrity>;
  readonly nodeStatuses: ResourceType<FileIntegrityNodeStatus>;
}

export const released: IntegrityTypes = {
  group: releasedGroup,
  integrities: resourceType(releasedFileIntegrities, 'v1alpha1'),
  nodeStatuses: resourceType(releasedNodeStatuses, 'v1alpha1'),
};

export const design: IntegrityTypes = {
  group: designGroup,
  integrities: resourceType(designFileIntegrities, 'v1alpha1'),
  nodeStatuses: resourceType(designNodeStatuses, 'v1alpha1'),
};

/** Whoever reads one group also reads the other. A FileIntegrityNodeStatus is in the group of its FileIntegrity. */
export const bothGroups: readonly IntegrityTypes[] = [released, design];

/** The labels and annotations of FIO, under one prefix in both groups. */
const prefix = 'file-integrity.openshift.io';
export const names = {
  /** Label of active configurations. */
  aideConfLabel: `${prefix}/aide-conf`,
  /** Label with the name of the FileIntegrity, shortened by `labelValue`. */
  ownerLabel: `${prefix}/owner`,
  /** Label of temporary ConfigMaps with a result. */
  logLabel: `${prefix}/log`,
  nodeLabel: `${prefix}/node`,
  /** Label of ConfigMaps with a kept log. */
  resultLogLabel: `${prefix}/result-log`,
  filesAdded: `${prefix}/files-added`,
  filesChanged: `${prefix}/files-changed`,
  filesRemoved: `${prefix}/files-removed`,
  errorMessage: `${prefix}/log-errormsg`,
  compressed: `${prefix}/compressed`,
  /** Annotations that users set on a FileIntegrity. */
  reinit: `${prefix}/re-init`,
  reinitOnFailed: `${prefix}/re-init-on-failed`,
  holdoff: `${prefix}/holdoff`,
  /** The key in active configurations; the default key in users' ConfigMaps. */
  confKey: 'aide.conf',
  /** The key of the log. */
  logKey: 'integritylog',
} as const;

/** The smallest gracePeriod that FIO uses. */
const MIN_GRACE_S = 10;

/** When nodes are scanned. Values that are too small are raised to the minimum, as in FIO; none of them is an error. */
export function scheduleOf({ config: { gracePeriod, initialDelay = 0, maxBackups } }: FileIntegritySpec): {
  readonly gracePeriodS: number;
  readonly initialDelayS: number;
  readonly maxBackups: number;
} {
  return {
    gracePeriodS: Math.max(MIN_GRACE_S, gracePeriod),
    initialDelayS: Math.max(0, initialDelay),
    maxBackups: Math.max(0, maxBackups),
  };
}
