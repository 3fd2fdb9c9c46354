/**
 * The guard of eBPF programs: what the rest of the program knows of it.
 *
 * @module
 */
import type { Guard } from '../../shared/guard/guard.ts';
import { bpfResources } from './api.ts';
import { pod, rights } from './deployment.ts';
import { clusterHealth, nodeHealth } from './health-parts.ts';
import { bpfProgramsOptions } from './options.ts';

export const bpfPrograms: Guard = {
  name: 'bpf-programs',
  summary: 'loads the eBPF programs that XdpProgram, TcNsProgram and similar objects request',
  resources: bpfResources,
  containers: 'used',
  directory: {
    name: 'bpf',
    flags: '--bpf-directory <dir>',
    description: 'where images with bytecode are kept',
  },
  lease: 'rampart-bpf-programs',
  options: bpfProgramsOptions,
  health: [...nodeHealth, ...clusterHealth],
  node: async () => (await import('./node-part.ts')).bpfProgramsNode,
  cluster: async () => (await import('./cluster.ts')).runBpfProgramsCluster,
  status: async () => (await import('./status/section.ts')).bpfProgramsStatus,
  rights,
  pod,
  metrics: async () => {
    const { registerNodeMetrics } = await import('./node/metrics.ts');
    return { node: (metrics) => registerNodeMetrics(metrics) };
  },
};
