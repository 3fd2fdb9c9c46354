/**
 * What /readyz says of this guard.
 *
 * @module
 */
import type { HealthPart } from '../../shared/guard/guard.ts';

export const nodeHealth: readonly HealthPart[] = [
  { on: 'node', name: 'programs-listed', what: 'all kinds of programs are listed' },
  { on: 'node', name: 'bpfprograms', what: 'the BpfPrograms of the node are listed' },
  { on: 'node', name: 'bpfnsprograms', what: 'the BpfNsPrograms of the node are listed' },
  { on: 'node', name: 'pods', what: 'the pods of the node are listed' },
  { on: 'node', name: 'node', what: 'the Node is known, if there is one' },
  { on: 'node', name: 'programs', what: 'the programs were requested from the kernel' },
];

export const clusterHealth: readonly HealthPart[] = [
  { on: 'cluster', name: 'lease', what: 'the holder of the lease is known' },
  { on: 'cluster', name: 'programs', what: 'all kinds of programs are listed, while it leads' },
  { on: 'cluster', name: 'bpfprograms', what: 'BpfPrograms are listed, while it leads' },
  { on: 'cluster', name: 'bpfnsprograms', what: 'BpfNsPrograms are listed, while it leads' },
  { on: 'cluster', name: 'nodes', what: 'nodes are listed, while it leads' },
];
