/** The kinds that are followed: those that the API serves and that policies match or have requested. */
import { isDeepStrictEqual } from 'node:util';

import type { GuardContext } from '../../../guard/context.ts';
import { customResourceDefinitions } from '../../../lib/kube/crd/established.ts';
import type { CacheChange, IndexedCache } from '../../../lib/kube/cache/indexed-cache.ts';
import { isForbidden } from '../../../lib/kube/client/client-errors.ts';
import { apiVersionOf, type KubeObject } from '../../../lib/kube/object/object.ts';
import { type Clock, sleep } from '../../../lib/time/clock.ts';
import type { OpenPolicy } from '../policies/open-policy.ts';
import type { Policy } from '../policies/policy.ts';
import { definitionFacts, namespaceOf, objectFacts } from './object-facts.ts';
import type { ObjectStates } from './object-states.ts';
import type { ScannerOptions } from './scanner-options.ts';
import { auditsKind, type ServedKind, type ServedKinds, servedKinds } from './served-kinds.ts';
import { unservedKinds } from './unserved-kinds.ts';
import { until } from './waits.ts';

/** Delay of discovery after a change of a CRD: often several change together. */
const DISCOVERY_DELAY_MS = 200;
const DISCOVERY_RETRY_MS = 15_000;
/** Interval at which kinds that may not be listed are tried again. */
const REFUSED_RETRY_MS = 60_000;

/** A followed kind. */
export interface FollowedKind {
  readonly kind: ServedKind;
  readonly cache: IndexedCache<KubeObject>;
  policies: readonly OpenPolicy[];
}

export interface FollowedKindsOptions {
  readonly context: GuardContext;
  readonly policies: ScannerOptions['policies'];
  readonly states: Pick<ObjectStates, 'isAsked'>;
  readonly clock: Clock;
  /** Called when all objects of a kind are known. */
  readonly onSynced: (followed: FollowedKind) => void;
  readonly onObject: (followed: FollowedKind, change: CacheChange<KubeObject>) => void;
  /** Called when {@link FollowedKinds.unserved} has changed. */
  readonly onUnserved: () => void;
}

export class FollowedKinds {
  readonly #options: FollowedKindsOptions;
  readonly #kinds = new Map<string, FollowedKind>();
  /** Kinds that the account may not list, which is usually intended. */
  readonly #refused = new Map<string, ServedKind>();
  /** Kinds for which it is being checked whether they may be listed. */
  readonly #tries = new Map<string, Promise<void>>();
  readonly #discovered = Promise.withResolvers<void>();
  #served: ServedKinds | undefined;
  #unserved: ReadonlyMap<string, string> = new Map();
  /** What is known about each policy, until the next discovery. */
  #named = new WeakMap<Policy, { readonly unserved: string | undefined }>();
  #subscriptions: DisposableStack | undefined;

  constructor(options: FollowedKindsOptions) {
    this.#options = options;
  }

  [Symbol.iterator](): IterableIterator<FollowedKind> {
    return this.#kinds.values();
  }

  get(key: string): FollowedKind | undefined {
    return this.#kinds.get(key);
  }

  /** Resolves when the served kinds have been discovered once. */
  get discovered(): Promise<void> {
    return this.#discovered.promise;
  }

