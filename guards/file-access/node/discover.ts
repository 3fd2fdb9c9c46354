/**
 * Finds the files of the policies in the containers of this node and on the node itself, and writes them as KiveData.
 * There is one on every node.
 *
 * Two steps for each container, so that none waits for another and neither waits for the API:
 *
 * - looking: determines its traps and their current files, at once after any change of policies, pods, containers or
 *   files. Found files can be watched from then on, see {@link Discovery.found}.
 * - writing: writes the difference to the KiveData in the API, and retries until it succeeds.
 */
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { done, requeueAfter, type Result } from '../../../lib/kube/controller/controller.ts';
import { isDeleting } from '../../../lib/kube/controller/finalizers.ts';
import type { CacheChange, IndexedCache } from '../../../lib/kube/cache/indexed-cache.ts';
import type { WorkQueue } from '../../../lib/kube/controller/workqueue.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import { type AlertedFile, alertedOfFound } from '../alert/alerted-file.ts';
import type { KiveData, KivePolicy } from '../api.ts';
import { isPod } from '../../../lib/kube/object/facts.ts';
import type { Pod } from '../../../lib/kube/object/object.ts';
import { containerIdOf, placeOf } from '../caches.ts';
import type { ContainerSource, SourceContainer } from '../../../lib/cri/container-source.ts';
import { type FileEvent, writeChanges } from './data-writer.ts';
import { desiredData, diffData, isOver } from './desired.ts';
import {
  type FoundFile,
  type FoundOn,
  hostId,
  type NodeContainer,
  nodeItself,
  nodeOf,
} from '../kive-data.ts';
import {
  changedNames,
  changedPolicies,
  lookAgain,
  type Looked,
  type MatchedTrap,
  nothing,
  samePod,
} from './looked.ts';
import { type CompiledPolicy, type CompiledTrap, compilePolicy, TrapIndex } from '../policy/matching.ts';
import type { PolicyScope } from '../policy/policy-scope.ts';
import { TouchedKeys } from './touched-keys.ts';
import type { FollowedFiles, FollowedTrap } from './trap-files.ts';

export interface DiscoveryOptions {
  readonly client: KubeClient;
  readonly on: FoundOn;
  readonly containers: ContainerSource;
  /**
   * Whether the container runtime has reported its containers; {@link Discovery.containersKnown} is called then.
   * Before, it is unknown which containers exist.
   */
  readonly knowsContainers: () => boolean;
  /** The root directory of the node itself. */
  readonly hostRoot: string;
  readonly files: FollowedFiles;
  readonly policies: IndexedCache<KivePolicy>;
  readonly policyScope: PolicyScope;
  /** Pods of this node. */
  readonly pods: IndexedCache<Pod>;
  /** A cache that has the index `place`. */
  readonly data: IndexedCache<KiveData>;
  /** Ids of containers; its reconcile is {@link Discovery.reconcile}. */
  readonly queue: WorkQueue;
  readonly logger: Logger;
  /** Called with the names for which {@link Discovery.found} has changed, before anything is written. */
  readonly onFound: (names: Iterable<string>) => void;
  /** Called with the keys of policies for which {@link Discovery.viewOf} may have changed. */
  readonly onPolicies: (keys: Iterable<string>) => void;
  readonly onFile: (event: FileEvent, trap: CompiledTrap, container: NodeContainer) => void;
}

const BLOCKED_MS = 1000;
/** Writing waits until all containers are looked at, but not for longer than this. */
const WRITE_MS = 1000;

/** Looks at containers and writes KiveData; disposing it ends the looking. */
export class Discovery implements Disposable {
  readonly #options: DiscoveryOptions;
  readonly #index = new TrapIndex();
  readonly #looked = new Map<string, Looked>();
  readonly #found = new Map<string, FoundFile>();
  /** Names of `#found` to report. */
  readonly #changed = new Set<string>();
  /** The containers for which a policy has a trap, keyed by the policy's key. */
  readonly #containersOf = new Map<string, Set<string>>();
  /** Keyed by `namespace/name` of the pod. */
  readonly #idsOfPod = new Map<string, Set<string>>();
  readonly #podOfId = new Map<string, string>();
  readonly #touched: TouchedKeys;
  /** Containers that were looked at, but not yet added to the queue. */
  readonly #toWrite = new Set<string>();
  #toWriteSinceMs = 0;
  #writing: NodeJS.Immediate | undefined;
  readonly #stack = new DisposableStack();

