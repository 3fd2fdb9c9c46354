/**
 * The audit of a cluster: evaluates all existing objects once, then those that change. Work is divided by
 * namespace: several namespaces are audited at the same time, independently of each other.
 */
import { randomUUID } from 'node:crypto';

import { isNotFound } from '../../../lib/kube/client/client-errors.ts';
import { done, runController } from '../../../lib/kube/controller/controller.ts';
import type { IndexedCache } from '../../../lib/kube/cache/indexed-cache.ts';
import { keyQueue } from '../../../lib/kube/controller/key-queue.ts';
import {
  type KubeObject,
  type Namespace,
  namespaces as namespaceType,
  objectKey,
} from '../../../lib/kube/object/object.ts';
import type { WorkQueue } from '../../../lib/kube/controller/workqueue.ts';
import { Backoff } from '../../../lib/time/backoff.ts';
import { type Clock, sleep, systemClock } from '../../../lib/time/clock.ts';
import { eachOf } from '../../../lib/time/each-of.ts';
import { Listeners } from '../../../lib/time/listeners.ts';
import { NamespaceReports } from '../reports/namespace-reports.ts';
import { reportsRemedy, reportTypes } from '../reports/report.ts';
import { ReportStore } from '../reports/report-store.ts';
import type { Reports } from '../reports/reports.ts';
import { AuditPass, type PassProgress, type PassSummary } from './audit-pass.ts';
import type { DirtyNames } from './dirty-objects.ts';
import { eachListed } from './each-listed.ts';
import { type FollowedKind, FollowedKinds } from './followed-kinds.ts';
import { collectGarbage } from './garbage.ts';
import { ObjectAudit } from './object-audit.ts';
import { withoutManagedFields } from './object-facts.ts';
import { ObjectStates } from './object-states.ts';
import type { ScannerOptions } from './scanner-options.ts';
import { Triggers } from './triggers.ts';
import { allSynced, until, untilListed, untilWithin } from './waits.ts';

/** How long a pass waits for kinds that may not be listed. For a kind that is being listed, it waits as long as that takes. */
const SYNC_MS = 30_000;
const GARBAGE_RETRY = { baseMs: 100, maxMs: 30_000 };

export class Scanner {
  readonly states = new ObjectStates();
  readonly store: Reports;
  readonly audit: ObjectAudit;
  readonly #options: ScannerOptions;
  readonly #clock: Clock;
  readonly #namespaces: IndexedCache<Namespace>;
  readonly #queue: WorkQueue;
  readonly #kinds: FollowedKinds;
  readonly #triggers: Triggers;
  readonly #passListeners = new Listeners();
  readonly #unservedListeners = new Listeners();
  #pass: AuditPass | undefined;
  evaluations = 0;
  /** Number of objects that a full pass found to differ from what was known. */
  missed = 0;
  lastPass: PassSummary | undefined;
  #obstacle: string | undefined;

