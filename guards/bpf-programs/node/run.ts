/** The guard's part on a node: keeps the programs in the kernel as the objects specify, and reports the outcome of each. */
import { join } from 'node:path';

import type { NodeContext } from '../../../guard/context.ts';
import type { NodePart } from '../../../guard/guard.ts';
import { nodeFacts, podFacts } from '../../../lib/kube/object/facts.ts';
import { nodes, pods } from '../../../lib/kube/object/object.ts';
import { whenSynced } from '../../../lib/kube/controller/run-parts.ts';
import { allNodeTypes, parentKinds } from '../api.ts';
import { nodeObjectQuery, parentQuery } from '../caches.ts';
import type { CsiDriver } from '../csi/run.ts';
import { ofNode } from '../engine/names.ts';
import type { Registry } from '../../../lib/oci/registry.ts';
import type { BpfProgramsOptions } from '../options.ts';
import type { PullBytecode } from './bytecode.ts';
import { BytecodeVerification } from './bytecode-verification.ts';
import { openLockedHost, pinDirectory, programsDirectory } from './locked-host.ts';
import { NodeCounts, registerNodeMetrics } from './metrics.ts';
import { type NodeCaches, Passes, type PassesOptions } from './passes.ts';

/** Runs the part with the kernel of this node, and with images from registries. */
export const bpfProgramsNode: NodePart<BpfProgramsOptions> = async (context, options) => {
  const { logger, client, directory, hostRoot } = context;
  await using stack = new AsyncDisposableStack();
  const { bpfVerificationConfig: config } = options;
  const verification = config === undefined ? undefined : new BytecodeVerification(config);
  let registry: Promise<Registry> | undefined;
  // If no image is used, neither the cache nor the modules for images are loaded.
  const pull: PullBytecode = async (...args) => {
    const { imagePuller } = await import('./image-bytecode.ts');
    const { openBytecodeRegistry } = await import('./bytecode-registry.ts');
    registry ??= openBytecodeRegistry(join(directory, 'images'), options, logger).then((opened) =>
      stack.use(opened),
    );
    registry.catch(() => (registry = undefined));
    return await imagePuller({ registry: await registry, client, verification })(...args);
  };
  const csi = options.csi && (await csiDriver(context, options, options.csi));
  const stop = new AbortController();
  // This promise does not reject.
  const serving = csi?.run(AbortSignal.any([context.signal, stop.signal]));
  stack.defer(async () => {
    stop.abort();
    await serving;
  });
  await runBpfProgramsNode(context, {
    openHost: (_signal, onTargetChange) =>
      openLockedHost(
        {
          ...{ bpffs: options.bpffs, stateDirectory: options.bpfState, hostRoot },
          ...{ tenants: options.tenants, onTargetChange },
        },
        logger,
      ),
    ...{ pull, verification, csi },
  });
};

/** Loaded on demand: most agents serve no volumes. */
async function csiDriver(
  { nodeName, version, logger }: NodeContext,
  { bpffs, bpfState }: BpfProgramsOptions,
  csi: NonNullable<BpfProgramsOptions['csi']>,
): Promise<CsiDriver> {
  const { CsiDriver } = await import('../csi/run.ts');
  return new CsiDriver({
    ...csi,
    ...{ nodeName, version, logger },
    place: { bpffs, name: pinDirectory, stateDirectory: programsDirectory(bpfState) },
    directory: join(bpfState, 'volumes'),
    mountNamespacePath: '/proc/1/ns/mnt',
  });
}

/** Runs until the signal aborts. The programs stay in the kernel afterwards, and also while the API is unavailable. */
export async function runBpfProgramsNode(context: NodeContext, options: PassesOptions): Promise<void> {
  const { signal, metrics, health } = context;
  const counts = new NodeCounts();
  counts.csi = options.csi;
  if (metrics !== undefined) registerNodeMetrics(metrics.metrics, counts);
  const caches = openCaches(context);
  const { parents, pods: allPods, node, objects } = caches;
  let passes: Passes | undefined;
  using _programs = health.ready('programs', () =>
    passes === undefined ? 'the kernel has not been read yet' : passes.problem,
  );
  using _listed = health.ready('programs-listed', () => {
    const missing = parents.filter(({ cache }) => !cache.isSynced).map(({ kind }) => kind.kind);
    return missing.length === 0 ? undefined : `not listed yet: ${missing.join(', ')}`;
  });
  using _csi = health.ready('csi', () => options.csi?.problem);
  const awaited = [...parents.map(({ cache }) => cache), ...objects, allPods, node];
  await whenSynced(awaited, signal, async () => {
    await using made = (passes = new Passes(context, options, caches, counts));
    await made.run();
  });
}

function openCaches(context: NodeContext): NodeCaches {
  const { nodeName } = context;
  return {
    parents: parentKinds.map((kind) => ({ kind, cache: context.cache(parentQuery(kind)) })),
    pods: context.cache(
      { type: pods, projection: podFacts, fieldSelector: `spec.nodeName=${nodeName}` },
      'pods',
    ),
    node: context.cache(
      { type: nodes, projection: nodeFacts, fieldSelector: `metadata.name=${nodeName}`, parsedLimit: 1 },
      'node',
    ),
    objects: allNodeTypes.map((type) => context.cache(nodeObjectQuery(type, ofNode(nodeName)), type.plural)),
  };
}
