/** The passes of a node: each compares everything that is requested with the kernel, applies the difference, and reports the outcome. */
import type { NodeContext } from '../../../guard/context.ts';
import type { CacheChange, IndexedCache } from '../../../lib/kube/cache/indexed-cache.ts';
import type { Node, Pod } from '../../../lib/kube/object/object.ts';
import { followAttachmentChanges } from '../kernel/attachment-changes.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import { Backoff } from '../../../lib/time/backoff.ts';
import { sleep, systemClock } from '../../../lib/time/clock.ts';
import { isOfKind, type NodeObject, type ParentKind, type ParentObject } from '../api.ts';
import type { CsiDriver } from '../csi/run.ts';
import { labels } from '../engine/names.ts';
import { type Parent, parentOf } from '../engine/parent.ts';
import type { PrimaryInterface } from '../engine/node-view.ts';
import type { Drift, ProgramHost } from '../kernel/desired.ts';
import { BytecodeSource, type BytecodeOptions } from './bytecode.ts';
import type { NodeCounts } from './metrics.ts';
import { NodeObjects } from './node-objects.ts';
import { primaryInterface } from './primary-interface.ts';
import { ProgramFindings } from './program-findings.ts';
import { Reconciler } from './reconciler.ts';
import { interfacesIn, networksOf } from './networks.ts';
import { selectContainers } from './selected-containers.ts';
import { messageOf } from '../../../lib/errors/errors.ts';

/** Changes within this time are handled together. */
const SETTLE_MS = 5;
/** How often the kernel is compared with what was applied, and files and routes are checked: none of these sends notifications. */
const LOOK_MS = 5_000;
/** Interfaces appear and disappear in bulk, with pods. */
const INTERFACES_SETTLE_MS = 100;
/** With this backoff, a missing interface is noticed within a second of its creation. */
const RETRY = { baseMs: 500, maxMs: 1_000 };

type ParentCaches = readonly { readonly kind: ParentKind; readonly cache: IndexedCache<ParentObject> }[];

export interface PassesOptions extends Pick<BytecodeOptions, 'pull' | 'verification'> {
  /** Opens access to the programs in this node's kernel; called again after a failure. */
  readonly openHost: (signal: AbortSignal, onTargetChange: () => void) => Promise<ProgramHost>;
  /** Undefined if this node serves no volumes. */
  readonly csi?: Pick<CsiDriver, 'failures' | 'mounted' | 'problem' | 'refresh'> | undefined;
}

export interface NodeCaches {
  readonly parents: ParentCaches;
  readonly pods: IndexedCache<Pod>;
  readonly node: IndexedCache<Node>;
  readonly objects: readonly IndexedCache<NodeObject>[];
}

/** Whether what a user requests has changed: the finalizer and the condition, which the operator writes, do not matter on a node. */
function isAskedAnew({ type, object, previous }: CacheChange<ParentObject>): boolean {
  if (type !== 'modified' || previous === undefined) return true;
  const asked = ({ metadata: { uid, generation, deletionTimestamp } }: ParentObject): string =>
    JSON.stringify([uid, generation, deletionTimestamp]);
  return asked(object) !== asked(previous);
}

