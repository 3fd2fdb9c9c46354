/**
 * The resources of the file-integrity guard: FileIntegrity, which users write, and FileIntegrityNodeStatus, what is known of
 * one node. Kinds and fields are those of the File Integrity Operator, so that what is written for it works unchanged.
 *
 * They are served in two API groups, from one schema: `fileintegrity.openshift.io`, which the operator was released with,
 * and `file-integrity.openshift.io`, as its design has it, and as all labels and annotations are called.
 *
 * The manifests in `crd/` are made from this file: `node scripts/manifests.ts --write`.
 */
import { conditionList } from '../../shared/kube/crd/condition-list.ts';
import {
  ageColumn,
  defineResource,
  type ObjectOf,
  resourceType,
  type WrittenObjectOf,
} from '../../shared/kube/crd/resource.ts';
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
} from '../../shared/kube/crd/schema.ts';
import type { ResourceType } from '../../shared/kube/object.ts';

const releasedGroup = 'fileintegrity.openshift.io';
const designGroup = 'file-integrity.openshift.io';

const count = (description: string) => integer({ description });
const text = (description: string) => string({ description });
const time = (description: string) => string({ description, format: 'date-time' });

const config = object(
  {
    name: optional(
      text('The ConfigMap with the aide.conf. Without name and namespace a default configuration is used.'),
    ),
    namespace: optional(text('The namespace of that ConfigMap.')),
    key: optional(text('The key in that ConfigMap; aide.conf by default.')),
    gracePeriod: integer({
      description: 'Seconds between two scans. Less than 10 is taken for 10.',
      default: 900,
    }),
    maxBackups: integer({
      description: 'How many baselines before the present one are kept on each node.',
      default: 5,
    }),
    initialDelay: optional(
      count(
        'Seconds before the first baseline of a node is made: nodes that are still being set up; 0 by default.',
      ),
    ),
  },
  { description: 'Which files are looked at, and how often.' },
);

const toleration = object({
  key: optional(text('The key of the taint; empty for all taints, with the operator Exists.')),
  operator: optional(text('Exists or Equal, the default.')),
  value: optional(text('The value of the taint.')),
  effect: optional(text('NoSchedule, PreferNoSchedule or NoExecute; empty for all.')),
  tolerationSeconds: optional(
    integer({ description: 'Not looked at: what runs on a node is the agent.', format: 'int64' }),
  ),
});

const onRole = (role: string) =>
  ({ effect: 'NoSchedule', key: `node-role.kubernetes.io/${role}`, operator: 'Exists' }) as const;

const spec = object({
  config,
  provider: oneOf(['native', 'aide'], {
    description: 'What compares files with their baseline: our own engine, or AIDE itself.',
    default: 'native',
  }),
  nodeSelector: optional(
    mapOf(string(), { description: 'Labels of the nodes that are looked at; all by default.' }),
  ),
  tolerations: list(toleration, {
    description: 'Taints of nodes that are looked at all the same.',
    default: [onRole('master'), onRole('infra')],
  }),
  debug: optional(boolean({ description: 'The agents log in more detail.' })),
  priorityClassName: optional(
    text(
      'Not used: the agent of a node serves every FileIntegrity. The name of no PriorityClass is taken away, with an event.',
    ),
  ),
});

const condition = oneOf(['Succeeded', 'Failed', 'Errored'], {
  description: 'Nothing has changed; something has; or it is not known, and errorMessage says why.',
});

const scanResult = {
  condition,
  lastProbeTime: time('When it was seen so.'),
  resultConfigMapName: optional(text('The ConfigMap that has the log; of Failed.')),
  resultConfigMapNamespace: optional(text('The namespace of that ConfigMap.')),
  errorMessage: optional(text('Why nothing is known, and what to do.')),
  filesAdded: optional(count('Files that the baseline does not have.')),
  filesChanged: optional(count('Files that differ from the baseline.')),
  filesRemoved: optional(count('Files of the baseline that are gone.')),
};

/** FIO's phases. */
const phases = ['Initializing', 'Active', 'Pending', 'Error'] as const;
export type Phase = (typeof phases)[number];

const status = object({
  phase: optional(
    oneOf(phases, {
      description:
        'Initializing: baselines are being made. Active: scans run. Pending: nothing runs yet. Error: the configuration cannot be used, or a node has an error.',
    }),
  ),
  nodeStatus: optional(
    list(object({ nodeName: text('The node.'), ...scanResult }), {
      description: 'The latest results of the nodes, at most one of each condition of a node.',
    }),
  ),
  omittedNodeStatus: optional(count('Results that are not in nodeStatus, for their number.')),
  conditions: optional(conditionList()),
});

const author = object(
  {
    binary: text('The path of the executable, as the process sees it.'),
    arguments: text('Its arguments, joined by blanks.'),
    cwd: text('Its working directory.'),
    uid: count('Its user.'),
    gid: count('Its group.'),
    pid: count('Its id in the first pid namespace.'),
    ppid: count('The id of its parent.'),
    parentBinary: text('The executable of its parent; empty where that was gone.'),
    relation: oneOf(['host', 'container', 'unknown'], {
      description: 'Whether it is of the node itself, of a container, or of one that is not known.',
    }),
    container: optional(
      object(
        { id: text('The id.'), name: text('The name.') },
        { description: 'The container that it is in.' },
      ),
    ),
    pod: optional(
      object(
        { namespace: text('The namespace.'), name: text('The name.') },
        { description: 'The pod that it is in.' },
      ),
    ),
  },
  { description: 'The process that made the change; not there where nobody saw it.' },
);

