/**
 * Which changes matter to the audit: each change of objects, policies, exceptions, namespaces and reports
 * determines objects that must be evaluated again. Collects these objects, and queues their namespaces.
 */
import { systemNamespace } from '../../../guard/guard.ts';
import type { CacheChange } from '../../../lib/kube/cache/indexed-cache.ts';
import type { WorkQueue } from '../../../lib/kube/controller/workqueue.ts';
import { apiVersionOf, type KubeObject, type Namespace } from '../../../lib/kube/object/object.ts';
import { isOlder } from '../../../lib/kube/object/resource-version.ts';
import type { Exception } from '../exceptions/exception.ts';
import type { ExceptionChange } from '../exceptions/exception-set.ts';
import type { PolicyChange } from '../policies/policies-in-use.ts';
import { auditAnnotation } from '../policies/read-policy.ts';
import type { ReportChange } from '../reports/reports.ts';
import { DirtyObjects } from './dirty-objects.ts';
import type { FollowedKind, FollowedKinds } from './followed-kinds.ts';
import { splitKey } from './object-facts.ts';
import type { Change, ObjectStates } from './object-states.ts';
import type { ScannerOptions } from './scanner-options.ts';
import { auditsKind } from './served-kinds.ts';

export interface TriggersOptions extends Pick<
  ScannerOptions,
  'asked' | 'pageSize' | 'ignoredNamespaces' | 'onlyNamespaces' | 'cluster'
> {
  readonly kinds: FollowedKinds;
  readonly states: ObjectStates;
  /** Receives `/<namespace>`; `/` stands for cluster-scoped objects. */
  readonly queue: WorkQueue;
}

export class Triggers {
  readonly dirty: DirtyObjects;
  /** Namespaces in which all objects are evaluated, even if their results are known. */
  readonly forced = new Set<string>();
  readonly #options: TriggersOptions;

  constructor(options: TriggersOptions) {
    this.#options = options;
    this.dirty = new DirtyObjects(options.pageSize);
  }

  isAudited(namespace: string): boolean {
    const { onlyNamespaces, ignoredNamespaces, cluster = true } = this.#options;
    if (namespace === '') return cluster;
    if (namespace === systemNamespace || ignoredNamespaces?.has(namespace) === true) return false;
    return onlyNamespaces?.has(namespace) ?? true;
  }

  /** @param name - Name of the object; undefined: all objects of the kind in the namespace */
  mark(namespace: string, kind: string, name?: string): void {
    if (!this.isAudited(namespace)) return;
    if (name === undefined) this.dirty.addAll(namespace, kind);
    else this.dirty.add(namespace, kind, name);
    this.#options.queue.add(`/${namespace}`);
  }

  /** Called when a kind was listed for the first time. */
  onSynced(followed: FollowedKind): void {
    this.#markAll(followed);
    // Objects of this kind that policies requested before it was followed may have changed since then.
    const { type } = followed.kind;
    this.#markAskers({ apiVersion: apiVersionOf(type), kind: type.kind });
  }

  onObject({ kind }: FollowedKind, { type, object, previous }: CacheChange<KubeObject>): void {
    const { namespace = '', name = '', uid = '' } = object.metadata;
    if (type === 'deleted') this.#markGone(namespace, uid);
    else {
      // Differs if the object was deleted and created again in between.
      const before = previous?.metadata.uid ?? uid;
      if (before !== uid) this.#markGone(namespace, before);
      this.mark(namespace, kind.key, name);
    }
    const apiVersion = apiVersionOf(kind.type);
    this.#options.asked.changed({ apiVersion, kind: kind.type.kind });
    this.#markAskers({ apiVersion, kind: kind.type.kind, namespace, name });
  }

  onPolicy({ before, now }: PolicyChange): void {
    const { kinds } = this.#options;
    const changed = [before, now].filter((one) => one !== undefined);
    kinds.follow();
    for (const followed of kinds) {
      const about = changed.filter((policy) => auditsKind(policy, followed.kind));
      if (about.length === 0 || !followed.cache.isSynced) continue;
      const [first, second = first] = about.map(({ origin }) => origin.namespace);
      this.#markAll(followed, first === second ? first : undefined);
    }
  }

  onExceptions({ namespace, exceptions }: ExceptionChange): void {
    for (const followed of this.#options.kinds)
      if (exceptions.some((one) => concerns(one, followed))) this.#markAll(followed, namespace);
  }

  onNamespace({ type, object, previous }: CacheChange<Namespace>): void {
    const { name = '' } = object.metadata;
    if (type === 'deleted') return;
    const asked = (one: Namespace | undefined): string => one?.metadata.annotations?.[auditAnnotation] ?? '';
    const labels = (one: Namespace | undefined): string => JSON.stringify(one?.metadata.labels ?? {});
    const isForced = type === 'modified' && asked(object) !== asked(previous);
    if (type === 'modified' && !isForced && labels(object) === labels(previous)) return;
    if (isForced) this.forced.add(name);
    for (const { kind, cache } of this.#options.kinds) {
      if (cache.keysByIndex('namespace', name).length > 0) this.mark(name, kind.key);
    }
  }

  onReport({ uid, digest, version }: ReportChange): void {
    const state = this.#options.states.get(uid);
    if (state?.digest === undefined) return;
    if (digest === state.digest) {
      if (!isOlder(version, state.reportVersion)) state.reportVersion = version;
      return;
    }
    if (digest !== undefined && version === state.reportVersion) return;
    if (isOlder(version, state.reportVersion)) return;
    state.isForged = true;
    const [namespace, name] = splitKey(state.key);
    this.mark(namespace, state.kind, name);
  }

  #markAll({ kind, cache }: FollowedKind, only?: string): void {
    for (const namespace of cache.indexValues('namespace')) {
      if (only === undefined || only === namespace || namespace === '') this.mark(namespace, kind.key);
    }
  }

  #markAskers(change: Change): void {
    for (const { key, kind } of this.#options.states.changed(change)) {
      const [namespace, name] = splitKey(key);
      this.mark(namespace, kind, name);
    }
  }

  #markGone(namespace: string, uid: string): void {
    if (!this.isAudited(namespace)) return;
    this.dirty.addGone(namespace, uid);
    this.#options.queue.add(`/${namespace}`);
  }
}

/** Whether an exception is about policies that objects of this kind are audited with. */
function concerns(exception: Exception, { kind, policies }: FollowedKind): boolean {
  if (!exception.matchesKind(kind.type)) return false;
  return policies.some(({ policy: { origin } }) =>
    exception.policies.includes(`${origin.kind}/${origin.name}`),
  );
}
