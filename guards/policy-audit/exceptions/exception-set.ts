/** The PolicyExceptions in the API that are in effect now; follows their changes, their starts and their ends. */
import type { GuardContext } from '../../../guard/context.ts';
import { systemNamespace } from '../../../guard/guard.ts';
import { messageOf } from '../../../lib/errors/errors.ts';
import type { IndexedCache } from '../../../lib/kube/cache/indexed-cache.ts';
import { orUndefined } from '../../../lib/kube/client/client-errors.ts';
import { done, requeueAfter, type Result, runController } from '../../../lib/kube/controller/controller.ts';
import { keyQueue } from '../../../lib/kube/controller/key-queue.ts';
import { setCondition } from '../../../lib/kube/object/conditions.ts';
import { objectKey } from '../../../lib/kube/object/object.ts';
import { aborted } from '../../../lib/time/abort.ts';
import { type Clock, systemClock } from '../../../lib/time/clock.ts';
import { Listeners } from '../../../lib/time/listeners.ts';
import { type PolicyException, policyExceptionType } from '../api.ts';
import type { PolicyOrigin } from '../policies/policy.ts';
import {
  type Exception,
  exceptionFor,
  type Exceptions,
  exceptionsByPolicy,
  type ExceptionTarget,
  noExceptions,
  readException,
} from './exception.ts';

export interface ExceptionSetOptions {
  readonly context: Pick<GuardContext, 'cache' | 'client' | 'logger' | 'metrics' | 'signal'>;
  /** Whether the condition `Active` is written. */
  readonly writesStatus: boolean;
  /** For tests. Default: the machine's clock. */
  readonly clock?: Clock;
}

export interface ExceptionChange {
  /** Namespace of the objects; undefined: objects of all namespaces, and cluster-scoped ones. */
  readonly namespace: string | undefined;
  /** The exceptions before and after the change. */
  readonly exceptions: readonly Exception[];
}

/** No timer is set for longer: Node.js cannot go beyond 24 days. */
const LONGEST_MS = 3_600_000;

export class ExceptionSet {
  readonly #options: ExceptionSetOptions;
  readonly #clock: Clock;
  readonly #cache: IndexedCache<PolicyException>;
  readonly #read = new Map<string, Exception>();
  #byPolicy: Exceptions = noExceptions;
  readonly #listeners = new Listeners<[change: ExceptionChange]>();
  readonly #complete = Promise.withResolvers<void>();

  constructor(options: ExceptionSetOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#cache = options.context.cache({ type: policyExceptionType });
  }

  /**
   * Resolves when the exceptions that existed at the start are in effect; also if the API does not serve
   * exceptions, or they may not be read.
   */
  get complete(): Promise<void> {
    return this.#complete.promise;
  }

  /** Whether exceptions may not be listed: then there may be unknown ones. */
  get isForbidden(): boolean {
    return this.#cache.refusal === 'forbidden';
  }

