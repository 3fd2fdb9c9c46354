/**
 * The sets of peers. Rules with the same peers look into the same set: a pod that comes or goes is then one element, however many
 * policies allow it.
 *
 * @module
 */
import { addressText, addressValue } from '../../engine/addresses.ts';
import type {
  AddressRange,
  AddressSet,
  ByFamily,
  Direction,
  Family,
  NodeRules,
  PolicyRules,
} from '../../engine/rules.ts';
import { rangeText } from './addresses.ts';
import { families, policyChain } from './names.ts';
import type { ElementSet } from './objects.ts';

/** The engine has one object for the same peers, as long as they are the same. */
export type Peers = ByFamily<AddressSet>;

export interface FamilyPeers {
  readonly sets: readonly ElementSet[];
  /** Blocks that are rules. */
  readonly blocks: readonly string[];
}

const addressType = { 4: 'ipv4_addr', 6: 'ipv6_addr' } as const;
/** More blocks than that are a set. */
const blocksAsRules = 8;
/** Pods that have addresses in a row are told as a range; of the pods of a node there may be so many. */
const longestRow = 128n;

/**
 * Of peers the name that their sets begin with: that of the first rule with them, so every process finds the same. A change costs what
 * depends on it.
 */
export class PeerNames {
  readonly #names = new Map<Peers, string>();
  readonly #policies = new Map<string, PolicyRules>();
  /** By the key of a policy's rules: the place of the first with these peers. */
  readonly #users = new Map<Peers, Map<string, string>>();

  get names(): ReadonlyMap<Peers, string> {
    return this.#names;
  }

  /** The keys of the policies that have these peers. */
  users(peers: Peers): Iterable<string> {
    return this.#users.get(peers)?.keys() ?? [];
  }

  /**
   * @param keys - Of the policies that are different.
   * @returns the peers that have another name than before, or had none, or have none any more
   */
  change(keys: Iterable<string>, policies: NodeRules['policies']): Peers[] {
    const touched = new Set<Peers>();
    for (const key of keys) {
      const [before, after] = [this.#policies.get(key), policies.get(key)];
      for (const { peers } of before === undefined ? [] : peersOf(before)) {
        this.#users.get(peers)?.delete(key);
        touched.add(peers);
      }
      if (after === undefined) this.#policies.delete(key);
      else this.#policies.set(key, after);
      for (const { peers, place } of after === undefined ? [] : peersOf(after)) {
        const users = this.#users.get(peers) ?? new Map<string, string>();
        this.#users.set(peers, users);
        if (!users.has(key)) users.set(key, place);
        touched.add(peers);
      }
    }
    return [...touched].filter((peers) => this.#rename(peers));
  }

  #rename(peers: Peers): boolean {
    const [first, ...others] = this.#users.get(peers) ?? [];
    const before = this.#names.get(peers);
    if (first === undefined) {
      this.#users.delete(peers);
      return this.#names.delete(peers);
    }
    const [key, place] = others.reduce((least, other) => (other[0] < least[0] ? other : least), first);
    const policy = this.#policies.get(key);
    const name = policy === undefined ? '' : `${chainOf(policy)}-${place}`;
    this.#names.set(peers, name);
    return name !== before;
  }
}

export function namePeers(rules: NodeRules): PeerNames {
  const names = new PeerNames();
  names.change(rules.policies.keys(), rules.policies);
  return names;
}

interface PlacedPeers {
  readonly peers: Peers;
  readonly place: string;
}

const placed = new WeakMap<PolicyRules, readonly PlacedPeers[]>();

/** The peers that are sets in a policy, in the order of its rules. */
function peersOf(policy: PolicyRules): readonly PlacedPeers[] {
  let found = placed.get(policy);
  if (found === undefined) {
    found = policy.rules.flatMap(({ index, clauses }) =>
      clauses.flatMap(({ peers }, place) =>
        peers === 'everyone' ? [] : [{ peers, place: `${index}-${place}` }],
      ),
    );
    placed.set(policy, found);
  }
  return found;
}

const chains = new WeakMap<PolicyRules, string>();

function chainOf(policy: PolicyRules): string {
  let name = chains.get(policy);
  if (name === undefined) {
    name = policyChain(policy.direction satisfies Direction, policy.policy);
    chains.set(policy, name);
  }
  return name;
}

interface Compiled {
  readonly name: string;
  readonly families: Readonly<Record<Family, FamilyPeers>>;
}

const compiled = new WeakMap<Peers, Compiled>();

/** The same objects as before where peers and name are the same. */
export function compilePeers(peers: Peers, name: string): Compiled['families'] {
  const known = compiled.get(peers);
  if (known?.name === name) return known.families;
  const both = { 4: familyPeers(peers[4], 4, name), 6: familyPeers(peers[6], 6, name) };
  compiled.set(peers, { name, families: both });
  return both;
}

/** Of peers with a name. */
export function peerSets(peers: Peers, name: string): ElementSet[] {
  return families.flatMap((family) => compilePeers(peers, name)[family].sets);
}

/**
 * Pods come and go: they are a set of addresses, of which one is changed without a look at the others. Blocks seldom change, and
 * a few are rules: nft takes long to list many sets of ranges (docs/decisions/0011-nftables-by-libnftables.md).
 */
function familyPeers(ranges: AddressSet, family: Family, name: string): FamilyPeers {
  const [pods, blocks]: [string[], AddressRange[]] = [[], []];
  for (const range of ranges) {
    const row = addressesInRow(family, range);
    if (row === undefined) blocks.push(range);
    else pods.push(...row);
  }
  const sets: ElementSet[] = [];
  if (pods.length > 0) sets.push(set(`${name}-pods-${family}`, family, pods, false));
  const texts = blocks.map((range) => rangeText(family, range));
  if (texts.length <= blocksAsRules) return { sets, blocks: texts };
  sets.push(set(`${name}-blocks-${family}`, family, texts, true));
  return { sets, blocks: [] };
}

function addressesInRow(family: Family, { first, last }: AddressRange): string[] | undefined {
  if (first === last) return [first];
  const low = addressValue(first);
  const count = addressValue(last) - low + 1n;
  if (count > longestRow) return undefined;
  return Array.from({ length: Number(count) }, (_, at) => addressText(family, low + BigInt(at)));
}

function set(name: string, family: Family, elements: readonly string[], interval: boolean): ElementSet {
  return {
    kind: 'set',
    name,
    type: addressType[family],
    interval,
    elements: new Map(elements.map((element) => [element, ''])),
  };
}
