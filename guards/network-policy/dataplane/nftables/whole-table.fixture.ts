/** All that the dataplane has in a kernel for the rules of a node. */
import type { NodeRules } from '../../engine/rules.ts';
import { defaultDataplaneOptions } from '../dataplane.ts';
import { compileBase, compileClass, compilePod, compilePodSets } from './compile.ts';
import { objectsOf, type TableObjects } from './objects.ts';
import { peerSets } from './peer-sets.ts';
import { PodClasses } from './pod-classes.ts';
import { compilePolicy } from './policies.ts';

export function wholeTable(rules: NodeRules): TableObjects {
  return objectsOf([
    ...compileBase(rules, defaultDataplaneOptions),
    ...compilePodSets(rules.pods.values()),
    ...[...rules.peers].flatMap(([key, peers]) => peerSets(key, peers)),
    ...[...rules.pods.values()].flatMap((pod) => compilePod(pod)),
    ...new PodClasses()
      .change([], rules.pods.values())
      .come.flatMap((of) => compileClass(of, defaultDataplaneOptions)),
    ...[...rules.policies.values()].flatMap((policy) => compilePolicy(policy, rules.peers)),
  ]);
}
