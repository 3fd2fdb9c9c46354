/**
 * What the agent runs for this guard on a node: it keeps the programs in the kernel as the objects say, and tells what became of
 * each.
 *
 * @module
 */
import type { NodeContext } from '../../shared/guard/context.ts';
import { nodeFacts, podFacts } from '../../shared/kube/facts.ts';
import type { CacheChange, IndexedCache } from '../../shared/kube/indexed-cache.ts';
import { nodes, pods } from '../../shared/kube/object.ts';
import { whenSynced } from '../../shared/kube/run-parts.ts';
import type { Labels } from '../../shared/kube/selectors.ts';
import { AttachmentChanges } from '../../shared/netlink/attachment-changes.ts';
import type { Logger } from '../../shared/observe/log.ts';
import { Backoff } from '../../shared/time/backoff.ts';
import { sleep, systemClock } from '../../shared/time/clock.ts';
import { parentKinds, type ParentObject } from './api.ts';
import { nodeObjectQuery, parentQuery } from './caches.ts';
import { labels, labelValue } from './engine/names.ts';
import { type Parent, parentOf } from './engine/parent.ts';
import type { ProgramHost } from './kernel/desired.ts';
import { BytecodeSource, type PullBytecode } from './node/bytecode.ts';
import { NodeCounts, registerNodeMetrics } from './node/metrics.ts';
import { NodeObjects } from './node/node-objects.ts';
import { primaryInterface } from './node/primary-interface.ts';
import { Reconciler } from './node/reconciler.ts';
import { selectContainers } from './node/selected-containers.ts';

export interface BpfProgramsNodeOptions {
  /** Opens the programs of this node's kernel; asked again where it fails. */
  readonly openHost: (signal: AbortSignal) => Promise<ProgramHost>;
  readonly pull: PullBytecode;
  /** Default: `/proc/net`. */
  readonly procNet?: string;
}

/** What comes together is done together. */
const SETTLE_MS = 5;
/** How often the kernel is compared with what was applied, and files and routes are looked at: none of them gives notice. */
const LOOK_MS = 5_000;
/** Interfaces come and go in numbers, with pods. */
const INTERFACES_SETTLE_MS = 100;
/** An interface that was missing is there a second later at most. */
const RETRY = { baseMs: 500, maxMs: 1_000 };

/** Whether something else is asked for: the finalizer and the condition, which the operator writes, say nothing to a node. */
function isAskedAnew({ type, object, previous }: CacheChange<ParentObject>): boolean {
  if (type !== 'modified' || previous === undefined) return true;
  const asked = ({ metadata: { uid, generation, deletionTimestamp } }: ParentObject): string =>
    JSON.stringify([uid, generation, deletionTimestamp]);
  return asked(object) !== asked(previous);
}

/** Notice of what happens to interfaces of the node; without it, they are looked at on a timer alone. */
function followAttachments(logger: Logger, onChange: () => void): Disposable {
  const stack = new DisposableStack();
  let timer: NodeJS.Timeout | undefined;
  try {
    stack.use(
      new AttachmentChanges(() => {
        timer ??= setTimeout(() => {
          timer = undefined;
          onChange();
        }, INTERFACES_SETTLE_MS).unref();
      }),
    );
  } catch (error) {
    logger.warn({ err: error }, `no notifications of network interfaces; polling every ${LOOK_MS} ms`);
  }
  stack.defer(() => clearTimeout(timer));
  return stack;
}

