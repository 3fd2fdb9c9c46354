/** The API objects that the agent and the operator cache for this guard. */
import type { CacheQuery } from '../../lib/kube/cache/shared-caches.ts';
import type { ResourceType } from '../../lib/kube/object/object.ts';
import type { NodeObject, ParentKind, ParentObject } from './api.ts';
import { nodeOf } from './engine/parent-condition.ts';

/** Maximum number of parsed objects kept: few objects are read twice between two changes. */
const FEW = 64;

export function parentQuery({ type }: ParentKind): CacheQuery<ParentObject> {
  return { type, parsedLimit: FEW };
}

/** Has the indexes `owner`, the uid of the user's object, and `node`, the value of the node label. */
export function nodeObjectQuery(
  type: ResourceType<NodeObject>,
  labelSelector?: string,
): CacheQuery<NodeObject> {
  return {
    type,
    labelSelector,
    indexes: { owner: ownerOf, node: nodesOf },
    parsedLimit: FEW,
  };
}

// Defined once: callers share a cache only if they pass the same functions.
const nodesOf = (object: NodeObject): string[] => [nodeOf(object)];

function ownerOf({ metadata }: NodeObject): string[] {
  return (metadata.ownerReferences ?? []).flatMap(({ controller, uid }) =>
    controller === true ? [uid] : [],
  );
}
