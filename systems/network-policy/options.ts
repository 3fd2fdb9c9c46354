/**
 * What a user may say of this guard on the command line.
 *
 * @module
 */
import type { GuardOption } from '../../shared/guard/guard.ts';
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
      'what happens to traffic of addresses of this node that are of no known pod, as of one that has just started',
    on: ['agent', 'standalone'],
    choices: ['allow', 'deny'],
    default: 'allow',
  },
  {
    flags: '--network-policy-established <what>',
    description:
      'what happens to connections that a change of the policies no longer allows: they go on, or are ended',
    on: ['agent', 'standalone'],
    choices: ['keep', 'cut'],
    default: 'keep',
  },
  {
    flags: '--pod-cidr <cidr>',
    description: 'the addresses of the pods of this node; repeatable; default: those of the Node object',
    on: ['agent', 'standalone'],
    repeatable: true,
  },
  {
    flags: '--network-policy-backend <backend>',
    description: 'what programs the kernel; auto: nftables, and iptables where that does not work',
    on: ['agent', 'standalone'],
    choices: ['auto', 'nftables', 'iptables'] satisfies BackendChoice[],
    default: 'auto',
  },
];
