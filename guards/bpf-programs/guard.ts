/** The descriptor of the eBPF programs guard: the only thing that the rest of Rampart knows about it. */
import { defineGuard, type HealthPart } from '../../guard/guard.ts';
import { bpfApplicationOf, bpfResources } from './api.ts';
import { bpfCommand } from './commands/command.ts';
import { pod, rights } from './deployment.ts';
import { bpfProgramsOptions, parseBpfProgramsOptions } from './options.ts';

const nodeHealth: readonly HealthPart[] = [
  { on: 'node', name: 'programs-listed', what: 'all kinds of programs are listed' },
  { on: 'node', name: 'bpfprograms', what: 'the BpfPrograms of the node are listed' },
  { on: 'node', name: 'bpfnsprograms', what: 'the BpfNsPrograms of the node are listed' },
  {
    on: 'node',
    name: 'clusterbpfapplicationstates',
    what: 'the ClusterBpfApplicationStates of the node are listed',
  },
  { on: 'node', name: 'bpfapplicationstates', what: 'the BpfApplicationStates of the node are listed' },
  { on: 'node', name: 'pods', what: 'the pods of the node are listed' },
  { on: 'node', name: 'node', what: 'the Node is known, if there is one' },
  { on: 'node', name: 'programs', what: 'the programs were requested from the kernel' },
  { on: 'node', name: 'csi', what: 'kubelet has registered the CSI driver, if `--bpf-csi` is given' },
];

const clusterHealth: readonly HealthPart[] = [
  { on: 'cluster', name: 'lease', what: 'the holder of the lease is known' },
  { on: 'cluster', name: 'programs', what: 'all kinds of programs are listed, while it leads' },
  { on: 'cluster', name: 'bpfprograms', what: 'BpfPrograms are listed, while it leads' },
  { on: 'cluster', name: 'bpfnsprograms', what: 'BpfNsPrograms are listed, while it leads' },
  {
    on: 'cluster',
    name: 'clusterbpfapplicationstates',
    what: 'ClusterBpfApplicationStates are listed, while it leads',
  },
  {
    on: 'cluster',
    name: 'bpfapplicationstates',
    what: 'BpfApplicationStates are listed, while it leads',
  },
  { on: 'cluster', name: 'configs', what: 'Configs are listed, while it leads' },
  { on: 'cluster', name: 'nodes', what: 'nodes are listed, while it leads' },
];

export const bpfPrograms = defineGuard({
  name: 'bpf-programs',
  summary: 'loads the eBPF programs that ClusterBpfApplication, XdpProgram and similar objects request',
  resources: bpfResources,
  variants: {
    option: 'bpfmanApi',
    resources: { 'v0.6': bpfApplicationOf['v0.6'].resource, 'v0.5': bpfApplicationOf['v0.5'].resource },
  },
  containers: 'used',
  directory: {
    name: 'bpf',
    flags: '--bpf-directory <dir>',
    description: 'where images with bytecode are kept',
  },
  commands: [{ create: bpfCommand, example: ['bpf list', 'list the eBPF programs that run for objects'] }],
  options: bpfProgramsOptions,
  parse: parseBpfProgramsOptions,
  health: [...nodeHealth, ...clusterHealth],
  node: async () => (await import('./node/run.ts')).bpfProgramsNode,
  cluster: async () => (await import('./cluster/run.ts')).bpfProgramsCluster,
  lines: async () => [(await import('./findings/program-finding.ts')).programFindings],
  examine: async () => (await import('./node/examine.ts')).examineBpfPrograms,
  status: async () => (await import('./status/section.ts')).bpfProgramsStatus,
  picture: async () => (await import('./picture/source.ts')).bpfProgramsPicture,
  ocsf: async () => (await import('./ocsf.ts')).programOcsf,
  leftovers: async () => (await import('./leftovers.ts')).bpfProgramsLeftovers,
  rights,
  pod,
  metrics: async () => {
    const { registerNodeMetrics } = await import('./node/metrics.ts');
    return { node: (metrics) => registerNodeMetrics(metrics) };
  },
  alertingRules: async () => (await import('./alerting-rules.ts')).alertingRules,
});
