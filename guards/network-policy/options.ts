/** The command-line options of this guard. */
import type { GuardOption, OptionValues } from '../../guard/guard.ts';
import { choice, isGiven, number, texts } from '../../guard/option-values.ts';
import { parseBlock } from './engine/addresses.ts';
import type { BackendChoice } from './node/backend.ts';
import { defaultDataplaneOptions } from './node/dataplane.ts';

export interface NetworkPolicyOptions {
  readonly unknownPods: 'allow' | 'deny';
  /** Empty: those of the Node object. */
  readonly podCidrs: readonly string[];
  readonly backend: BackendChoice;
  readonly established: 'keep' | 'cut';
  /** Of NFLOG. */
  readonly logGroup: number;
  /** Where the guard is switched off. */
  readonly keepsRules: boolean;
}

/** The kernel has 16 bits for it. */
const MOST_GROUP = 65_535;
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
      const why = typeof block === 'string' ? block : block.readAs?.replace('it is read as', 'the block is');
      if (why !== undefined) throw new Error(`It ${why}.`);
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
    description: 'the NFLOG group that refused packets are logged to, read by the agent',
    on: ['agent', 'standalone'],
    parse: groupNumber,
    default: defaultDataplaneOptions.logGroup,
  },
  {
    flags: '--network-policy-keep-rules',
    description: 'with the guard switched off: do not remove the rules that it has left in the kernel',
    on: ['agent', 'standalone'],
  },
];

export function parseNetworkPolicyOptions(values: OptionValues): NetworkPolicyOptions {
  return {
    unknownPods: choice(values, 'networkPolicyDefault', verdicts),
    podCidrs: texts(values, 'podCidr'),
    backend: choice(values, 'networkPolicyBackend', backends),
    established: choice(values, 'networkPolicyEstablished', established),
    logGroup: number(values, 'networkPolicyLogGroup'),
    keepsRules: isGiven(values, 'networkPolicyKeepRules'),
  };
}

function groupNumber(text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= MOST_GROUP) return Number(text);
  throw new Error(`It is not a number from 0 to ${MOST_GROUP}.`);
}