  /** The exceptions that can be parsed, including ended ones. */
  get objects(): readonly PolicyException[] {
    return [...this.#cache.list()].filter((object) => this.#read.has(objectKey(object)));
  }

  /** The exception that now exempts an object from a policy. */
  find(policy: Pick<PolicyOrigin, 'kind' | 'name'>, target: ExceptionTarget): Exception | undefined {
    return exceptionFor(this.#byPolicy, policy, target, this.#clock.wallMs());
  }

  /** Whether there are no exceptions. */
  get isEmpty(): boolean {
    return this.#byPolicy.size === 0;
  }

  /** Called when an exception has started, changed or ended. */
  onChange(listener: (change: ExceptionChange) => void): Disposable {
    return this.#listeners.add(listener);
  }

  /** Runs until the signal of the context aborts. */
  async run(): Promise<void> {
    const { signal, logger, metrics } = this.#options.context;
    using queue = keyQueue();
    using _changes = this.#cache.subscribe(({ key }) => queue.add(key));
    await Promise.race([aborted(signal), this.#cache.synced, this.#cache.refused]);
    for (const key of this.#cache.keys()) this.#take(key);
    this.#index();
    this.#complete.resolve();
    for (const key of this.#cache.keys()) queue.add(key);
    await runController({
      ...{ name: 'policy-exceptions', queue, signal, logger, metrics: metrics?.controllers },
      reconcile: (key, stop) => this.#reconcile(key, stop),
    });
  }

  async #reconcile(key: string, signal: AbortSignal): Promise<Result> {
    const before = this.#read.get(key);
    const wasActive = this.#active.has(key);
    const problem = this.#take(key);
    this.#index();
    const now = this.#read.get(key);
    const leftMs = (now?.untilMs ?? 0) - this.#clock.wallMs();
    const isActive = now !== undefined && leftMs > 0;
    if (isActive) this.#active.add(key);
    else this.#active.delete(key);
    if (before?.version !== now?.version || wasActive !== isActive) {
      const [namespace = ''] = key.split('/');
      const about = namespace === systemNamespace ? undefined : namespace;
      const exceptions = [before, now].filter((one) => one !== undefined);
      this.#listeners.notify({ namespace: about, exceptions });
    }
    const object = this.#cache.get(key);
    if (object !== undefined && this.#options.writesStatus)
      await this.#notify(object, isActive ? undefined : (problem ?? 'ended'), signal);
    // Examined a moment after the end, so that the exception has ended for certain.
    return isActive && leftMs !== Infinity ? requeueAfter(Math.min(leftMs + 10, LONGEST_MS)) : done;
  }

  /** The exceptions that were in effect when last examined. */
  readonly #active = new Set<string>();

  /** Parses an exception. @returns why it cannot be parsed: then it exempts nothing. */
  #take(key: string): string | undefined {
    const object = this.#cache.get(key);
    this.#read.delete(key);
    if (object === undefined) return undefined;
    try {
      this.#read.set(key, readException(object));
      return undefined;
    } catch (error) {
      return messageOf(error);
    }
  }

  #index(): void {
    const sorted = [...this.#read.values()].toSorted((a, b) => (a.key < b.key ? -1 : 1));
    this.#byPolicy = exceptionsByPolicy(sorted);
  }

  async #notify(object: PolicyException, problem: string | undefined, signal: AbortSignal): Promise<void> {
    const { metadata, spec, status } = object;
    const { namespace, name = '', generation } = metadata;
    const hasEnded = problem === 'ended';
    const conditions = setCondition(status?.conditions, {
      type: 'Active',
      status: problem === undefined ? 'True' : 'False',
      reason: problem === undefined ? 'InEffect' : hasEnded ? 'Ended' : 'Unreadable',
      message:
        problem === undefined
          ? `the policies do not apply${spec.until === undefined ? '' : ` until ${spec.until}`}`
          : hasEnded
            ? `it ended at ${spec.until}: the policies apply`
            : `it excepts nothing: ${problem}`,
      observedGeneration: generation,
    });
    if (conditions === status?.conditions) return;
    const patch = { type: 'merge', body: { status: { conditions } } } as const;
    const target = { namespace, name, subresource: 'status' };
    await orUndefined(this.#options.context.client.patch(policyExceptionType, target, patch, { signal }));
  }
}

/** What policy servers need to know about the exceptions, sorted. */
export function exceptionsFile(objects: Iterable<PolicyException>, policies: ReadonlySet<string>): string {
  const found = [...objects]
    .filter(({ spec }) => spec.policies.some(({ kind, name }) => policies.has(`${kind}/${name}`)))
    .toSorted((a, b) => (objectKey(a) < objectKey(b) ? -1 : 1))
    .map(({ metadata: { namespace, name, uid, generation }, spec }) => ({
      metadata: { namespace, name, uid, generation },
      spec,
    }));
  return JSON.stringify(found);
}
