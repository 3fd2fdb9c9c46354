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
  Clause,
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
  /** By the same key; a name is a hash. */
  readonly #chains = new Map<string, string>();
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
  change(keys: Iterable<string>, policies: NodeRules['policies']): Renamed[] {
    const touched = new Set<Peers>();
    for (const key of keys) {
      const [before, after] = [this.#policies.get(key), policies.get(key)];
      for (const { peers } of before === undefined ? [] : peersOf(before)) {
        this.#users.get(peers)?.delete(key);
        touched.add(peers);
      }
      if (after === undefined) {
        this.#policies.delete(key);
        this.#chains.delete(key);
      } else this.#policies.set(key, after);
      for (const { peers, place } of after === undefined ? [] : peersOf(after)) {
        const users = this.#users.get(peers) ?? new Map<string, string>();
        this.#users.set(peers, users);
        if (!users.has(key)) users.set(key, place);
        touched.add(peers);
      }
    }
    return [...touched].flatMap((peers) => {
      const before = this.#names.get(peers);
      const after = this.#nameOf(peers);
      if (after !== undefined) this.#names.set(peers, after);
      else this.#names.delete(peers);
      return before === after ? [] : [{ peers, before, after }];
    });
  }

  #nameOf(peers: Peers): string | undefined {
    let first: string | undefined;
    const users = this.#users.get(peers);
    for (const key of users?.keys() ?? []) if (first === undefined || key < first) first = key;
    const policy = this.#policies.get(first ?? '');
    if (first === undefined || policy === undefined) {
      this.#users.delete(peers);
      return undefined;
    }
    let chain = this.#chains.get(first);
    if (chain === undefined) {
      chain = policyChain(policy.direction, policy.policy);
      this.#chains.set(first, chain);
    }
    return `${chain}-${users?.get(first) ?? ''}`;
  }
}

export interface Renamed {
  readonly peers: Peers;
  readonly before: string | undefined;
  readonly after: string | undefined;
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

interface Compiled {
  readonly name: string;
  readonly families: Readonly<Record<Family, FamilyPeers>>;
}

/** What is different about sets that stay, as sets of these elements alone. */
export interface ElementChanges {
  readonly gone: readonly ElementSet[];
  readonly come: readonly ElementSet[];
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

/**
 * Peers that take over the sets of others, which had the same name: those are not to be used any more. It costs what is different, however
 * many peers there are.
 *
 * @returns undefined where it is not a matter of elements: sets come or go, or blocks are others. Nothing was done then.
 */
export function takeOver(before: Peers, after: Peers, name: string): ElementChanges | undefined {
  const known = compiled.get(before);
  if (known?.name !== name) return undefined;
  const [gone, come]: [ElementSet[], ElementSet[]] = [[], []];
  const edits: (() => void)[] = [];
  for (const family of families) {
    const change = addressesBetween(family, before[family], after[family]);
    if (change === undefined) return undefined;
    if (change.gone.size + change.come.size === 0) continue;
    const sets = known.families[family].sets.find(({ interval }) => !interval);
    const size = (sets?.elements.size ?? 0) - change.gone.size + change.come.size;
    if (sets === undefined || size === 0) return undefined;
    const elements = sets.elements as Map<string, string>;
    gone.push({ ...sets, elements: change.gone });
    come.push({ ...sets, elements: change.come });
    edits.push(() => {
      for (const address of change.gone.keys()) elements.delete(address);
      for (const address of change.come.keys()) elements.set(address, '');
    });
  }
  for (const edit of edits) edit();
  compiled.delete(before);
  compiled.set(after, known);
  return { gone, come };
}

type Addresses = Map<string, string>;

/** The engine keeps the ranges that are as they were. Undefined: blocks are different. */
function addressesBetween(
  family: Family,
  before: AddressSet,
  after: AddressSet,
): { readonly gone: Addresses; readonly come: Addresses } | undefined {
  let [start, endBefore, endAfter] = [0, before.length, after.length];
  while (start < endBefore && start < endAfter && before[start] === after[start]) start++;
  while (endBefore > start && endAfter > start && before[endBefore - 1] === after[endAfter - 1]) {
    endBefore--;
    endAfter--;
  }
  const [gone, come]: [Addresses, Addresses] = [new Map(), new Map()];
  for (const range of before.slice(start, endBefore)) {
    const row = addressesInRow(family, range);
    if (row === undefined) return undefined;
    for (const address of row) gone.set(address, '');
  }
  for (const range of after.slice(start, endAfter)) {
    const row = addressesInRow(family, range);
    if (row === undefined) return undefined;
    for (const address of row) if (!gone.delete(address)) come.set(address, '');
  }
  return { gone, come };
}

/** Whether the rules of a policy are the same, but for peers that have taken over the sets of others. */
export function isSameButFor(
  taken: ReadonlyMap<Peers, Peers>,
  before: PolicyRules | undefined,
  after: PolicyRules | undefined,
): boolean {
  if (before?.rules.length !== after?.rules.length) return false;
  return (after?.rules ?? []).every((rule, at) => {
    const old = before?.rules[at];
    if (old === rule) return true;
    if (old?.index !== rule.index || old.clauses.length !== rule.clauses.length) return false;
    return rule.clauses.every((clause, place) => {
      const was = old.clauses[place] as Clause;
      const samePeers =
        was.peers === clause.peers || (was.peers !== 'everyone' && taken.get(was.peers) === clause.peers);
      if (!samePeers) return false;
      if ('ports' in clause) return 'ports' in was && was.ports === clause.ports;
      return 'endpoints' in was && was.endpoints === clause.endpoints;
    });
  });
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
