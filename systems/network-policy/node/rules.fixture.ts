/**
 * Rules of a node, by hand.
 *
 * @module
 */
import {
  type Address,
  type AddressRange,
  type ByFamily,
  type Clause,
  type Direction,
  type Family,
  type LocalPod,
  type NodeRules,
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
  /** A rule each. */
  readonly allows: readonly (Clause | readonly Clause[])[];
}

export interface GivenPod {
  readonly name: PodKey;
  readonly addresses: ByFamily<Address>;
}

export const wholePodCidr = {
  4: [{ first: '10.1.0.0', last: '10.1.0.255' }],
  6: [{ first: 'fd00:1::', last: 'fd00:1::ffff:ffff:ffff:ffff' }],
} as const;

export function nodeRules(pods: readonly GivenPod[], policies: readonly GivenPolicy[]): NodeRules {
  const selecting = (pod: PodKey, direction: Direction): readonly string[] | undefined => {
    const names = policies
      .filter((policy) => policy.direction === direction && policy.selects.includes(pod))
      .map(({ policy }) => policy);
    return names.length === 0 ? undefined : names.sort();
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
        },
      ]),
    ),
    policies: new Map(
      policies.map(({ policy, direction, allows }): [string, PolicyRules] => [
        policyRulesKey(direction, policy),
        {
          policy,
          direction,
          rules: allows.map((clauses, index) => ({ index, clauses: [clauses].flat() })),
        },
      ]),
    ),
    podCidrs: wholePodCidr,
  };
}

/** What is different, as the engine tells it. */
export function changeBetween(before: NodeRules, after: NodeRules): RulesChange {
  const differing = <T>(a: ReadonlyMap<string, T>, b: ReadonlyMap<string, T>): Set<string> =>
    new Set(
      [...a.keys(), ...b.keys()].filter((key) => JSON.stringify(a.get(key)) !== JSON.stringify(b.get(key))),
    );
  return {
    pods: differing(before.pods, after.pods),
    policies: differing(before.policies, after.policies),
    podCidrs: JSON.stringify(before.podCidrs) !== JSON.stringify(after.podCidrs),
  };
}

export const everyone: Clause = { peers: 'everyone', ports: 'any' };

export function addressesOf(pods: readonly GivenPod[]): ByFamily<readonly AddressRange[]> {
  const of = (family: Family): AddressRange[] =>
    pods.map(({ addresses }) => ({ first: addresses[family], last: addresses[family] }));
  return { 4: of(4), 6: of(6) };
}

/** `10.0.0.0-10.0.0.255` or `fd00::-fd00::ff`, each by its family. */
export function blocks(...texts: readonly string[]): ByFamily<readonly AddressRange[]> {
  const of = (isSix: boolean): AddressRange[] =>
    texts
      .filter((text) => text.includes(':') === isSix)
      .map((text) => {
        const [first = '', last = first] = text.split('-');
        return { first, last };
      });
  return { 4: of(false), 6: of(true) };
}

export function port(protocol: Protocol, first: number, last = first): PortRange {
  return { protocol, first, last };
}
