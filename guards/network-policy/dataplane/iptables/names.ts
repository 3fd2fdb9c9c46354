/**
 * Names in the kernel, with kube-router's prefixes. Sixteen characters represent a pod or policy; the first
 * one is a digit that kube-router's never have, which distinguishes the rules of the two.
 */
import { hash } from 'node:crypto';

import type { Direction, Family, RefusalVerdict } from '../../engine/rules.ts';
import { logPrefixOf } from '../log-prefix.ts';

export const families = [4, 6] as const satisfies readonly Family[];

/** The chains of the kernel that lead to ours, and to which. */
export const topChains = {
  INPUT: 'KUBE-ROUTER-INPUT',
  FORWARD: 'KUBE-ROUTER-FORWARD',
  OUTPUT: 'KUBE-ROUTER-OUTPUT',
} as const;
export type BuiltinChain = keyof typeof topChains;
export type TopChain = (typeof topChains)[BuiltinChain];
export const builtinChains = Object.keys(topChains) as BuiltinChain[];

export function isTopChain(name: string): boolean {
  return Object.values<string>(topChains).includes(name);
}

/** Chain for addresses that belong to no known pod. */
export const unknownPodsChain = 'KUBE-POD-FW-DEFAULT';
/** Chain for a direction that no policy isolates. */
export const defaultPolicyChain = 'KUBE-NWPLCY-DEFAULT';
/** Chain for packets that no policy may refuse. */
export const commonChain = 'KUBE-NWPLCY-COMMON';

/** No rule jumps to it: while it exists, the kernel tracks connections. */
export const trackingChain = 'RAMPART-TRACKING';

/** Mark of a packet that a policy allows. */
export const allowedMark = '0x10000';
/** Mark of a packet that complies with the policies of each pod whose chain it has passed. */
export const compliesMark = '0x20000';
/** A mask of both marks. */
export const bothMarks = '0x30000';

const ownedChain = /^KUBE-(?:POD-FW-(?:0|DEFAULT$)|NWPLCY-0)/;
const ownedSet = /^(?:inet6:)?KUBE-(?:SRC|DST)-0/;

/** Whether only Rampart creates chains of this name. */
export function isOurChain(name: string): boolean {
  return ownedChain.test(name);
}

const sharedChains = new Set<string>([...Object.values(topChains), defaultPolicyChain, commonChain]);

/** kube-router has a chain of this name too: it is ours if there is also a chain that only we create. */
export function isSharedChain(name: string): boolean {
  return sharedChains.has(name);
}

export function isOurSet(name: string): boolean {
  return ownedSet.test(name);
}

/** A digit that base32 does not have. */
const ownDigit = '0';
const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';
const idLength = 16;

/** The first 75 bits of a SHA-256 in base32. A part must not contain a line feed, which separates the parts. */
export function idOf(...parts: readonly string[]): string {
  const digest = hash('sha256', parts.join('\n'), 'buffer');
  let id = ownDigit;
  let bits = 0;
  let kept = 0;
  for (let at = 0; id.length < idLength; at++) {
    bits = (bits << 8) | (digest[at] as number);
    for (kept += 8; kept >= 5; kept -= 5) id += alphabet[(bits >> (kept - 5)) & 31] as string;
    bits &= 31;
  }
  // A byte may complete two characters.
  return id.slice(0, idLength);
}

/** A key is `namespace/name`, and neither has a slash: so `a/bc` and `ab/c` have separate chains. */
export function podChain(pod: string): string {
  return `KUBE-POD-FW-${idOf(pod)}`;
}

/**
 * A chain for each direction: with one for both, what a policy allows to reach one of its pods would also be allowed to leave
 * another one of its pods.
 */
export function policyChain(direction: Direction, policy: string, family: Family): string {
  return `KUBE-NWPLCY-${idOf(direction, policy, String(family))}`;
}

/** @param side - Which address of the packet is looked up in the set. */
export function setName(side: 'SRC' | 'DST', family: Family, id: string): string {
  return `${family === 6 ? 'inet6:' : ''}KUBE-${side}-${id}`;
}

/** The kernel takes up to 63 bytes (struct xt_nflog_info). */
const longestPrefix = 63;

/**
 * Chain and direction identify the refusal; the rest, as far as it fits, is for people who read the group
 * with another program.
 */
export function logPrefix(
  verdict: RefusalVerdict,
  chain: string,
  direction: Direction,
  pod = '',
  policies: readonly string[] = [],
): string {
  const way = direction === 'ingress' ? 'in' : 'out';
  return logPrefixOf(verdict, [chain, way, pod, policies.join(',')], longestPrefix);
}

const plainWord = /^[\w-]+$/;
const longestComment = 200;

/** `-m comment --comment ...` as iptables-save writes it. */
export function comment(text: string): string {
  // Names contain none of these; a comment must fit on a line.
  const plain = text.replaceAll(/[^\w./':;,@ -]/g, '?').slice(0, longestComment);
  const quoted = plainWord.test(plain) ? plain : `"${plain.replaceAll("'", "\\'")}"`;
  return `-m comment --comment ${quoted}`;
}

/** Comment of the rules that count packets that would be refused. */
export const countNote = comment('rule to count traffic that would be refused');

/** `name:web namespace: default`, with kube-router's punctuation. */
export function podText(pod: string): string {
  const [namespace = '', name = ''] = pod.split('/');
  return `POD name:${name} namespace: ${namespace}`;
}

/** The first two words of a line, and the rest. */
export function splitWords(line: string): [string, string, string] {
  const first = line.indexOf(' ');
  const second = line.indexOf(' ', first + 1);
  return second < 0
    ? [line.slice(0, first), line.slice(first + 1), '']
    : [line.slice(0, first), line.slice(first + 1, second), line.slice(second + 1)];
}