  /** Resolves when it is known for each kind whether it may be listed. Kinds that may not be are tried again. */
  async tried(): Promise<void> {
    this.#retry();
    await Promise.all(this.#tries.values());
  }

  /** Kinds that policies apply to, but that could not be listed yet. */
  get unread(): readonly string[] {
    const refused = [...this.#refused.values()].filter((kind) => this.#about(kind).length > 0);
    const unlisted = [...this].filter(({ cache }) => !cache.isSynced);
    return [...unlisted.map(({ kind }) => kind.key), ...refused.map(({ key }) => key)].toSorted();
  }

  /** For policies whose rules name only kinds that the API does not serve: these kinds, keyed by the policy's ID. */
  get unserved(): ReadonlyMap<string, string> {
    return this.#unserved;
  }

  /** Whether the objects of a kind have not been listed yet. */
  isUnread(group: string, kind: string): boolean {
    const isOf = ({ type }: ServedKind): boolean => type.group === group && type.kind === kind;
    for (const one of this.#refused.values()) if (isOf(one)) return true;
    for (const one of this) if (isOf(one.kind)) return !one.cache.isSynced;
    return false;
  }

  has(apiVersion: string, kind: string): boolean {
    for (const { kind: one, cache } of this) {
      if (one.type.kind === kind && apiVersionOf(one.type) === apiVersion) return cache.isSynced;
    }
    return false;
  }

  /** Discovers the served kinds, and does so again when CRDs have changed. */
  async discover(signal: AbortSignal, subscriptions: DisposableStack): Promise<void> {
    const { context, clock } = this.#options;
    this.#subscriptions = subscriptions;
    let changed = Promise.withResolvers<void>();
    const definitions = context.cache<KubeObject>({
      type: customResourceDefinitions,
      projection: definitionFacts,
      parsedLimit: 0,
    });
    subscriptions.use(definitions.subscribe(() => changed.resolve()));
    const retry = (): void => {
      this.#retry();
      cancel = clock.schedule(REFUSED_RETRY_MS, retry);
    };
    let cancel = clock.schedule(REFUSED_RETRY_MS, retry);
    subscriptions.defer(() => cancel());
    try {
      for (;;) {
        changed = Promise.withResolvers<void>();
        try {
          this.#served = await servedKinds(context.client, signal);
          this.#named = new WeakMap();
          this.follow();
          this.#discovered.resolve();
        } catch (error) {
          signal.throwIfAborted();
          context.logger.warn({ err: error }, 'cannot discover the kinds that the API serves; retrying');
          await sleep(clock, DISCOVERY_RETRY_MS, signal);
          continue;
        }
        if (!(await until(changed.promise, signal))) return;
        await sleep(clock, DISCOVERY_DELAY_MS, signal);
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  /**
   * Follows the kinds that policies now match or have requested. A kind that was followed earlier stays: its
   * reports may have to be removed.
   */
  follow(): void {
    const { states } = this.#options;
    this.#lookForUnserved();
    for (const kind of this.#served?.kinds.values() ?? []) {
      const about = this.#about(kind);
      const known = this.#kinds.get(kind.key);
      if (known !== undefined) known.policies = about;
      else if (this.#refused.has(kind.key) || this.#tries.has(kind.key)) continue;
      else if (about.length > 0 || states.isAsked(apiVersionOf(kind.type), kind.type.kind))
        this.#tries.set(kind.key, this.#try(kind));
    }
  }

  #lookForUnserved(): void {
    const served = this.#served;
    if (served === undefined) return;
    const unserved = new Map<string, string>();
    for (const { policy } of this.#options.policies.audited) {
      let named = this.#named.get(policy);
      if (named === undefined) this.#named.set(policy, (named = { unserved: unservedKinds(policy, served) }));
      if (named.unserved !== undefined) unserved.set(policy.id, named.unserved);
    }
    if (isDeepStrictEqual(unserved, this.#unserved)) return;
    this.#unserved = unserved;
    this.#options.onUnserved();
  }

  #about(kind: ServedKind): FollowedKind['policies'] {
    return this.#options.policies.audited.filter(
      ({ policy }) => policy.backgroundAudit && auditsKind(policy, kind),
    );
  }

  #retry(): void {
    this.#refused.clear();
    this.follow();
  }

  /** Checks first whether the kind may be listed: otherwise, a reflector would retry forever, with warnings. */
  async #try(kind: ServedKind): Promise<void> {
    const { client, signal } = this.#options.context;
    try {
      await client.list(kind.type, {}, { limit: 1, signal });
    } catch (error) {
      // The reflector handles all other errors.
      if (isForbidden(error)) this.#refused.set(kind.key, kind);
    }
    this.#tries.delete(kind.key);
    if (!signal.aborted && !this.#refused.has(kind.key)) this.#begin(kind, this.#about(kind));
  }

  #begin(kind: ServedKind, policies: FollowedKind['policies']): void {
    const { context, onSynced, onObject } = this.#options;
    const cache = context.cache<KubeObject>({
      type: kind.type,
      projection: objectFacts,
      indexes: { namespace: namespaceOf },
      parsedLimit: 64,
    });
    const followed: FollowedKind = { kind, cache, policies };
    this.#kinds.set(kind.key, followed);
    void cache.synced.then(() => {
      if (context.signal.aborted) return;
      this.#subscriptions?.use(cache.subscribe((change) => onObject(followed, change)));
      onSynced(followed);
    });
  }
}
