/** Describes the guard for files of the nodes themselves to the rest of the program. */
import { defineGuard, type HealthPart } from '../../guard/guard.ts';
import {
  bothGroups,
  designFileIntegrities,
  designNodeStatuses,
  releasedFileIntegrities,
  releasedNodeStatuses,
} from './api.ts';
import { integrityCommand } from './commands/command.ts';
import { pod, rights } from './deployment.ts';
import { fileIntegrityOptions, parseFileIntegrityOptions } from './options.ts';

const nodeHealth: readonly HealthPart[] = [
  ...bothGroups.map(({ integrities: { plural, group } }): HealthPart => ({
    on: 'node',
    name: `${plural}.${group}`,
    what: `FileIntegrities of ${group} are listed`,
  })),
  { on: 'node', name: 'nodes', what: 'the Node is known, if there is one' },
  { on: 'node', name: 'jobs', what: 'the FileIntegrities for this node are known' },
  { on: 'node', name: 'scan', what: 'a scan in progress makes progress', alive: true },
];

const clusterHealth: readonly HealthPart[] = [
  { on: 'cluster', name: 'lease', what: 'the holder of the lease is known' },
  ...[
    ...bothGroups.flatMap(({ group, integrities, nodeStatuses }) => [
      `${integrities.plural}.${group}`,
      `${nodeStatuses.plural}.${group}`,
    ]),
    ...['nodes', 'results', 'active', 'kept', 'secrets', 'bindings'],
  ].map((name): HealthPart => ({ on: 'cluster', name, what: 'they are listed, on the leader' })),
];

export const fileIntegrity = defineGuard({
  name: 'file-integrity',
  summary: 'reports changes to the files of nodes that a FileIntegrity selects',
  resources: [releasedFileIntegrities, releasedNodeStatuses, designFileIntegrities, designNodeStatuses],
  guarded: bothGroups.map(({ integrities }) => integrities),
  containers: 'used',
  directory: {
    name: 'integrity',
    flags: '--integrity-directory <dir>',
    description: 'where baselines of FileIntegrities are stored',
  },
  commands: [
    {
      create: integrityCommand,
      example: ['integrity check', 'show which files changed since their baseline'],
    },
  ],
  options: fileIntegrityOptions,
  parse: parseFileIntegrityOptions,
  health: [...nodeHealth, ...clusterHealth],
  node: async () => (await import('./node/run.ts')).fileIntegrityNode,
  cluster: async () => (await import('./cluster/run.ts')).fileIntegrityCluster,
  examine: async () => (await import('./node/examine.ts')).examineFileIntegrity,
  status: async () => (await import('./status/section.ts')).fileIntegrityStatus,
  picture: async () => (await import('./picture/source.ts')).fileIntegrityPicture,
  leftovers: async () => (await import('./leftovers.ts')).fileIntegrityLeftovers,
  lines: async () => [(await import('./status/finding-line-kind.ts')).findingLines],
  ocsf: async () => (await import('./node/finding-ocsf.ts')).findingOcsf,
  rights,
  pod,
  // The path in the File Integrity Operator's ServiceMonitor (its pkg/controller/metrics/metrics.go).
  metricsPaths: ['/metrics-fio'],
  metrics: async () => {
    const { NodeCounts } = await import('./node/node-counts.ts');
    const { ClusterMetrics } = await import('./cluster/metrics.ts');
    return {
      node: (metrics) => new NodeCounts().register(metrics),
      cluster: (metrics) => new ClusterMetrics().register(metrics),
    };
  },
  alertingRules: async () => (await import('./alerting-rules.ts')).alertingRules,
});