/** Until the signal aborts. The programs stay in the kernel then, and while the API is away. */
export async function runBpfProgramsNode(
  context: NodeContext,
  options: BpfProgramsNodeOptions,
): Promise<void> {
  const { client, nodeName, signal, logger, metrics, health, hostRoot, containers } = context;
  const counts = new NodeCounts();
  if (metrics !== undefined) registerNodeMetrics(metrics.metrics, counts);
  await using stack = new AsyncDisposableStack();
  let problem: string | undefined = 'the kernel has not been read yet';
  stack.use(health.ready('programs', () => problem));

  const parents = parentKinds.map((kind) => ({ kind, cache: context.cache(parentQuery(kind)) }));
  const allPods = context.cache(
    { type: pods, projection: podFacts, fieldSelector: `spec.nodeName=${nodeName}` },
    'pods',
  );
  const node = context.cache(
    { type: nodes, projection: nodeFacts, fieldSelector: `metadata.name=${nodeName}`, parsedLimit: 1 },
    'node',
  );
  const selector = `${labels.hostname}=${labelValue(nodeName)}`;
  const objects = {
    Cluster: context.cache(nodeObjectQuery('Cluster', selector), 'bpfprograms'),
    Namespaced: context.cache(nodeObjectQuery('Namespaced', selector), 'bpfnsprograms'),
  };
  stack.use(
    health.ready('programs-listed', () => {
      const missing = parents.filter(({ cache }) => !cache.isSynced).map(({ kind }) => kind.kind);
      return missing.length === 0 ? undefined : `not listed yet: ${missing.join(', ')}`;
    }),
  );

  let changed = Promise.withResolvers<void>();
  const wake = (): void => changed.resolve();
  signal.addEventListener('abort', wake, { once: true });
  const caches: readonly Pick<IndexedCache<never>, 'synced'>[] = [
    ...parents.map(({ cache }) => cache),
    ...Object.values(objects),
    ...[allPods, node],
  ];
  let containersKnown = false;
  void containers.synced.then(() => {
    containersKnown = true;
    wake();
  });

  await whenSynced(caches, signal, async () => {
    const written = stack.use(new NodeObjects({ client, caches: objects, logger }));
    for (const { cache } of parents) {
      stack.use(
        cache.subscribe((change) => {
          if (isAskedAnew(change)) wake();
        }),
      );
    }
    for (const cache of Object.values(objects)) {
      stack.use(
        cache.subscribe((change) => {
          // What was written here needs no further look.
          if (!written.isOwn(change)) wake();
        }),
      );
    }
    stack.use(allPods.subscribe(wake));
    stack.use(node.subscribe(wake));
    stack.use(containers.subscribe(wake));
    const bytecode = stack.use(
      new BytecodeSource({ hostRoot, pull: options.pull, onChange: wake, signal, logger }),
    );
    let host: ProgramHost | undefined;
    stack.defer(async () => host?.[Symbol.asyncDispose]());
    const reconciler = new Reconciler({
      host: async () => (host ??= await options.openHost(signal)),
      bytecode,
      logger,
    });
    let verifiedAtMs = systemClock.monotonicMs();
    stack.use(
      followAttachments(logger, () => {
        verifiedAtMs = -Infinity;
        wake();
      }),
    );
    const compiled = new Map<string, { readonly version: string; readonly parent: Parent }>();
    const backoff = new Backoff(RETRY);
    while (!signal.aborted) {
      changed = Promise.withResolvers();
      let wait = LOOK_MS;
      try {
        if (host !== undefined && systemClock.monotonicMs() - verifiedAtMs >= LOOK_MS) {
          verifiedAtMs = systemClock.monotonicMs();
          const drift = await host.verify(signal);
          counts.driftRepaired += drift.length;
          if (drift.length > 0) logger.warn({ drift }, 'the kernel state was changed; repairing');
        }
        const result = await reconciler.pass(
          {
            parents: compile(),
            nodeLabels: nodeLabels(),
            node: {
              name: nodeName,
              primaryInterface: primaryInterface(options.procNet),
              select: (parent, of) => selectContainers({ containers, pods: allPods }, parent, of),
            },
            containersKnown,
          },
          signal,
        );
        const isWritten =
          result === undefined ? false : await written.write(result.told, result.kept, signal);
        counts.passes++;
        if (result !== undefined) {
          [counts.loaded, counts.failed] = [result.loaded, result.failed];
          problem = result.told.length > 0 ? result.kept : undefined;
        } else problem = 'the container runtime has not responded yet';
        if (result?.retry === false && isWritten) backoff.reset();
        else wait = backoff.nextMs();
      } catch (error) {
        if (signal.aborted) return;
        problem = error instanceof Error ? error.message : String(error);
        counts.failedPasses++;
        logger.error({ err: error }, 'could not apply the desired state, retrying');
        wait = backoff.nextMs();
      }
      const pause = new AbortController();
      const due = sleep(
        systemClock,
        Math.min(wait, Math.max(bytecode.dueInMs, SETTLE_MS)),
        AbortSignal.any([signal, pause.signal]),
      ).catch(() => undefined);
      await Promise.race([due, changed.promise]);
      pause.abort();
      await sleep(systemClock, SETTLE_MS, signal).catch(() => undefined);
    }

    /** Each parent is read again only where it has changed. */
    function compile(): Parent[] {
      const seen = new Set<string>();
      const all = parents.flatMap(({ kind, cache }) =>
        [...cache.keys()].map((key): Parent => {
          const id = `${kind.kind}/${key}`;
          seen.add(id);
          const version = cache.versionOf(key) ?? '';
          const known = compiled.get(id);
          if (known?.version === version) return known.parent;
          const object = cache.get(key);
          if (object === undefined) throw new TypeError(`${id} is not in its cache`);
          const parent = parentOf(kind, object);
          compiled.set(id, { version, parent });
          return parent;
        }),
      );
      for (const id of compiled.keys()) if (!seen.has(id)) compiled.delete(id);
      return all;
    }

    function nodeLabels(): Labels {
      return node.get(nodeName)?.metadata.labels ?? { [labels.hostname]: nodeName };
    }
  });
}
