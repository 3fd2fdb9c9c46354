/** The guard's part in the operator, once per cluster. */
import type { GuardContext } from '../../../guard/context.ts';
import { deleteObjectsOfGoneNodes } from '../../../guard/gone-nodes.ts';
import type { ClusterPart } from '../../../guard/guard.ts';
import { nodeFacts } from '../../../lib/kube/object/facts.ts';
import type { IndexedCache } from '../../../lib/kube/cache/indexed-cache.ts';
import { nodes } from '../../../lib/kube/object/object.ts';
import { whenSynced } from '../../../lib/kube/controller/run-parts.ts';
import { allNodeTypes, configType, parentKinds } from '../api.ts';
import { nodeObjectQuery, parentQuery } from '../caches.ts';
import { isNodeFinalizer } from '../engine/names.ts';
import { nodeOf } from '../engine/parent-condition.ts';
import { runConfigController } from './config-controller.ts';
import { runParentController } from './parent-controller.ts';

/** Maintains users' objects while this process holds the lease; runs until the signal aborts. */
export const bpfProgramsCluster: ClusterPart = (context) => context.lead(work);

/** The work of one term; runs until the term ends. */
async function work(context: GuardContext): Promise<void> {
  const { client, signal, logger } = context;
  const parents = parentKinds.map((kind) => ({ kind, cache: context.cache(parentQuery(kind)) }));
  using _listed = context.health.ready('programs', () => {
    const missing = parents.filter(({ cache }) => !cache.isSynced).map(({ kind }) => kind.kind);
    return missing.length === 0 ? undefined : `not listed yet: ${missing.join(', ')}`;
  });
  const objects = allNodeTypes.map((type) => context.cache(nodeObjectQuery(type), type.plural));
  const configs = context.cache({ type: configType }, 'configs');
  const allNodes = context.cache({ type: nodes, projection: nodeFacts }, 'nodes');
  const caches: readonly Pick<IndexedCache<never>, 'synced'>[] = [
    ...parents.map(({ cache }) => cache),
    ...objects,
    ...[configs, allNodes],
  ];
  const metrics = context.metrics?.controllers;
  const common = { client, nodes: allNodes, signal, logger, metrics };
  const kinds = objects.map((cache) => ({ cache, nodeOf, isHold: isNodeFinalizer }));
  await whenSynced(caches, signal, async () => {
    await Promise.all([
      runParentController({ ...common, parents, objects }),
      runConfigController({ ...common, configs }),
      deleteObjectsOfGoneNodes({ ...common, name: 'bpf-programs-gone-nodes', kinds }),
    ]);
  });
}
