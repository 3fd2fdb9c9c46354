/** All that the dataplane has in a kernel for the rules of a node. */
import type { NodeRules } from '../../engine/rules.ts';
import { defaultDataplaneOptions } from '../dataplane.ts';
import { compileBase, compileMaps, compilePod, compilePolicy } from './compile.ts';
import { objectsOf, type TableObjects } from './objects.ts';
import { peerSets } from './peer-sets.ts';

export function wholeTable(rules: NodeRules): TableObjects {
  return objectsOf([
    ...compileBase(rules, defaultDataplaneOptions),
    ...compileMaps(rules.pods.values()),
    ...[...rules.peers].flatMap(([key, peers]) => peerSets(key, peers)),
    ...[...rules.pods.values()].flatMap((pod) => compilePod(pod, defaultDataplaneOptions)),
    ...[...rules.policies.values()].flatMap((policy) => compilePolicy(policy, rules.peers)),
  ]);
}