  /** The caches must be synced. */
  constructor(options: DiscoveryOptions) {
    this.#options = options;
    const { containers, policies, pods, data, logger } = options;
    this.#touched = this.#stack.use(
      new TouchedKeys({
        each: (id) => this.#look(id),
        onSliceEnd: () => {
          this.#reportFound();
          this.#letWrite();
        },
        onProblem: (err, id) => logger.error({ err, container: id }, 'cannot inspect a container'),
      }),
    );
    this.#stack.use(containers.subscribe((id) => this.touch(id)));
    this.#stack.use(policies.subscribe((change) => this.#policyChanged(change)));
    this.#stack.use(pods.subscribe((change) => this.#podChanged(change)));
    this.#stack.use(data.subscribe(({ object }) => this.#dataChanged(object)));
    for (const policy of policies.list()) this.#setPolicy(policy);
    this.touch(hostId);
    this.containersKnown();
    this.#touched.flush();
  }

  /** Call when the runtime has reported its containers: looks at all of them. */
  containersKnown(): void {
    const { containers, data } = this.#options;
    for (const { id } of containers.list()) this.touch(id);
    // Files found by an earlier process of this node, in containers that are gone.
    for (const object of data.list()) this.#dataChanged(object);
  }

  /** The current file of a KiveData of this node; undefined for an unknown name. */
  found(name: string): AlertedFile | undefined {
    const file = this.#found.get(name);
    return file && alertedOfFound(file, this.#options.on);
  }

  /** The names for which {@link Discovery.found} returns a file. */
  names(): Iterable<string> {
    return this.#found.keys();
  }

  /** The traps of a policy in the containers of this node. */
  *viewOf(policyKey: string): Iterable<MatchedTrap> {
    for (const id of this.#containersOf.get(policyKey) ?? []) {
      for (const matched of this.#looked.get(id)?.matched ?? []) {
        if (matched.trap.policyKey === policyKey) yield matched;
      }
    }
  }

  /** Looks at a container again soon: one of its paths may have another file. */
  touch(id: string): void {
    this.#touched.add(id);
  }

  /** Writes the differences for one container. */
  readonly reconcile = async (id: string, signal: AbortSignal): Promise<Result> => {
    const { client, data, on, onFile } = this.#options;
    if (this.#isUnknown(id)) return done;
    const { files } = this.#looked.get(id) ?? nothing;
    const changes = diffData(
      desiredData(files.values(), on),
      data.byIndex('place', placeOf(on.nodeName, id)),
      on.nodeName,
    );
    await writeChanges({ client, data, on, signal }, changes, (event, { metadata }) => {
      const file = files.get(metadata.name ?? '');
      if (file !== undefined) onFile(event, file.trap, file.container);
    });
    // Normally the cache reports when they are gone; the retry is for a cache that is late.
    return changes.blocked.length > 0 ? requeueAfter(BLOCKED_MS) : done;
  };

  [Symbol.dispose](): void {
    clearImmediate(this.#writing);
    this.#stack.dispose();
  }

  /** Whether it is not yet known which files are in the container: those that an earlier process found may still exist. */
  #isUnknown(id: string): boolean {
    return id !== hostId && !this.#options.knowsContainers();
  }

  #look(id: string): void {
    if (this.#isUnknown(id)) return;
    const { containers, files, hostRoot, on, onPolicies } = this.#options;
    const source = id === hostId ? undefined : containers.get(id);
    const root = id === hostId ? hostRoot : source?.root;
    const container = id === hostId ? nodeItself : source && this.#nodeContainer(source);
    if (root === undefined) this.#forgetPodOf(id);
    const traps = trapsFor(container, this.#index);
    let followed: ReadonlyMap<CompiledTrap, FollowedTrap> = new Map();
    if (root === undefined || traps.length === 0) files.forget(id);
    else followed = files.follow({ id, root }, traps);
    const before = this.#looked.get(id) ?? nothing;
    const now = container === undefined ? nothing : lookAgain(before, container, followed, on.nodeName);
    if (now.matched.length === 0) this.#looked.delete(id);
    else this.#looked.set(id, now);

    for (const name of changedNames(before, now)) {
      const file = now.files.get(name);
      if (file === undefined) this.#found.delete(name);
      else this.#found.set(name, file);
      this.#changed.add(name);
    }
    this.#reportMissing(before, now);
    const keys = changedPolicies(before, now);
    const nowKeys = new Set(now.matched.map(({ trap }) => trap.policyKey));
    for (const key of keys) this.#setContainerOf(key, id, nowKeys.has(key));
    if (keys.size > 0) onPolicies(keys);
    if (this.#toWrite.size === 0) this.#toWriteSinceMs = performance.now();
    this.#toWrite.add(id);
  }

  #setContainerOf(policyKey: string, id: string, has: boolean): void {
    const ids = this.#containersOf.get(policyKey);
    if (has && ids === undefined) this.#containersOf.set(policyKey, new Set([id]));
    else if (has) ids?.add(id);
    else if (ids?.delete(id) && ids.size === 0) this.#containersOf.delete(policyKey);
  }

  /** Has the files found so far watched, before anything else runs. */
  #reportFound(): void {
    if (this.#changed.size === 0) return;
    const names = [...this.#changed];
    this.#changed.clear();
    this.#options.onFound(names);
  }

  /**
   * Writing uses the same thread, so it starts only after all containers are looked at, their files are watched, and
   * other tasks had their turn.
   */
  #letWrite(): void {
    if (this.#touched.size > 0 && performance.now() - this.#toWriteSinceMs < WRITE_MS) return;
    this.#writing ??= setImmediate(() => {
      this.#writing = undefined;
      for (const id of this.#toWrite) this.#options.queue.add(id);
      this.#toWrite.clear();
    });
  }

  #reportMissing(before: Looked, now: Looked): void {
    if (before.files.size === 0) return;
    const watched = new Set<string>();
    for (const { name, state } of before.matched) if (state.kind === 'watched') watched.add(name);
    for (const { trap, container, state, name } of now.matched) {
      if (state.kind !== 'watched' && watched.has(name))
        this.#options.onFile(state.moved === undefined ? 'FileMissing' : 'FileMoved', trap, container);
    }
  }

  /**
   * The container, with the pod as the API has it: labels change there. Undefined until the API has reported the pod:
   * objects of a pod that the API does not have are deleted as stale.
   */
  #nodeContainer(source: SourceContainer): NodeContainer | undefined {
    const { id, name, podNamespace, podName, podUid, podIp } = source;
    const podKey = `${podNamespace}/${podName}`;
    this.#remember(id, podKey);
    const pod = this.#options.pods.get(podKey);
    if (pod === undefined || !isPod(pod, podUid)) return undefined;
    // The runtime knows the pod's address before the API does.
    const known = pod.status?.podIP !== undefined || podIp === '';
    return { id, name, pod: known ? pod : { ...pod, status: { ...pod.status, podIP: podIp } } };
  }

  #remember(id: string, podKey: string): void {
    if (this.#podOfId.get(id) === podKey) return;
    this.#podOfId.set(id, podKey);
    const ids = this.#idsOfPod.get(podKey);
    if (ids === undefined) this.#idsOfPod.set(podKey, new Set([id]));
    else ids.add(id);
  }

  #forgetPodOf(id: string): void {
    const podKey = this.#podOfId.get(id);
    if (podKey === undefined) return;
    this.#podOfId.delete(id);
    const ids = this.#idsOfPod.get(podKey);
    ids?.delete(id);
    if (ids?.size === 0) this.#idsOfPod.delete(podKey);
  }

  #podChanged({ key, type, object, previous }: CacheChange<Pod>): void {
    if (type === 'modified' && previous !== undefined && samePod(object, previous)) return;
    for (const id of this.#idsOfPod.get(key) ?? []) this.touch(id);
  }

  #policyChanged({ key, type, object, previous }: CacheChange<KivePolicy>): void {
    // The status changes far more often than the spec.
    if (type === 'modified' && sameGeneration(object, previous)) return;
    const concerned = new TrapIndex();
    if (type === 'deleted') this.#index.delete(key);
    else {
      const compiled = this.#setPolicy(object);
      if (!isDeleting(object)) concerned.set(compiled);
    }
    this.#options.onPolicies([key]);
    const before = this.#containersOf.get(key);
    if (before?.has(hostId) || trapsFor(nodeItself, concerned).length > 0) this.touch(hostId);
    for (const source of this.#options.containers.list()) {
      if (before?.has(source.id) || trapsFor(this.#nodeContainer(source), concerned).length > 0)
        this.touch(source.id);
    }
  }

  #setPolicy(policy: KivePolicy): CompiledPolicy {
    const compiled = compilePolicy(policy, this.#options.policyScope);
    if (isDeleting(policy)) this.#index.delete(compiled.key);
    else this.#index.set(compiled);
    return compiled;
  }

  #dataChanged(data: KiveData): void {
    if (nodeOf(data) !== this.#options.on.nodeName) return;
    this.#options.queue.add(containerIdOf(data));
  }
}

function trapsFor(container: NodeContainer | undefined, index: TrapIndex): CompiledTrap[] {
  if (container?.id === hostId) return index.forHost();
  if (container === undefined || isOver(container.pod)) return [];
  return index.forPod(container.pod).for(container.name);
}

function sameGeneration(now: KivePolicy, before: KivePolicy | undefined): boolean {
  return (
    before !== undefined &&
    now.metadata.uid === before.metadata.uid &&
    now.metadata.generation === before.metadata.generation &&
    isDeleting(now) === isDeleting(before)
  );
}
