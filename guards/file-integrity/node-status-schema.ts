/** The fields of a FileIntegrityNodeStatus: the results of one node, its findings, and how changes are detected there. */
import { boolean, integer, list, object, oneOf, optional, string } from '../../lib/kube/crd/schema.ts';

const time = (description: string) => string(description, { format: 'date-time' });

const condition = oneOf(['Succeeded', 'Failed', 'Errored'], {
  description:
    'Succeeded: nothing has changed. Failed: something has changed. Errored: the state is unknown, and errorMessage says why.',
});

/** One result of a node. */
export const scanResult = {
  condition,
  lastProbeTime: time('When this result was obtained.'),
  resultConfigMapName: optional(string('The name of the ConfigMap with the log, for Failed.')),
  resultConfigMapNamespace: optional(string('The namespace of that ConfigMap.')),
  errorMessage: optional(string('Why the state is unknown, and what to do.')),
  filesAdded: optional(integer('The number of files that are not in the baseline.')),
  filesChanged: optional(integer('The number of files that differ from the baseline.')),
  filesRemoved: optional(integer('The number of files in the baseline that are gone.')),
};

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

export const finding = object({
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
  // Added later than the other fields: during an upgrade, operators and stored objects of the previous version lack it.
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

export const nodeStatusVersion = {
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
