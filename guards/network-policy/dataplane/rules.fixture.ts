/** Rules of a node, by hand. */
import type { PolicyMode } from '../engine/monitor.ts';
import {
  type Address,
  type AddressRange,
  type ByFamily,
  type Clause,
  type Direction,
  type Family,
  type LocalPod,
  type NodeRules,
  type Peers,
  type PeersChange,
  type PeersKey,
  type PodKey,
  policyRulesKey,
  type PolicyRules,
  type PortRange,
  type Protocol,
  type RulesChange,
} from '../engine/rules.ts';

export interface GivenPolicy {
  readonly policy: string;
  readonly direction: Direction;
  /** The pods that it selects. */
  readonly selects: readonly PodKey[];
  /** Default: `enforce`. */
  readonly mode?: PolicyMode;
  /** A rule each. */
  readonly allows: readonly (GivenClause | readonly GivenClause[])[];
}

/** With the peers themselves. */
export type GivenClause = DistributiveOmit<Clause, 'peers'> & { readonly peers: 'everyone' | Peers };
type DistributiveOmit<T, K extends PropertyKey> = T extends unknown ? Omit<T, K> : never;

export interface GivenPod {
  readonly name: PodKey;
  readonly addresses: ByFamily<Address>;
}

export const wholePodCidr = {
  4: [{ first: '10.1.0.0', last: '10.1.0.255' }],
  6: [{ first: 'fd00:1::', last: 'fd00:1::ffff:ffff:ffff:ffff' }],
} as const;

/** @param keyOf - Of peers: rules with one key share them. Default: each clause has its own, whoever is in it. */
export function nodeRules(
  pods: readonly GivenPod[],
  policies: readonly GivenPolicy[],
  keyOf: (place: string) => string = (place) => place,
): NodeRules {
  const peers = new Map<PeersKey, Peers>();
  const clauseOf = (given: GivenClause, place: string): Clause => {
    if (given.peers === 'everyone') return { ...given, peers: 'everyone' };
    const key = `[${keyOf(place)} ${JSON.stringify(given.peers.blocks)}` as const;
    peers.set(key, given.peers);
    return { ...given, peers: key };
  };
  const selecting = (pod: PodKey, direction: Direction): readonly string[] | undefined => {
    const names = policies
      .filter((policy) => policy.direction === direction && policy.selects.includes(pod))
      .map(({ policy }) => policy);
    return names.length === 0 ? undefined : names.sort();
  };
  const isMonitored = (pod: PodKey, direction: Direction): boolean => {
    const all = policies.filter((policy) => policy.direction === direction && policy.selects.includes(pod));
    return all.length > 0 && all.every(({ mode }) => mode === 'monitor');
  };
  return {
    pods: new Map(
      pods.map(({ name, addresses }): [PodKey, LocalPod] => [
        name,
        {
          pod: name,
          addresses: { 4: [addresses[4]], 6: [addresses[6]] },
          ingress: selecting(name, 'ingress'),
          egress: selecting(name, 'egress'),
          monitors: { ingress: isMonitored(name, 'ingress'), egress: isMonitored(name, 'egress') },
        },
      ]),
    ),
    policies: new Map(
      policies.map(({ policy, direction, allows }): [string, PolicyRules] => [
        policyRulesKey(direction, policy),
        {
          policy,
          direction,
          rules: allows.map((clauses, index) => ({
            index,
            clauses: [clauses]
              .flat()
              .map((clause, at) => clauseOf(clause, `${direction} ${policy} ${index} ${at}`)),
          })),
        },
      ]),
    ),
    peers,
    podCidrs: wholePodCidr,
  };
}

/** The difference, as the engine reports it. */
export function changeBetween(before: NodeRules, after: NodeRules): RulesChange {
  const differing = <K extends string, T>(a: ReadonlyMap<K, T>, b: ReadonlyMap<K, T>): Set<K> =>
    new Set(
      [...a.keys(), ...b.keys()].filter((key) => JSON.stringify(a.get(key)) !== JSON.stringify(b.get(key))),
    );
  return {
    pods: differing(before.pods, after.pods),
    policies: differing(before.policies, after.policies),
    peers: new Map(
      [...differing(before.peers, after.peers)].map((key) => [
        key,
        peersChange(before.peers.get(key), after.peers.get(key)),
      ]),
    ),
    podCidrs: JSON.stringify(before.podCidrs) !== JSON.stringify(after.podCidrs),
  };
}

function peersChange(before: Peers | undefined, after: Peers | undefined): PeersChange | undefined {
  if (before === undefined || after === undefined) return undefined;
  const of = (family: Family) => {
    const [was, is] = [new Set(before.pods[family]), new Set(after.pods[family])];
    return { gone: [...was.difference(is)], come: [...is.difference(was)] };
  };
  return { 4: of(4), 6: of(6) };
}

export const everyone: GivenClause = { peers: 'everyone', ports: 'any' };

export function addressesOf(pods: readonly GivenPod[]): Peers {
  const of = (family: Family): Address[] => pods.map(({ addresses }) => addresses[family]).sort();
  return { pods: { 4: of(4), 6: of(6) }, blocks: { 4: [], 6: [] } };
}

/** `10.0.0.0-10.0.0.255` or `fd00::-fd00::ff`, each by its family; a single address is that of a pod. */
export function blocks(...texts: readonly string[]): Peers {
  const of = (family: Family): string[] => texts.filter((text) => text.includes(':') === (family === 6));
  const podsOf = (family: Family): Address[] =>
    of(family)
      .filter((text) => !text.includes('-'))
      .sort();
  const blocksOf = (family: Family): AddressRange[] =>
    of(family).flatMap((text) => {
      const [first = '', last] = text.split('-');
      return last === undefined ? [] : [{ first, last }];
    });
  return { pods: { 4: podsOf(4), 6: podsOf(6) }, blocks: { 4: blocksOf(4), 6: blocksOf(6) } };
}

export function port(protocol: Protocol, first: number, last = first): PortRange {
  return { protocol, first, last };
}
