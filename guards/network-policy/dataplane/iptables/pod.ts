/** The firewall chain of a pod, and the jumps to it. */
import { type Direction, type Family, isEnforced, type LocalPod } from '../../engine/rules.ts';
import type { DataplaneOptions } from '../dataplane.ts';
import { errors, nflog, rejects } from './base.ts';
import { blockMatch } from './blocks.ts';
import {
  allowedMark,
  bothMarks,
  comment,
  commonChain,
  compliesMark,
  countNote,
  defaultPolicyChain,
  podChain,
  podText,
  policyChain,
  topChains,
  type TopChain,
} from './names.ts';
import { type FamilyRules, type IptablesRules, noFamilyRules, type Top } from './rules.ts';

export function compilePod(pod: LocalPod, options: DataplaneOptions): IptablesRules {
  return { families: { 4: podOf(pod, 4, options), 6: podOf(pod, 6, options) }, sets: new Map() };
}

function podOf(pod: LocalPod, family: Family, options: DataplaneOptions): FamilyRules {
  const addresses = pod.addresses[family].map((address) => blockMatch(family, address));
  if (addresses.length === 0) return noFamilyRules;
  const chain = podChain(pod.pod);
  const jump = (side: '-s' | '-d'): string[] => {
    const way = side === '-s' ? 'from' : 'destined to';
    const note = comment(`rule to jump traffic ${way} ${podText(pod.pod)} to chain ${chain}`);
    return addresses.map((address) => `${side} ${address} ${note} -j ${chain}`);
  };
  const top = (...pods: readonly string[]): Top => ({ pods, tail: undefined });
  return {
    hooks: new Map(),
    tops: new Map<TopChain, Top>([
      [topChains.INPUT, top(...jump('-s'))],
      [topChains.FORWARD, top(...jump('-s'), ...jump('-d'))],
      [topChains.OUTPUT, top(...jump('-s'), ...jump('-d'))],
    ]),
    chains: new Map([[chain, chainOf(pod, family, addresses, options)]]),
  };
}

function chainOf(
  pod: LocalPod,
  family: Family,
  addresses: readonly string[],
  { logGroups }: DataplaneOptions,
): string[] {
  const chain = podChain(pod.pod);
  const isolated = (['ingress', 'egress'] as const).filter((direction) => pod[direction] !== undefined);
  const enforced = isolated.filter((direction) => isEnforced(pod, direction));
  const monitored = isolated.filter((direction) => !enforced.includes(direction));
  const ends = (direction: Direction): string[] =>
    addresses.map((address) => `${direction === 'ingress' ? '-d' : '-s'} ${address}`);
  const notAllowed = `-m mark ! --mark ${allowedMark}/${allowedMark}`;
  const invalid = `${comment('rule to drop invalid state for pod')} -m conntrack --ctstate INVALID -j DROP`;
  return [
    ...(monitored.length > 0
      ? enforced.flatMap(ends).map((end) => `${end} ${invalid}`)
      : isolated.length > 0
        ? [invalid]
        : []),
    `${comment('run through common network policy chain')} -j ${commonChain}`,
    // A pod may reach itself through a Service.
    ...addresses.map(
      (address) =>
        `-s ${address} -d ${address} ${comment('rule to permit the traffic of the pod to itself')} -j ACCEPT`,
    ),
    // The mark is cleared first: another program may have set it.
    `-j MARK --set-xmark 0x0/${allowedMark}`,
    ...isolated.flatMap((direction) =>
      addresses.flatMap((address) => allowedErrors(family, direction, address)),
    ),
    ...(['ingress', 'egress'] as const).flatMap((direction) =>
      jumps(pod, family, direction, ends(direction)),
    ),
    ...monitored.flatMap((direction) =>
      ends(direction).flatMap((end) => {
        // Invalid packets are not counted: enforcement drops them without a report.
        const who = `${end} ${countNote} ${notAllowed} -m conntrack ! --ctstate INVALID`;
        return [
          ...nflog(logGroups, who, 'would-refuse', chain, direction, pod.pod, pod[direction]),
          `${who} -j MARK --set-xmark ${allowedMark}/${allowedMark}`,
        ];
      }),
    ),
    ...enforced.flatMap((direction) =>
      ends(direction).flatMap((end) => {
        const who = `${end} ${comment(`rule to log dropped traffic ${podText(pod.pod)}`)} ${notAllowed}`;
        return nflog(logGroups, who, 'refused', chain, direction, pod.pod, pod[direction]);
      }),
    ),
    ...enforced.flatMap((direction) =>
      ends(direction).flatMap((end) =>
        rejects(
          family,
          end,
          `${comment(`rule to REJECT traffic ${direction === 'ingress' ? 'destined for' : 'from'} ${podText(pod.pod)}`)} ${notAllowed}`,
        ),
      ),
    ),
    // This rule also clears `allowedMark`.
    `${comment('set mark to ACCEPT traffic that comply to network policies')} -j MARK --set-xmark ${compliesMark}/${bothMarks}`,
  ];
}

/**
 * Anyone who knows a connection can forge an ICMP error about it. So an isolated pod sends and receives errors
 * about its own connections only, which the kernel ensures. They are not accepted here yet: they still have to
 * pass the rules of the other end.
 */
function allowedErrors(family: Family, direction: Direction, address: string): string[] {
  const [own] = address.split('/');
  const ends = direction === 'ingress' ? [''] : [` --ctorigsrc ${own}`, ` --ctreplsrc ${own}`];
  const side = direction === 'ingress' ? '-d' : '-s';
  return ends.map(
    (end) =>
      `${side} ${address} -p ${errors[family]} ${comment('rule to permit errors about connections of the pod')} -m conntrack --ctstate RELATED${end} -j MARK --set-xmark ${allowedMark}/${allowedMark}`,
  );
}

function jumps(pod: LocalPod, family: Family, direction: Direction, ends: readonly string[]): string[] {
  const policies = pod[direction];
  if (policies === undefined) {
    const note = comment(`run through default ${direction} network policy chain`);
    return ends.map((end) => `${end} ${note} -j ${defaultPolicyChain}`);
  }
  return ends.flatMap((end) =>
    policies.map((policy) => {
      const note = comment(`run through nw policy ${policy.split('/')[1]}`);
      return `${end} ${note} -j ${policyChain(direction, policy, family)}`;
    }),
  );
}
