/** The peers of a rule, parsed. */
import { type LabelSelector, labelSelectorText } from '../../../lib/kube/selectors/selectors.ts';
import { rangesOf, union, without } from './address-sets.ts';
import { type Block, type Interval, parseBlock } from './addresses.ts';
import { exactList } from './exact-list.ts';
import type { BlockObject, PeerObject } from './objects.ts';
import { parseSelector, type Refuse, type Warn } from './parsed-selector.ts';
import type { ByFamily, Family, PeersKey } from './rules.ts';

/** Pods by their labels, in one namespace or in those with certain labels. */
export interface PodScope {
  readonly namespaces: string | LabelSelector;
  readonly pods: LabelSelector;
}

/** All peers of one rule together. */
export interface Peers {
  /** Equal for equal peers, so that rules share the state that is held for them. */
  readonly key: PeersKey;
  readonly scopes: readonly PodScope[];
  /** In the form of `union`, without the blocks in `except`. */
  readonly blocks: ByFamily<readonly Interval[]>;
}

/** A rule without peers allows everyone; one with only malformed peers allows no one. */
export function parsePeers(
  peers: readonly PeerObject[],
  namespace: string,
  path: string,
  refuse: Refuse,
  warn: Warn,
): 'everyone' | Peers {
  if (peers.length === 0) return 'everyone';
  const scopes: PodScope[] = [];
  const blocks: Record<Family, Interval[]> = { 4: [], 6: [] };
  for (const [index, peer] of peers.entries()) {
    const at = `${path}[${index}]`;
    const { podSelector, namespaceSelector, ipBlock } = peer;
    const bySelector = (podSelector ?? namespaceSelector ?? undefined) !== undefined;
    if (ipBlock !== undefined && ipBlock !== null) {
      if (bySelector) refuse(at, `ipBlock cannot be combined with a selector: ${consequence}.`);
      else addBlock(ipBlock, `${at}.ipBlock`, blocks, { refuse, warn });
    } else if (bySelector) {
      const scope = parseScope(peer, namespace, at, refuse);
      if (scope !== undefined) scopes.push(scope);
    } else refuse(at, `Neither a selector nor an ipBlock is given: ${consequence}.`);
  }
  const joined = { 4: exactList(union(blocks[4])), 6: exactList(union(blocks[6])) };
  return { key: keyOf(scopes, joined), scopes: exactList(scopes), blocks: joined };
}

/** Whether all peers are malformed, so that nothing matches. */
export function isNobody({ scopes, blocks }: Peers): boolean {
  return scopes.length === 0 && !hasBlocks(blocks);
}

/**
 * The pods and the blocks, each as peers of their own. Rules that select the same pods then share them, whatever blocks they allow besides: a pod that
 * comes or goes changes one set, not one for each list of blocks.
 */
export function partsOf(peers: Peers): readonly Peers[] {
  const { scopes, blocks } = peers;
  if (scopes.length === 0 || !hasBlocks(blocks)) return isNobody(peers) ? [] : [peers];
  return [
    { key: keyOf(scopes, noBlocks), scopes, blocks: noBlocks },
    { key: keyOf([], blocks), scopes: [], blocks },
  ];
}

const noBlocks: Peers['blocks'] = { 4: [], 6: [] };

export function hasBlocks(blocks: Peers['blocks']): boolean {
  return blocks[4].length > 0 || blocks[6].length > 0;
}

const consequence = 'the peer allows nothing';

function parseScope(
  { podSelector, namespaceSelector }: PeerObject,
  namespace: string,
  path: string,
  refuse: Refuse,
): PodScope | undefined {
  const pods = parseSelector(podSelector ?? {}, `${path}.podSelector`, refuse, consequence);
  const namespaces =
    namespaceSelector === undefined || namespaceSelector === null
      ? namespace
      : parseSelector(namespaceSelector, `${path}.namespaceSelector`, refuse, consequence);
  return pods === undefined || namespaces === undefined ? undefined : { namespaces, pods };
}

function addBlock(
  { cidr, except }: BlockObject,
  path: string,
  blocks: Record<Family, Interval[]>,
  { refuse, warn }: { readonly refuse: Refuse; readonly warn: Warn },
): void {
  const block = parseBlock(cidr);
  if (typeof block === 'string') {
    refuse(`${path}.cidr`, `${JSON.stringify(cidr)} ${block}: ${consequence}.`);
    return;
  }
  reportReading(block, cidr, `${path}.cidr`, warn);
  const holes: Block[] = [];
  let problem = false;
  for (const [index, text] of (except ?? []).entries()) {
    const hole = parseBlock(text);
    const why = typeof hole === 'string' ? hole : isWithin(hole, block) ? undefined : `is not within ${cidr}`;
    if (typeof hole !== 'string' && why === undefined) {
      reportReading(hole, text, `${path}.except[${index}]`, warn);
      holes.push(hole);
    } else {
      problem = true;
      refuse(`${path}.except[${index}]`, `${JSON.stringify(text)} ${why}: ${consequence}.`);
    }
  }
  if (!problem) blocks[block.family].push(...without(block, holes));
}

function reportReading({ readAs }: Block, text: string, field: string, warn: Warn): void {
  if (readAs === undefined) return;
  warn(field, `${JSON.stringify(text)} ${readAs.why}; it is read as ${readAs.block}.`);
}

function isWithin(inner: Block, outer: Block): boolean {
  const sameSize = inner.low === outer.low && inner.high === outer.high;
  return inner.family === outer.family && inner.low >= outer.low && inner.high <= outer.high && !sameSize;
}

function keyOf(scopes: readonly PodScope[], blocks: Peers['blocks']): PeersKey {
  const texts = scopes.map(({ namespaces, pods }) => [
    typeof namespaces === 'string' ? `in ${namespaces}` : `by ${labelSelectorText(namespaces)}`,
    labelSelectorText(pods),
  ]);
  return JSON.stringify([texts, rangesOf(4, blocks[4]), rangesOf(6, blocks[6])]) as PeersKey;
}
