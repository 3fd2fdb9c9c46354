/**
 * What /readyz and /healthz say of this guard.
 *
 * @module
 */
import type { HealthPart } from '../../shared/guard/guard.ts';
import { bothGroups } from './api.ts';

export const nodeHealth: readonly HealthPart[] = [
  ...bothGroups.map(({ integrities: { plural, group } }): HealthPart => ({
    on: 'node',
    name: `${plural}.${group}`,
    what: `FileIntegrities of ${group} are listed`,
  })),
  { on: 'node', name: 'nodes', what: 'the Node is known, if there is one' },
  { on: 'node', name: 'jobs', what: 'the FileIntegrities for this node are known' },
  { on: 'node', name: 'scan', what: 'a scan in progress makes progress', alive: true },
];

export const clusterHealth: readonly HealthPart[] = [
  { on: 'cluster', name: 'lease', what: 'the holder of the lease is known' },
  ...[
    ...bothGroups.flatMap(({ group, integrities, nodeStatuses }) => [
      `${integrities.plural}.${group}`,
      `${nodeStatuses.plural}.${group}`,
    ]),
    ...['nodes', 'results', 'active', 'kept', 'secrets', 'bindings'],
  ].map((name): HealthPart => ({ on: 'cluster', name, what: 'they are listed, while it leads' })),
];
