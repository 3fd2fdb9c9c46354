/** Describes the guard for files in containers to the rest of the program. */
import { defineGuard, type HealthPart } from '../../guard/guard.ts';
import { kiveData, kiveNodeStatuses, kivePolicies, kivePolicyType } from './api.ts';
import { pod, rights } from './deployment.ts';
import { fileAccessOptions, parseFileAccessOptions } from './options.ts';

const nodeHealth: readonly HealthPart[] = [
  { on: 'node', name: 'kivepolicies', what: 'KivePolicies are listed' },
  { on: 'node', name: 'pods', what: 'the pods of the node are listed' },
  { on: 'node', name: 'kivedata', what: 'KiveData are listed' },
  { on: 'node', name: 'containers', what: 'the containers have been listed by the container runtime' },
  { on: 'node', name: 'files', what: 'all existing files have been examined' },
  { on: 'node', name: 'loader', what: 'an agent is known to watch the files of this kernel' },
  { on: 'node', name: 'sensor', what: 'kernel events are read', alive: true },
];

const clusterHealth: readonly HealthPart[] = [
  { on: 'cluster', name: 'lease', what: 'the holder of the lease is known' },
  ...[
    ['kivepolicies', 'KivePolicies'],
    ['kivedata', 'KiveData'],
    ['kivenodestatuses', 'KiveNodeStatuses'],
    ['pods', 'pods'],
    ['nodes', 'nodes'],
  ].map(([name = '', what = '']): HealthPart => ({
    on: 'cluster',
    name,
    what: `${what} are listed, on the leader`,
  })),
  { on: 'cluster', name: 'namespace', what: 'the namespace of KiveData exists, on the leader' },
];

export const fileAccess = defineGuard({
  name: 'file-access',
  summary: 'reports accesses to the files that a KivePolicy names',
  resources: [kivePolicies, kiveData, kiveNodeStatuses],
  guarded: [kivePolicyType],
  containers: 'needed',
  directory: {
    name: 'spool',
    flags: '--spool <dir>',
    description: 'where alerts are queued for callbacks',
  },
  options: fileAccessOptions,
  parse: parseFileAccessOptions,
  health: [...nodeHealth, ...clusterHealth],
  node: async () => (await import('./node/run.ts')).fileAccessNode,
  cluster: async () => (await import('./cluster/run.ts')).fileAccessCluster,
  examine: async () => (await import('./node/examine.ts')).examineFileAccess,
  status: async () => (await import('./status/section.ts')).fileAccessStatus,
  picture: async () => (await import('./picture/source.ts')).fileAccessPicture,
  leftovers: async () => (await import('./leftovers.ts')).fileAccessLeftovers,
  lines: async () => [(await import('./alert/alert-line-kind.ts')).alertLines],
  ocsf: async () => (await import('./alert/ocsf.ts')).alertOcsf,
  rights,
  pod,
  metrics: async () => {
    const { registerNodeMetrics } = await import('./node/node-metrics.ts');
    const { addDeliveryMetrics } = await import('./delivery/delivery-metrics.ts');
    return {
      node: (metrics) => {
        registerNodeMetrics(metrics);
        addDeliveryMetrics(metrics);
      },
    };
  },
  alertingRules: async () => (await import('./alerting-rules.ts')).alertingRules,
});