const finding = object({
  path: text('Path of the file on the node.'),
  change: oneOf(['added', 'removed', 'changed'], { description: 'Compared with the baseline.' }),
  attributes: list(string(), { description: 'What differs, by the names that AIDE has.' }),
  seen: time('When it was seen first.'),
  seenBy: oneOf(['event', 'scan'], { description: 'Known when it happened, or found by a full scan.' }),
  author: optional(author),
});

const unread = object(
  {
    count: count('How many.'),
    files: list(
      object({
        path: text('Path of the file on the node.'),
        reason: text('Why it could not be read.'),
      }),
      { description: 'Some of them; the log has all.' },
    ),
  },
  {
    description:
      'Files that the last scan could not read, or not wholly: whether they have changed is not known. Not there where all were read.',
  },
);

const detection = object(
  {
    events: oneOf(['sensor', 'inotify', 'none'], {
      description: 'Events with their process, events without, or scans alone.',
    }),
    reason: text('Why it is not sensor.'),
    watchedDirectories: count('Directories whose changes are known at once.'),
    unwatchedDirectories: count('Directories that only scans look at.'),
    lostEvents: count('Events that the kernel dropped; a full scan follows each time.'),
    // Later ones than the others. While a cluster is upgraded, operators and stored objects of before have none.
    lostAuthors: optional(count('Records of who made changes that were lost; these changes have no author.')),
    directoriesWithoutAuthors: optional(
      count('Watched directories whose changes have no author, for want of room.'),
    ),
  },
  { description: 'How the node learns of changes between its scans.' },
);

const integrityVersion = {
  description: 'Which files on which nodes are compared with a baseline.',
  fields: { spec, status: optional(status) },
  columns: [
    { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
    { name: 'Provider', type: 'string', jsonPath: '.spec.provider', priority: 1 },
    ageColumn,
  ],
} as const;

const nodeStatusVersion = {
  description: 'What is known of the files of one node. Written by the operator, not by people.',
  fields: {
    nodeName: text('The node.'),
    results: list(object(scanResult), {
      description: 'The latest result of each condition.',
      default: [],
    }),
    lastResult: optional(
      object(scanResult, { description: 'The latest result; not there before the first.' }),
    ),
    sequence: optional(
      integer({ description: 'The number that the agent gave to the latest result.', format: 'int64' }),
    ),
    findings: optional(list(finding, { description: 'The files of the latest result, the latest first.' })),
    omittedFindings: optional(count('How many more there are; the log has them.')),
    unread: optional(unread),
    continuedFrom: optional(
      time(
        'When the baseline was made, where that was for an earlier FileIntegrity of the same name; not there otherwise.',
      ),
    ),
    detection: optional(detection),
  },
  columns: [
    { name: 'Node', type: 'string', jsonPath: '.nodeName' },
    { name: 'Status', type: 'string', jsonPath: '.lastResult.condition' },
    { name: 'Unread', type: 'integer', jsonPath: '.unread.count', priority: 1 },
    { name: 'Probed', type: 'date', jsonPath: '.lastResult.lastProbeTime', priority: 1 },
    { name: 'Added', type: 'integer', jsonPath: '.lastResult.filesAdded', priority: 1 },
    { name: 'Changed', type: 'integer', jsonPath: '.lastResult.filesChanged', priority: 1 },
    { name: 'Removed', type: 'integer', jsonPath: '.lastResult.filesRemoved', priority: 1 },
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
 * kubectl takes a name from the group that comes first in the alphabet, which is the design's. What people have installed is of the
 * released group, so its names are its alone.
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
/** As it may be written: without what has a default. */
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

/** Both groups: who reads one reads the other. A FileIntegrityNodeStatus is in the group of its FileIntegrity. */
export const bothGroups: readonly IntegrityTypes[] = [released, design];

/** The labels and annotations of FIO, under one prefix in both groups. */
const prefix = 'file-integrity.openshift.io';
export const names = {
  /** Of active configurations. */
  aideConfLabel: `${prefix}/aide-conf`,
  /** The FileIntegrity, by its name (`labelValue`). */
  ownerLabel: `${prefix}/owner`,
  /** Of temporary ConfigMaps with a result. */
  logLabel: `${prefix}/log`,
  nodeLabel: `${prefix}/node`,
  /** Of kept ConfigMaps. */
  resultLogLabel: `${prefix}/result-log`,
  filesAdded: `${prefix}/files-added`,
  filesChanged: `${prefix}/files-changed`,
  filesRemoved: `${prefix}/files-removed`,
  errorMessage: `${prefix}/log-errormsg`,
  compressed: `${prefix}/compressed`,
  /** Of users, on a FileIntegrity. */
  reinit: `${prefix}/re-init`,
  reinitOnFailed: `${prefix}/re-init-on-failed`,
  holdoff: `${prefix}/holdoff`,
  /** The key in active configurations, and the default in those of users. */
  confKey: 'aide.conf',
  /** The key of the log. */
  logKey: 'integritylog',
} as const;

/** FIO's least gracePeriod. */
const MIN_GRACE_S = 10;

/** When nodes are scanned, with what makes no sense set right as FIO does: none of it is an error. */
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
