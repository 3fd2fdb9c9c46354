/**
 * Names in the kernel. A name of 24 hexadecimal digits stands for a pod, policy or peers, because their keys may be longer
 * than a name in nftables; comments name them for people.
 */
import { hash } from 'node:crypto';

import type { Direction, Family, PeersKey, RefusalVerdict } from '../../engine/rules.ts';
import { logPrefixOf } from '../log-prefix.ts';

/** Name of the table of rules, without its family: the names of all our tables begin with it. */
export const bareTableName = 'rampart-network-policy';
export const tableName = `inet ${bareTableName}`;
/** Names of the tables that cut connections and check the sources of packets: both exist with either backend. */
export const cutTableName = `inet ${bareTableName}-cut`;
export const bareSourceTableName = `${bareTableName}-sources`;
export const sourceTableName = `netdev ${bareSourceTableName}`;
export const ownTables: readonly string[] = [tableName, cutTableName, sourceTableName];

export const directions = ['egress', 'ingress'] as const satisfies readonly Direction[];
export const families = [4, 6] as const satisfies readonly Family[];

/** As part of names: `in` and `out` are easy to distinguish. */
export const shortDirection = { ingress: 'in', egress: 'out' } as const satisfies Record<Direction, string>;

/** A key is `namespace/name`, and neither has a slash: so `a/bc` and `ab/c` have different names. */
function idOf(key: string): string {
  return hash('sha256', key).slice(0, 24);
}

/**
 * Name of a pod's own objects: a counter and a limit for each direction; in the table of sources, a chain.
 */
export function podName(direction: Direction, pod: string): string {
  return `pod-${shortDirection[direction]}-${idOf(pod)}`;
}

/** The chain of all pods that the same policies isolate in this direction. */
export function classChain(
  direction: Direction,
  verdict: RefusalVerdict,
  policies: readonly string[],
): string {
  return `class-${shortDirection[direction]}-${idOf([verdict, ...policies].join(' '))}`;
}

export function policyChain(direction: Direction, policy: string): string {
  return `policy-${shortDirection[direction]}-${idOf(policy)}`;
}

/** The common prefix of the names of these peers' sets. */
export function peersName(key: PeersKey): string {
  return `peers-${idOf(key)}`;
}

/** The map from the address of a pod to the chain of its class. */
export function podMap(direction: Direction, family: Family): string {
  return `pods-${shortDirection[direction]}-${family}`;
}

/** The map from the address of a pod to its counter, or its limit. */
export function objectMap(holds: 'counters' | 'limits', direction: Direction, family: Family): string {
  return `${holds}-${shortDirection[direction]}-${family}`;
}

/** Chain for packets from or to an address that belongs to no known pod. */
export function unknownChain(direction: Direction): string {
  return `unknown-${shortDirection[direction]}`;
}

const monitored = 'would-refuse-';

/** The counter of a chain that refuses packets, or would. */
export function counterName(chain: string, verdict: RefusalVerdict): string {
  return verdict === 'refused' ? chain : `${monitored}${chain}`;
}

export function parseCounterName(name: string): {
  readonly chain: string;
  readonly verdict: RefusalVerdict;
} {
  return name.startsWith(monitored)
    ? { chain: name.slice(monitored.length), verdict: 'would-refuse' }
    : { chain: name, verdict: 'refused' };
}

/** The kernel takes up to 127 bytes (NF_LOG_PREFIXLEN). */
const longestPrefix = 127;

/**
 * The chain identifies the refusal; the rest, as far as it fits, is for people who read the group with
 * another program.
 */
export function logPrefix(verdict: RefusalVerdict, chain: string, policies: readonly string[] = []): string {
  return logPrefixOf(verdict, [chain, policies.join(',')], longestPrefix);
}

const longestComment = 120;

/** A comment may have 127 bytes and no quote. */
export function commentText(text: string): string {
  const plain = text.replaceAll(/[^\w./[\] -]/g, '?');
  return plain.length > longestComment ? `${plain.slice(0, longestComment)}...` : plain;
}