/** Calls `onChange` when the kernel reports a change of the node's interfaces; if that is not possible, they are only polled. */
function followAttachments(logger: Logger, onChange: () => void): Disposable {
  const stack = new DisposableStack();
  let timer: NodeJS.Timeout | undefined;
  try {
    stack.use(
      followAttachmentChanges(() => {
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

/** Returns the users' objects in compiled form; an object is compiled again only if it has changed. */
function compiledParents(caches: ParentCaches): () => Parent[] {
  const compiled = new Map<string, { readonly version: string; readonly parent: Parent }>();

  return (): Parent[] => {
    const seen = new Set<string>();
    const all = caches.flatMap(({ kind, cache }) =>
      [...cache.keys()].flatMap((key): Parent[] => {
        if (!isOfKind(kind, key)) return [];
        const id = `${kind.kind}/${key}`;
        seen.add(id);
        const version = cache.versionOf(key) ?? '';
        const known = compiled.get(id);
        if (known?.version === version) return [known.parent];
        const object = cache.get(key);
        if (object === undefined) throw new TypeError(`${id} is not in its cache`);
        const parent = parentOf(kind, object);
        compiled.set(id, { version, parent });
        return [parent];
      }),
    );
    for (const id of compiled.keys()) if (!seen.has(id)) compiled.delete(id);
    return all;
  };
}

/** One instance for each node. Disposing of it leaves the programs in the kernel. */
export class Passes implements AsyncDisposable {
  readonly #context: NodeContext;
  readonly #options: PassesOptions;
  readonly #caches: NodeCaches;
  readonly #counts: NodeCounts;
  readonly #written: NodeObjects;
  readonly #findings: ProgramFindings;
  readonly #parents: () => Parent[];
  readonly #wake = (): void => this.#changed.resolve();
  #changed = Promise.withResolvers<void>();
  #containersKnown = false;
  #host: ProgramHost | undefined;
  /** Changes made by others that no pass has repaired yet. */
  #drift: Drift[] = [];
  #verifiedAtMs = systemClock.monotonicMs();
  #problem: string | undefined = 'the kernel has not been read yet';

  constructor(context: NodeContext, options: PassesOptions, caches: NodeCaches, counts: NodeCounts) {
    this.#context = context;
    this.#options = options;
    this.#caches = caches;
    this.#counts = counts;
    this.#parents = compiledParents(caches.parents);
    const { client, logger, nodeName } = context;
    this.#findings = new ProgramFindings({ context, recorder: context.recorder() });
    counts.folded = () => this.#findings.folded;
    this.#written = new NodeObjects({
      ...{ client, nodeName, logger },
      ...{ caches: caches.objects, findings: this.#findings },
    });
    void context.containers.synced.then(() => {
      this.#containersKnown = true;
      this.#wake();
    });
  }

  /** Why the node is not in the requested state, or why its state is unknown; undefined if it is. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** Runs until the signal aborts. */
  async run(): Promise<void> {
    const { hostRoot, signal, logger } = this.#context;
    const { pull, verification, openHost } = this.#options;
    using bytecode = new BytecodeSource({
      ...{ hostRoot, pull, verification, signal, logger },
      onChange: this.#wake,
    });
    const host = async (): Promise<ProgramHost> => (this.#host ??= await openHost(signal, this.#wake));
    const reconciler = new Reconciler({ host, bytecode, logger });
    using _listening = this.#listen();
    const backoff = new Backoff(RETRY);
    while (!signal.aborted) {
      this.#changed = Promise.withResolvers();
      let wait = LOOK_MS;
      try {
        if (await this.#pass(reconciler)) backoff.reset();
        else wait = backoff.nextMs();
      } catch (error) {
        if (signal.aborted) return;
        this.#problem = messageOf(error);
        this.#counts.failedPasses++;
        logger.error({ err: error }, 'cannot apply the desired state, retrying');
        wait = backoff.nextMs();
      }
      const pause = new AbortController();
      const dueMs = Math.min(wait, Math.max(bytecode.dueInMs, SETTLE_MS));
      const due = sleep(systemClock, dueMs, AbortSignal.any([signal, pause.signal])).catch(() => undefined);
      await Promise.race([due, this.#changed.promise]);
      pause.abort();
      await sleep(systemClock, SETTLE_MS, signal).catch(() => undefined);
    }
  }

  #listen(): Disposable {
    const { signal, containers, logger } = this.#context;
    const { parents, objects, pods, node } = this.#caches;
    const stack = new DisposableStack();
    signal.addEventListener('abort', this.#wake, { once: true });
    for (const { cache } of parents) {
      stack.use(
        cache.subscribe((change) => {
          if (isAskedAnew(change)) this.#wake();
        }),
      );
    }
    for (const cache of objects) {
      stack.use(
        cache.subscribe((change) => {
          // This process's own writes need no pass.
          if (!this.#written.isOwn(change)) this.#wake();
        }),
      );
    }
    for (const source of [pods, node, containers]) stack.use(source.subscribe(this.#wake));
    stack.use(
      followAttachments(logger, () => {
        this.#verifiedAtMs = -Infinity;
        this.#wake();
      }),
    );
    return stack;
  }

  /** One pass. Returns whether everything was done; otherwise, retry soon. */
  async #pass(reconciler: Reconciler): Promise<boolean> {
    const { nodeName, signal, containers, hostRoot } = this.#context;
    for (const drift of await this.#lookForDrift())
      if (!this.#drift.some(({ what }) => what === drift.what)) this.#drift.push(drift);
    const { node, pods } = this.#caches;
    // Determined on demand: few objects need it, and reading routes and addresses takes long on a node with many pods.
    let primary: { readonly found: PrimaryInterface | undefined } | undefined;
    const result = await reconciler.pass(
      {
        parents: this.#parents(),
        nodeLabels: node.get(nodeName)?.metadata.labels ?? { [labels.hostname]: nodeName },
        node: {
          name: nodeName,
          primaryInterface: () => (primary ??= { found: primaryInterface(node.get(nodeName)) }).found,
          networks: () => networksOf(hostRoot),
          interfacesIn,
          select: (parent, of) => selectContainers({ containers, pods }, parent, of),
        },
        containersKnown: this.#containersKnown,
      },
      signal,
    );
    if (result !== undefined && result.kept === undefined) {
      this.#options.csi?.refresh();
      this.#findings.repaired(this.#drift, result.reported);
      this.#drift = [];
    }
    const isWritten =
      result !== undefined && (await this.#written.write(result.reported, result.kept, signal));
    this.#counts.passes++;
    this.#counts.lastPassMs = systemClock.wallMs();
    if (result === undefined) {
      this.#problem = 'the container runtime has not responded yet';
      return false;
    }
    const { loaded, failed, outdated } = result;
    Object.assign(this.#counts, { loaded, failed, outdated });
    this.#problem = result.reported.length > 0 ? result.kept : undefined;
    return !result.retry && isWritten;
  }

  async #lookForDrift(): Promise<readonly Drift[]> {
    const { signal, logger } = this.#context;
    if (this.#host === undefined || systemClock.monotonicMs() - this.#verifiedAtMs < LOOK_MS) return [];
    this.#verifiedAtMs = systemClock.monotonicMs();
    const drift = await this.#host.verify(signal);
    this.#counts.driftRepaired += drift.length;
    if (drift.length > 0) logger.warn({ drift }, 'the kernel state was changed; repairing');
    return drift;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#host?.[Symbol.asyncDispose]();
    this.#written[Symbol.dispose]();
  }
}
