/** The descriptor of the network policy guard: all that the rest of Rampart knows about it. */
import { defineGuard } from '../../guard/guard.ts';
import { networkPolicies } from './api.ts';
import { networkCommand } from './commands/command.ts';
import { pod, rights } from './deployment.ts';
import { networkPolicyOptions, parseNetworkPolicyOptions } from './options.ts';

export const networkPolicy = defineGuard({
  name: 'network-policy',
  summary: "enforces NetworkPolicies in the node's kernel",
  resources: [],
  builtinKinds: [networkPolicies],
  commands: [
    {
      create: networkCommand,
      example: ['network drops -f', 'follow refused connections'],
    },
  ],
  options: networkPolicyOptions,
  parse: parseNetworkPolicyOptions,
  rights,
  pod,
  health: [
    { on: 'node', name: 'networkpolicies', what: 'NetworkPolicies are listed' },
    { on: 'node', name: 'pods', what: 'pods are listed' },
    { on: 'node', name: 'namespaces', what: 'namespaces are listed' },
    { on: 'node', name: 'node', what: 'the Node is known, if there is one' },
    { on: 'node', name: 'rules', what: 'the kernel has the rules' },
  ],
  metrics: async () => {
    const { registerNodeMetrics } = await import('./node/metrics.ts');
    return { node: (metrics) => registerNodeMetrics(metrics) };
  },
  alertingRules: async () => (await import('./alerting-rules.ts')).alertingRules,
  node: async () => (await import('./node/run.ts')).networkPolicyNode,
  lines: async () => [
    (await import('./refusal-line.ts')).refusalLines,
    (await import('./flow-line.ts')).flowLines,
  ],
  ocsf: async () => (await import('./ocsf.ts')).networkPolicyOcsf,
  examine: async () => (await import('./node/examine.ts')).examineNetworkPolicy,
  status: async () => (await import('./status/section.ts')).networkPolicyStatus,
  picture: async () => (await import('./picture/source.ts')).networkPolicyPicture,
  leftovers: async () => (await import('./leftovers.ts')).networkPolicyLeftovers,
  switchedOff: async () => (await import('./leftovers.ts')).cleanSwitchedOff,
});
