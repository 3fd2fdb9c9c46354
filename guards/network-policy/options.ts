/** The command-line options of this guard. */
import type { GuardOption, OptionValues } from '../../guard/guard.ts';
import { choice, isGiven, number, texts } from '../../guard/option-values.ts';
import { parseBlock } from './engine/addresses.ts';
import { policyModes, type PolicyMode } from './engine/monitor.ts';
import type { BackendChoice } from './dataplane/backend.ts';
import { defaultDataplaneOptions, type LogGroups } from './dataplane/dataplane.ts';

export interface NetworkPolicyOptions {
  readonly unknownPods: 'allow' | 'deny';
  readonly mode: PolicyMode;
  /** Pod CIDRs of this node; if empty, those of the Node object. */
  readonly podCidrs: readonly string[];
  readonly backend: BackendChoice;
  readonly established: 'keep' | 'cut';
  /** The NFLOG groups that packets are logged to. */
  readonly logGroups: LogGroups;
  /** Maximum number of allowed connections logged per second; 0: none. */
  readonly flowsPerSecond: number;
  /** Whether rules stay in the kernel when the guard is switched off. */
  readonly keepsRules: boolean;
}

/** The number of a group has 16 bits. */
const MAX_GROUP = 65_535;
/** 10,000 lines take some 6 MB. */
const MAX_FLOWS = 10_000;
const verdicts: readonly NetworkPolicyOptions['unknownPods'][] = ['allow', 'deny'];
const established: readonly NetworkPolicyOptions['established'][] = ['keep', 'cut'];
const backends: readonly BackendChoice[] = ['auto', 'nftables', 'iptables'];

export const networkPolicyOptions: readonly GuardOption[] = [
  {
    flags: '--network-policy-default <verdict>',
    description:
      'the verdict for pod addresses of this node that belong to no known pod, such as one that has just started',
    on: ['agent', 'standalone'],
    choices: verdicts,
    default: 'allow',
  },
  {
    flags: '--network-policy-mode <mode>',
    description: 'monitor: refuse nothing on this node; report and count what would be refused',
    on: ['agent', 'standalone'],
    choices: policyModes,
    default: 'enforce',
  },
  {
    flags: '--network-policy-established <what>',
    description: 'whether to keep or cut connections that a policy change no longer allows',
    on: ['agent', 'standalone'],
    choices: established,
    default: 'keep',
  },
  {
    flags: '--pod-cidr <cidr>',
    description: 'the pod addresses of this node; repeatable; default: those of the Node object',
    on: ['agent', 'standalone'],
    repeatable: true,
    parse: (text) => {
      const block = parseBlock(text);
      if (typeof block === 'string') throw new Error(`It ${block}.`);
      const { readAs } = block;
      if (readAs !== undefined) throw new Error(`It ${readAs.why}; the block is ${readAs.block}.`);
      return text;
    },
  },
  {
    flags: '--network-policy-backend <backend>',
    description: 'how to program the kernel; auto: nftables, or iptables where nftables does not work',
    on: ['agent', 'standalone'],
    choices: backends,
    default: 'auto',
  },
  {
    flags: '--network-policy-log-group <number>',
    description:
      'the NFLOG group that refused packets are logged to, read by the agent; repeatable: the others are for other programs; default: 100',
    on: ['agent', 'standalone'],
    repeatable: true,
    parse: numberUpTo(MAX_GROUP),
  },
  {
    flags: '--network-flow-log <number>',
    description:
      'report at most this many allowed connections of pods a second; count the others; 0: none, at no cost',
    on: ['agent', 'standalone'],
    parse: numberUpTo(MAX_FLOWS),
    default: 0,
  },
  {
    flags: '--network-policy-keep-rules',
    description: 'with the guard switched off: do not remove the rules that it has left in the kernel',
    on: ['agent', 'standalone'],
  },
];

export function parseNetworkPolicyOptions(values: OptionValues): NetworkPolicyOptions {
  const [group, ...groups] = new Set(texts(values, 'networkPolicyLogGroup').map(Number));
  return {
    unknownPods: choice(values, 'networkPolicyDefault', verdicts),
    mode: choice(values, 'networkPolicyMode', policyModes),
    podCidrs: texts(values, 'podCidr'),
    backend: choice(values, 'networkPolicyBackend', backends),
    established: choice(values, 'networkPolicyEstablished', established),
    logGroups: group === undefined ? defaultDataplaneOptions.logGroups : [group, ...groups],
    flowsPerSecond: number(values, 'networkFlowLog'),
    keepsRules: isGiven(values, 'networkPolicyKeepRules'),
  };
}

function numberUpTo(max: number): (text: string) => number {
  return (text) => {
    if (/^\d{1,5}$/.test(text) && Number(text) <= max) return Number(text);
    throw new Error(`It is not a number from 0 to ${max}.`);
  };
}
