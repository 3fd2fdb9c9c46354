/** The command-line options of this guard. */
import type { GuardOption } from '../../guard/guard.ts';
import { parseBlock } from './engine/addresses.ts';
import type { BackendChoice } from './node/backend.ts';

/** As the command line gives them. */
export interface NetworkPolicyOptions {
  readonly networkPolicyDefault: 'allow' | 'deny';
  readonly podCidr: readonly string[];
  readonly networkPolicyBackend: BackendChoice;
  readonly networkPolicyEstablished: 'keep' | 'cut';
}

export const networkPolicyOptions: readonly GuardOption[] = [
  {
    flags: '--network-policy-default <verdict>',
    description:
      'the verdict for pod addresses of this node that belong to no known pod, such as one that has just started',
    on: ['agent', 'standalone'],
    choices: ['allow', 'deny'],
    default: 'allow',
  },
  {
    flags: '--network-policy-established <what>',
    description: 'whether to keep or cut connections that a policy change no longer allows',
    on: ['agent', 'standalone'],
    choices: ['keep', 'cut'],
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
      return text;
    },
  },
  {
    flags: '--network-policy-backend <backend>',
    description: 'how to program the kernel; auto: nftables, or iptables where nftables does not work',
    on: ['agent', 'standalone'],
    choices: ['auto', 'nftables', 'iptables'] satisfies BackendChoice[],
    default: 'auto',
  },
];
