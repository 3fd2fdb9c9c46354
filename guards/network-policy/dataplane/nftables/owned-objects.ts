/** The objects of the table, grouped by owner: a change of the rules concerns few owners. */
import type { LocalPod, NodeRules, PeersKey, PodKey } from '../../engine/rules.ts';
import { compilePod, compilePodSets } from './compile.ts';
import { objectsOf, type TableObjects } from './objects.ts';
import { peerSets } from './peer-sets.ts';
import type { PodClass } from './pod-classes.ts';
import { compilePolicy } from './policies.ts';

/**
 * Objects by owner: `base`, `class NAME`, `pod KEY`, or the key of a policy's rules or of peers, each with a
 * prefix of its own. The maps belong to all pods.
 */
export type Owned = Map<string, TableObjects>;

export function podOwner(pod: PodKey): string {
  return `pod ${pod}`;
}

export function classOwner({ name }: PodClass): string {
  return `class ${name}`;
}

export function podObjects(rules: NodeRules, key: PodKey): TableObjects {
  const pod = rules.pods.get(key);
  return objectsOf(pod === undefined ? [] : compilePod(pod));
}

export function policyObjects(rules: NodeRules, key: string): TableObjects {
  const policy = rules.policies.get(key);
  return objectsOf(policy === undefined ? [] : compilePolicy(policy, rules.peers));
}

export function peersObjects(rules: NodeRules, key: PeersKey): TableObjects {
  const peers = rules.peers.get(key);
  return objectsOf(peers === undefined ? [] : peerSets(key, peers));
}

/** The maps, restricted to these pods: an address belongs to one pod. */
export function mapObjects(pods: NodeRules['pods'], keys: Iterable<PodKey> = pods.keys()): TableObjects {
  return objectsOf(compilePodSets(podsOf(pods, keys)));
}

export function podsOf(pods: NodeRules['pods'], keys: Iterable<PodKey>): LocalPod[] {
  return [...keys].flatMap((key) => pods.get(key) ?? []);
}

export const nothing: TableObjects = new Map();

export function flat(owned: Iterable<TableObjects>, maps: TableObjects): TableObjects {
  return new Map([...owned, maps].flatMap((objects) => [...objects]));
}
