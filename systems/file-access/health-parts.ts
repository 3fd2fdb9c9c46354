/**
 * What /readyz and /healthz say of this guard.
 *
 * @module
 */
import type { HealthPart } from '../../shared/guard/guard.ts';

export const nodeHealth: readonly HealthPart[] = [
  { on: 'node', name: 'kivepolicies', what: 'KivePolicies are listed' },
  { on: 'node', name: 'pods', what: 'the pods of the node are listed' },
  { on: 'node', name: 'kivedata', what: 'KiveData are listed' },
  { on: 'node', name: 'containers', what: 'the containers have been listed by the container runtime' },
  { on: 'node', name: 'files', what: 'all existing files have been examined' },
  { on: 'node', name: 'loader', what: 'an agent is known to watch the files of this kernel' },
  { on: 'node', name: 'sensor', what: 'kernel events are read', alive: true },
];

export const clusterHealth: readonly HealthPart[] = [
  { on: 'cluster', name: 'lease', what: 'the holder of the lease is known' },
  ...[
    ['kivepolicies', 'KivePolicies'],
    ['kivedata', 'KiveData'],
    ['pods', 'pods'],
    ['nodes', 'nodes'],
  ].map(([name = '', what = '']): HealthPart => ({
    on: 'cluster',
    name,
    what: `${what} are listed, while it leads`,
  })),
];
