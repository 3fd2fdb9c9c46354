/**
 * The resources of the file-integrity guard: FileIntegrity, which users write, and FileIntegrityNodeStatus, what is known of
 * one node. Kinds and fields are those of the File Integrity Operator, so that what is written for it works unchanged.
 *
 * They are served in two API groups, from one schema: `fileintegrity.openshift.io`, which the operator was released with,
 * and `file-integrity.openshift.io`, as its design has it, and as all labels and annotations are called.
 *
 * The manifests in `crd/` are made from this file: `node scripts/manifests.ts --write`.
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

const releasedGroup = 'fileintegrity.openshift.io';
const designGroup = 'file-integrity.openshift.io';

const time = (description: string) => string(description, { format: 'date-time' });

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

const condition = oneOf(['Succeeded', 'Failed', 'Errored'], {
  description:
    'Succeeded: nothing has changed. Failed: something has changed. Errored: the state is unknown, and errorMessage says why.',
});

const scanResult = {
  condition,
  lastProbeTime: time('When this result was obtained.'),
  resultConfigMapName: optional(string('The name of the ConfigMap with the log, for Failed.')),
  resultConfigMapNamespace: optional(string('The namespace of that ConfigMap.')),
  errorMessage: optional(string('Why the state is unknown, and what to do.')),
  filesAdded: optional(integer('The number of files that are not in the baseline.')),
  filesChanged: optional(integer('The number of files that differ from the baseline.')),
  filesRemoved: optional(integer('The number of files in the baseline that are gone.')),
};

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

const author = object('The process that made the change; absent if it is unknown.', {
  binary: string('The path of the executable, as the process sees it.'),
  arguments: string('Its arguments, separated by blanks.'),
  cwd: string('Its working directory.'),
  uid: integer('Its user ID.'),
  gid: integer('Its group ID.'),
  pid: integer('Its process ID in the initial PID namespace.'),
  ppid: integer('The process ID of its parent.'),
  parentBinary: string('The executable of its parent; empty if the parent had ended.'),
  relation: oneOf(['host', 'container', 'unknown'], {
    description:
      'Whether the process runs on the node itself, in a container, or in a container that no container runtime has reported.',
  }),
  container: optional(
    object('The container of the process.', { id: string('The id.'), name: string('The name.') }),
  ),
  pod: optional(
    object('The pod of the process.', { namespace: string('The namespace.'), name: string('The name.') }),
  ),
  unit: optional(string('The systemd unit of a process on the node itself.')),
  mounts: optional(
    oneOf(['own'], {
      description: 'Set if a process on the node itself has a mount namespace of its own.',
    }),
  ),
});

const seenBy = oneOf(['event', 'scan'], {
  description: 'event: detected when it happened. scan: found by a full scan.',
});

const finding = object({
  path: string('The path of the file on the node.'),
  change: oneOf(['added', 'removed', 'changed'], { description: 'Compared with the baseline.' }),
  attributes: list(string(), { description: 'The attributes that differ, by their names in AIDE.' }),
  seen: time('When it was first seen.'),
  seenBy,
  author: optional(author),
  last: optional(
    object(
      'The latest change, if it changed attributes alone after the content had changed; author is who changed the content.',
      { seen: time('When it was seen.'), seenBy, author: optional(author) },
    ),
  ),
  explained: optional(
    string(
      'The update of a package that it comes from: dpkg alone has changed the file, and its content is what the database of dpkg names.',
    ),
  ),
});

const packageUpdates = list(
  object({
    update: string('The package, and its versions: openssl 3.0.15-1 -> 3.0.16-1.'),
    files: integer('The number of files that it changed.'),
    time: time('When the latest of them was seen, or when they were accepted.'),
    accepted: boolean('Whether they are part of the baseline, by acceptPackageUpdates.'),
  }),
  { description: 'Updates of packages that explain findings, and the latest that were accepted.' },
);

const unread = object(
  'Files that the last scan could not read completely: whether they have changed is unknown. Absent if all files were read.',
  {
    count: integer('The number of files.'),
    files: list(
      object({
        path: string('The path of the file on the node.'),
        reason: string('Why it could not be read.'),
      }),
      { description: 'Some of these files; the log has all of them.' },
    ),
  },
);

const reading = object(
  'Large files of which the last scan says nothing yet: they are read after it, and earlier findings of them stay until then. Absent if there are none.',
  {
    count: integer('The number of files.'),
    files: list(string('The path of the file on the node.'), { description: 'Some of these files.' }),
  },
);

const detection = object('How changes on the node are detected between scans.', {
  events: oneOf(['sensor', 'inotify', 'none'], {
    description:
      'sensor: events with the process that caused them. inotify: events without it. none: scans only.',
  }),
  reason: string('Why events is not sensor.'),
  watchedDirectories: integer('Directories whose changes are detected at once.'),
  unwatchedDirectories: integer('Directories that are covered by scans only.'),
  lostEvents: integer('Events that the kernel dropped; a full scan follows each time.'),
  // Newer than the other fields. During an upgrade, operators and stored objects of the previous version lack
  // it.
  lostAuthors: optional(
    integer('Lost records of the processes that made changes; these changes have no author.'),
  ),
  directoriesWithoutAuthors: optional(
    integer('Watched directories beyond the capacity of the sensor; their changes have no author.'),
  ),
  packagesReason: optional(string('Why updates of packages are not recognized; absent if they are.')),
});

const baseline = object(
  'The newest baseline that a result of the node was made with. The agent refuses an older one; only a re-init resolves that.',
  {
    provider: oneOf(['native', 'aide'], { description: 'The provider that created it.' }),
    digest: string('Its SHA-256 digest.'),
    created: time('When it was created: later than every earlier one of the node.'),
  },
);

const integrityVersion = {
  description: 'Compares files on nodes with a baseline.',
  fields: { spec, status: optional(status) },
  columns: [
    { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
    { name: 'Provider', type: 'string', jsonPath: '.spec.provider', priority: 1 },
    ageColumn,
  ],
} as const;

const nodeStatusVersion = {
  description: 'The state of the files of one node. Written by the operator; do not edit.',
  fields: {
    nodeName: string('The node.'),
    results: list(object(scanResult), {
      description: 'The latest result of each condition.',
      default: [],
    }),
    lastResult: optional(object('The latest result; absent before the first one.', scanResult)),
    sequence: optional(
      integer('The sequence number of the latest result, assigned by the agent.', { format: 'int64' }),
    ),
    findings: optional(list(finding, { description: 'The findings of the latest result, newest first.' })),
    omittedFindings: optional(integer('The number of omitted findings; the log has all of them.')),
    unread: optional(unread),
    reading: optional(reading),
    continuedFrom: optional(
      time(
        'When the baseline was created, if it was created for an earlier FileIntegrity of the same name; otherwise absent.',
      ),
    ),
    packageUpdates: optional(packageUpdates),
    detection: optional(detection),
    baseline: optional(baseline),
    configuration: optional(
      string(
        'The provider and a digest of the configuration that the latest result was made with; another one needs a new baseline.',
      ),
    ),
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
 * kubectl takes a name from the group that comes first in the alphabet, which is not the released one. Users
 * have installed the released group, so only that one gets the names.
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
  /** Label of active configurations. */
  aideConfLabel: `${prefix}/aide-conf`,
  /** The FileIntegrity, by its name (`labelValue`). */
  ownerLabel: `${prefix}/owner`,
  /** Label of temporary ConfigMaps with a result. */
  logLabel: `${prefix}/log`,
  nodeLabel: `${prefix}/node`,
  /** Label of kept ConfigMaps. */
  resultLogLabel: `${prefix}/result-log`,
  filesAdded: `${prefix}/files-added`,
  filesChanged: `${prefix}/files-changed`,
  filesRemoved: `${prefix}/files-removed`,
  errorMessage: `${prefix}/log-errormsg`,
  compressed: `${prefix}/compressed`,
  /** Set by users, on a FileIntegrity. */
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
