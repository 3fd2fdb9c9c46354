/** The chain of a policy, and the sets that it matches. */
import type {
  Address,
  ByFamily,
  Clause,
  Direction,
  Family,
  NodeRules,
  PeersKey,
  PolicyRules,
  PortRange,
} from '../../engine/rules.ts';
import { peerMembers } from './blocks.ts';
import type { IpSet } from './ipset.ts';
import { allowedMark, comment, idOf, policyChain, setName } from './names.ts';
import { type FamilyRules, type IptablesRules, noFamilyRules } from './rules.ts';

/** Key of a set of peers or endpoints: the same for as long as the rule exists, whatever its members. */
export type SetKey = string;

/** Which of the two names of a set is in use. */
export type Slot = 0 | 1;

export interface CompiledPolicy extends IptablesRules {
  /** Keyed by name: sets that decide which peers are allowed. */
  readonly peerSets: ReadonlyMap<string, SetKey>;
  /** The index of the rule of the policy that a line belongs to. */
  readonly ruleOf: ReadonlyMap<string, number>;
}

/**
 * @param targets - The addresses of the pods of this node that it selects. Nothing is compiled for a family without addresses.
 * @param slotOf - Two names for each set, so that rules and members can change atomically.
 */
export function compilePolicy(
  policy: PolicyRules,
  peers: NodeRules['peers'],
  targets: ByFamily<readonly Address[]>,
  slotOf: (key: SetKey) => Slot,
): CompiledPolicy {
  const sets = new Map<string, IpSet>();
  const peerSets = new Map<string, SetKey>();
  const ruleOf = new Map<string, number>();
  const of = (family: Family): FamilyRules => {
    if (targets[family].length === 0) return noFamilyRules;
    const chain = new PolicyChain(policy, peers, family, slotOf);
    chain.compile(targets[family]);
    for (const set of chain.sets) sets.set(set.name, set);
    for (const [name, key] of chain.peerSets) peerSets.set(name, key);
    for (const [line, index] of chain.lines) ruleOf.set(line, index);
    const name = policyChain(policy.direction, policy.policy, family);
    return { hooks: new Map(), tops: new Map(), chains: new Map([[name, [...chain.lines.keys()]]]) };
  };
  return { families: { 4: of(4), 6: of(6) }, sets, peerSets, ruleOf };
}

export function targetSet(direction: Direction, policy: string, family: Family): string {
  return setName(direction === 'ingress' ? 'DST' : 'SRC', family, idOf(direction, policy, String(family)));
}

export function peerSetName(key: SetKey, family: Family, slot: Slot): string {
  const side = key.startsWith('peers ingress') ? 'SRC' : 'DST';
  return setName(side, family, idOf(key, String(slot)));
}

class PolicyChain {
  readonly sets: IpSet[] = [];
  readonly peerSets = new Map<string, SetKey>();
  /** The index of the first rule that produces each line: identical lines are merged. */
  readonly lines = new Map<string, number>();
  readonly #policy: PolicyRules;
  readonly #allPeers: NodeRules['peers'];
  readonly #family: Family;
  readonly #slotOf: (key: SetKey) => Slot;

  constructor(policy: PolicyRules, peers: NodeRules['peers'], family: Family, slotOf: (key: SetKey) => Slot) {
    this.#policy = policy;
    this.#allPeers = peers;
    this.#family = family;
    this.#slotOf = slotOf;
  }

  compile(targets: readonly Address[]): void {
    const { policy, direction, rules } = this.#policy;
    const name = targetSet(direction, policy, this.#family);
    this.sets.push({ name, type: 'hash:ip', family: this.#family, members: new Set(targets) });
    for (const { index, clauses } of rules) {
      clauses.forEach((clause, place) => this.#add(clause, index, `${index} ${place}`));
    }
  }

  #add(clause: Clause, index: number, place: string): void {
    const { policy, direction } = this.#policy;
    const own = targetSet(direction, policy, this.#family);
    const peers = clause.peers === 'everyone' ? undefined : this.#peers(clause.peers, place);
    const [source, destination] = direction === 'ingress' ? [peers, own] : [own, peers];
    const sides = [
      ...(source === undefined ? [] : [`-m set --match-set ${source} src`]),
      ...(destination === undefined ? [] : [`-m set --match-set ${destination} dst`]),
    ];
    if ('endpoints' in clause) {
      const members = clause.endpoints[this.#family].map(
        ({ address, protocol, port }) => `${address},${protocol.toLowerCase()}:${port}`,
      );
      const endpoints = this.#peerSet('hash:ip,port', new Set(members), `endpoints ${direction} ${place}`);
      this.#allow('', [...sides, `-m set --match-set ${endpoints} dst,dst`], clause, index);
      return;
    }
    for (const [protocol, ports] of portMatches(clause.ports)) {
      this.#allow(protocol, [...sides, ...ports], clause, index);
    }
  }

  #peers(key: PeersKey, place: string): string {
    const peers = this.#allPeers.get(key);
    const members = peers === undefined ? new Set<string>() : peerMembers(peers, this.#family);
    return this.#peerSet('hash:net', members, `peers ${this.#policy.direction} ${place}`);
  }

  #peerSet(type: IpSet['type'], members: ReadonlySet<string>, what: string): string {
    const key = `${what} ${this.#policy.policy} ${this.#family}`;
    const name = peerSetName(key, this.#family, this.#slotOf(key));
    this.sets.push({ name, type, family: this.#family, members });
    this.peerSets.set(name, key);
    return name;
  }

  #allow(protocol: string, matches: readonly string[], { peers }: Clause, index: number): void {
    const start = `${protocol === '' ? '' : `-p ${protocol} `}${comment(this.#note(peers))} ${matches.join(' ')}`;
    for (const end of [
      `-j MARK --set-xmark ${allowedMark}/${allowedMark}`,
      `-m mark --mark ${allowedMark}/${allowedMark} -j RETURN`,
    ]) {
      const line = `${start} ${end}`;
      if (!this.lines.has(line)) this.lines.set(line, index);
    }
  }

  #note(peers: Clause['peers']): string {
    const { policy, direction } = this.#policy;
    const [namespace = '', name = ''] = policy.split('/');
    const ends =
      direction === 'ingress'
        ? `from ${peers === 'everyone' ? 'all sources' : 'source pods'} to dest pods`
        : `from source pods to ${peers === 'everyone' ? 'all destinations' : 'dest pods'}`;
    return `rule to ACCEPT traffic ${ends} selected by policy name ${name} namespace ${namespace}`;
  }
}

const lastPort = 65_535;

/** The matches of each range, with its protocol; without ranges, nothing is allowed. */
function portMatches(ports: 'any' | readonly PortRange[]): [string, string[]][] {
  if (ports === 'any') return [['', []]];
  return ports.map(({ protocol, first, last }) => {
    const name = protocol.toLowerCase();
    if (first === 0 && last === lastPort) return [name, []];
    return [name, [`-m ${name} --dport ${first === last ? first : `${first}:${last}`}`]];
  });
}