  constructor(options: ScannerOptions) {
    const { context, reportKind, reportsBy, clock = systemClock } = options;
    this.#options = options;
    this.#kinds = new FollowedKinds({
      context,
      policies: options.policies,
      states: this.states,
      clock,
      onSynced: (followed) => this.#triggers.onSynced(followed),
      onObject: (followed, change) => this.#triggers.onObject(followed, change),
      onUnserved: () => this.#unservedListeners.notify(),
    });
    options.asked.isFollowed = ({ apiVersion, kind }) => this.#kinds.has(apiVersion, kind);
    this.#clock = clock;
    this.#queue = keyQueue();
    const { states } = this;
    this.#triggers = new Triggers({ ...options, kinds: this.#kinds, states, queue: this.#queue });
    this.#namespaces = context.cache<Namespace>({ type: namespaceType }, 'namespaces');
    const types = reportTypes[reportKind];
    const runUid = randomUUID();
    this.store =
      options.store ??
      (reportsBy === 'namespace'
        ? new NamespaceReports(context, { types, runUid })
        : new ReportStore(context, types));
    this.audit = new ObjectAudit({
      client: context.client,
      states: this.states,
      store: this.store,
      types,
      failuresOnly: options.failuresOnly,
      parallelPolicies: options.parallelPolicies,
      runUid,
      namespaceLabels: (name) => this.#namespaces.get(name)?.metadata.labels,
      isFollowed: ({ apiVersion, kind }) => this.#kinds.has(apiVersion, kind),
      onEvaluated: (evaluation, result) => {
        this.evaluations++;
        options.onEvaluated?.(evaluation, result);
      },
      findings: options.findings,
      exceptions: options.exceptions,
      clock,
    });
  }

  /** Why nothing is audited; undefined if audits are running or starting. */
  get obstacle(): string | undefined {
    return this.#obstacle;
  }

  /** Kinds that policies apply to, but that could not be listed yet. */
  get unread(): readonly string[] {
    return this.#kinds.unread;
  }

  /** For policies whose rules name only kinds that the API does not serve: these kinds, keyed by the policy's ID. */
  get unserved(): ReadonlyMap<string, string> {
    return this.#kinds.unserved;
  }

  /** Called with each change of {@link unserved}. */
  onUnserved(listener: () => void): Disposable {
    return this.#unservedListeners.add(listener);
  }

  /** Runs until the signal of the context aborts. */
  async run(): Promise<void> {
    const { context, policies, exceptions, parallelNamespaces } = this.#options;
    const { signal, logger, metrics } = context;
    using _queue = this.#queue;
    using subscriptions = new DisposableStack();
    const needed = [this.#namespaces, this.store];
    if (!(await untilWithin(allSynced(needed), SYNC_MS, signal, this.#clock))) return;
    if (needed.some(({ isSynced }) => !isSynced)) {
      this.#obstacle = 'the API does not serve reports, or does not permit listing them';
      logger.warn(`nothing is audited: ${this.#obstacle}. If it serves none: ${reportsRemedy}`);
    }
    if (!(await until(allSynced(needed), signal))) return;
    this.#obstacle = undefined;
    if (!(await until(Promise.all([policies.complete, exceptions?.complete]), signal))) return;
    subscriptions.use(exceptions?.onChange((change) => this.#triggers.onExceptions(change)));
    subscriptions.use(this.#namespaces.subscribe((change) => this.#triggers.onNamespace(change)));
    subscriptions.use(this.store.subscribe((change) => this.#triggers.onReport(change)));
    subscriptions.use(policies.onChange((change) => this.#triggers.onPolicy(change)));
    await Promise.all([
      this.#kinds.discover(signal, subscriptions),
      this.#passes(signal),
      runController({
        name: 'audit',
        queue: this.#queue,
        workers: parallelNamespaces,
        timeoutMs: 3_600_000,
        reconcile: async (key, stop) => {
          const namespace = key.slice(1);
          try {
            await this.#auditNamespace(namespace, stop);
          } catch (error) {
            if (stop.aborted || this.#options.givesUp?.(namespace, error) !== true) throw error;
            this.#pass?.end(namespace);
          }
          return done;
        },
        signal,
        logger,
        ...(metrics && { metrics: metrics.controllers }),
      }),
    ]);
  }

  /** The progress of the current work: namespaces that are left, known objects, and evaluations. */
  get progress(): { readonly left: number; readonly objects: number; readonly evaluations: number } {
    return { left: this.#pass?.left ?? 0, objects: this.states.size, evaluations: this.evaluations };
  }

  /** Progress of the current full pass; undefined between passes. */
  get passProgress(): PassProgress | undefined {
    return this.#pass?.progress;
  }

  /** Called when a full pass begins, and when it has ended. */
  onPassChange(listener: () => void): Disposable {
    return this.#passListeners.add(listener);
  }

  /** Runs a full pass now, or after the current one. Resolves when it ends. */
  pass(signal: AbortSignal): Promise<PassSummary> {
    const next = this.#passing.catch(() => undefined).then(() => this.#onePass(signal));
    this.#passing = next;
    return next;
  }

  #passing: Promise<unknown> = Promise.resolve();

  async #onePass(signal: AbortSignal): Promise<PassSummary> {
    this.audit.passes++;
    const pass = new AuditPass(this.#clock, this.evaluations, this.store.writes);
    await until(this.#kinds.discovered, signal);
    await until(this.#kinds.tried(), signal);
    const caches = [...this.#kinds].map(({ cache }) => cache);
    await untilListed(caches, SYNC_MS, signal, this.#clock);
    this.#pass = pass;
    const names = new Set<string>();
    for (const { kind, cache } of this.#kinds) {
      for (const namespace of cache.indexValues('namespace')) {
        if (!this.#triggers.isAudited(namespace)) continue;
        this.#triggers.dirty.addAll(namespace, kind.key);
        names.add(namespace);
      }
    }
    pass.begin(names);
    this.#passListeners.notify();
    for (const name of names) this.#queue.add(`/${name}`, { level: 1 });
    await until(pass.ended, signal);
    signal.throwIfAborted();
    await this.#collectGarbage(signal);
    const { objects, failing, errored } = this.states.counts();
    const summary = pass.summary({
      ...{ objects, failing, errored },
      evaluations: this.evaluations,
      writes: this.store.writes,
      unread: this.unread,
    });
    this.missed += summary.missed;
    this.lastPass = summary;
    this.#options.onPass?.(summary);
    this.#passListeners.notify();
    return summary;
  }

  /** Retries until it succeeds: a pass that leaves obsolete reports behind has not ended. */
  async #collectGarbage(signal: AbortSignal): Promise<void> {
    const backoff = new Backoff(GARBAGE_RETRY);
    const isAudited = (namespace: string): boolean => this.#triggers.isAudited(namespace);
    for (;;) {
      const { store, states, audit } = this;
      const kinds = this.#kinds;
      try {
        await collectGarbage({ store, states, audit, kinds, isAudited }, signal);
        // A kind that could not be listed may have only reports of the other kind, which must not be removed then.
        if (this.unread.length === 0) await store.removeOtherKind(isAudited, signal);
        return;
      } catch (error) {
        signal.throwIfAborted();
        if (this.#options.givesUp?.('', error) === true) return;
        this.#options.context.logger.warn(
          { err: error },
          'cannot remove reports of deleted objects; retrying',
        );
        await sleep(this.#clock, backoff.nextMs(), signal);
      }
    }
  }

  async #passes(signal: AbortSignal): Promise<void> {
    const { intervalMs, context } = this.#options;
    try {
      for (;;) {
        const { seconds, evaluations, writes, missed } = await this.pass(signal);
        context.logger.info({ seconds, evaluations, writes, missed }, 'audit of all objects finished');
        await sleep(this.#clock, intervalMs, signal);
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  async #auditNamespace(namespace: string, signal: AbortSignal): Promise<void> {
    const pass = this.#pass;
    const { dirty, forced } = this.#triggers;
    // Called without work if results are left that could not be written earlier.
    const work = dirty.take(namespace) ?? { kinds: new Map(), gone: new Set() };
    const isForced = forced.delete(namespace);
    const failures: unknown[] = [];
    for (const uid of work.gone) {
      try {
        await this.audit.forget(namespace, uid, signal);
      } catch (error) {
        failures.push(error);
        dirty.addGone(namespace, uid);
      }
    }
    for (const [key, names] of work.kinds) {
      const followed = this.#kinds.get(key);
      if (followed === undefined) continue;
      try {
        const left = await this.#auditKind(followed, namespace, names, isForced, signal);
        for (const [name, error] of left) {
          failures.push(error);
          dirty.add(namespace, key, name);
        }
      } catch (error) {
        failures.push(error);
        dirty.putBack(namespace, key, names);
        if (isForced) forced.add(namespace);
      }
    }
    if (this.states.takeNewKinds()) this.#kinds.follow();
    await this.store.flush(namespace, signal);
    // The namespace is retried with backoff; all other results are kept.
    if (failures.length > 0) throw failures[0];
    pass?.end(namespace);
  }

  /** Audits objects of a kind. @returns failures, keyed by the object's name. @throws if the kind cannot be listed */
  async #auditKind(
    followed: FollowedKind,
    namespace: string,
    names: DirtyNames,
    isForced: boolean,
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, unknown>> {
    const { parallelResources: parallel, pageSize, context } = this.#options;
    const { client } = context;
    const { kind, cache } = followed;
    const inNamespace = namespace === '' ? {} : { namespace };
    const failed = new Map<string, unknown>();
    const one = async (object: KubeObject, isPass: boolean): Promise<void> => {
      const { uid = '', name = '', resourceVersion = '' } = object.metadata;
      const known = this.states.get(uid);
      try {
        const audited = await this.audit.audit(kind, object, followed.policies, signal, {
          isForced,
          isPass,
        });
        // An answer to a policy's request has changed during the audit.
        if (this.states.get(uid)?.isStale === true) this.#triggers.mark(namespace, kind.key, name);
        if (!isPass || audited !== 'audited' || known === undefined || known.isStale || isForced) return;
        // Whether the watch has reported this version, which nevertheless was not audited.
        const isReported = cache.versionOf(objectKey(object)) === resourceVersion;
        if (isReported && known.version !== resourceVersion) this.#pass?.miss();
      } catch (error) {
        signal.throwIfAborted();
        failed.set(name, error);
      }
    };
    if (names !== 'all') {
      await eachOf(names, parallel, async (name) => {
        let object: KubeObject;
        try {
          object = await client.get(kind.type, { ...inNamespace, name }, { signal });
        } catch (error) {
          if (isNotFound(error)) return;
          failed.set(name, error);
          return;
        }
        await one(withoutManagedFields(object), false);
      });
      return failed;
    }
    const isPass = this.#pass?.has(namespace) ?? false;
    if (followed.policies.length === 0) {
      // The keys are enough: no object has to be read from the API.
      for (const key of cache.keysByIndex('namespace', namespace)) {
        const uid = cache.get(key)?.metadata.uid;
        if (uid !== undefined) await this.audit.forget(namespace, uid, signal);
      }
      return failed;
    }
    const listed = { client, namespace, pageSize, parallel, signal };
    await eachListed(kind.type, listed, (object) => one(object, isPass));
    return failed;
  }
}
