/** The policies that can be evaluated now, kept in line with the API. */
import type { GuardContext } from '../../../guard/context.ts';
import { done, requeueAfter, type Result, runController } from '../../../lib/kube/controller/controller.ts';
import { orUndefined } from '../../../lib/kube/client/client-errors.ts';
import { referenceTo } from '../../../lib/kube/events/event-object.ts';
import type { EventRecorder } from '../../../lib/kube/events/event-recorder.ts';
import type { IndexedCache } from '../../../lib/kube/cache/indexed-cache.ts';
import { keyQueue } from '../../../lib/kube/controller/key-queue.ts';
import { type KubeObject, objectKey, type ResourceType } from '../../../lib/kube/object/object.ts';
import { messageOf } from '../../../lib/errors/errors.ts';
import { forTenant } from '../../../lib/oci/tenant-error.ts';
import { isDeleting, removeFinalizer } from '../../../lib/kube/controller/finalizers.ts';
import {
  type AnyKubewardenPolicy,
  kubewardenTypes,
  type ValidatingAdmissionPolicy,
  validatingAdmissionPolicies,
  type ValidatingAdmissionPolicyBinding,
  validatingAdmissionPolicyBindings,
} from '../api.ts';
import { aborted } from '../../../lib/time/abort.ts';
import { type Clock, systemClock } from '../../../lib/time/clock.ts';
import type { PolicyFindings } from '../findings/policy-findings.ts';
import { OpenPolicy, type Runtimes } from './open-policy.ts';
import type { Policy } from './policy.ts';
import { activeStatus, openingStatus, refusalIn, refusedStatus, type Status } from './policy-status.ts';
import { policyId, readAdmissionPolicy, readKubewardenPolicy, severityAnnotation } from './read-policy.ts';

/** What has changed. */
export interface PolicyChange {
  readonly before: Policy | undefined;
  readonly now: Policy | undefined;
}

export interface PolicySetOptions {
  readonly context: GuardContext;
  readonly runtimes: Runtimes;
  /** Whether this process decides on admission, and so reports in the status of policies whether they are active. */
  readonly writesStatus: boolean;
  /** Whether the finalizers of Kubewarden's controller are removed from deleted policies. Default: false. */
  readonly releases?: boolean;
  /** Told of policies that cannot be evaluated as written, and that can again. Default: nobody. */
  readonly findings?: Pick<PolicyFindings, 'policy'>;
  /** For tests. Default: the machine's. */
  readonly clock?: Clock;
}

/** The outcome of opening a policy, at a generation. */
interface Trial {
  readonly generation: number | undefined;
  /** '' if it can run. */
  readonly refusal: string;
}

/** A module that is unavailable now may be available later. */
const RETRY_MS = 30_000;
/** A policy that is being opened for longer says so in its status. */
const SLOW_MS = 5000;
/** Kubewarden's controller adds one to each policy, the first one before 1.14. Without the controller, policies would stay forever. */
export const formerFinalizers = ['kubewarden', 'kubewarden.io/finalizer'];

/** Identifies a source of policies: the kind, and the key in its cache. */
interface Source {
  readonly type: ResourceType;
  readonly key: string;
}

/** Those of deploy/ say who may write what: that is no property of an object. */
const notOurs = 'app.kubernetes.io/part-of!=rampart';

/**
 * Policies by id. Those that cannot be opened as they are now keep their previous version: what was refused stays refused until
 * the new one can be evaluated, and the status says so.
 */
export class PolicySet {
  readonly #options: PolicySetOptions;
  readonly #recorder: EventRecorder;
  readonly #caches: readonly IndexedCache<AnyKubewardenPolicy>[];
  readonly #admissionPolicies: IndexedCache<ValidatingAdmissionPolicy>;
  readonly #bindings: IndexedCache<ValidatingAdmissionPolicyBinding>;
  readonly #open = new Map<string, OpenPolicy>();
  /** By source: the ids of its policies. */
  readonly #ids = new Map<string, ReadonlySet<string>>();
  /** By source: why it is not active as written. */
  readonly #problems = new Map<string, string>();
  readonly #trials = new Map<string, Trial>();
  /** By ID: why its module could not be fetched. */
  readonly #logged = new Map<string, string>();
  /** By ID: since when its module is fetched and compiled. */
  readonly #opening = new Map<string, number>();
  readonly #listeners = new Set<(change: PolicyChange) => void>();
  readonly #clock: Clock;
  readonly #triers = new Set<(object: AnyKubewardenPolicy) => void>();
  readonly #complete = Promise.withResolvers<void>();
  #enforced: readonly OpenPolicy[] = [];
  readonly #announced = new Map<string, OpenPolicy>();
  #audited: readonly OpenPolicy[] = [];

  constructor(options: PolicySetOptions) {
    this.#options = options;
    const { context } = options;
    this.#clock = options.clock ?? systemClock;
    this.#recorder = context.recorder();
    this.#caches = kubewardenTypes.map((type) => context.cache<AnyKubewardenPolicy>({ type }));
    for (const cache of this.#caches) {
      context.health.ready(cache.type.plural, () =>
        cache.isSynced || cache.refusal === 'unserved' ? undefined : 'not listed yet',
      );
    }
    this.#admissionPolicies = context.cache({ type: validatingAdmissionPolicies, labelSelector: notOurs });
    this.#bindings = context.cache({
      ...{ type: validatingAdmissionPolicyBindings, labelSelector: notOurs },
      indexes: { policy: policyOfBinding },
    });
  }

  /** Those that apply to writes; a new list after each change. */
  get enforced(): readonly OpenPolicy[] {
    return this.#enforced;
  }

  /** Those that objects are audited with; a new list after each change, of which listeners are notified. */
  get audited(): readonly OpenPolicy[] {
    return this.#audited;
  }

  /** Those of Kubewarden's kinds, whether they can be evaluated or not. */
  *kubewarden(): Generator<AnyKubewardenPolicy> {
    for (const cache of this.#caches) yield* cache.list();
  }

  /** Policies whose modules are being fetched or compiled, by ID, with the time of the beginning in ms since 1970. */
  get opening(): ReadonlyMap<string, number> {
    return this.#opening;
  }

  /** Why sources cannot be evaluated as written: `clusteradmissionpolicies/x` -> the reason. */
  get problems(): ReadonlyMap<string, string> {
    return this.#problems;
  }

  /** Resolves when all that existed at the start have been tried once. */
  get complete(): Promise<void> {
    return this.#complete.promise;
  }

  get(id: string): OpenPolicy | undefined {
    return this.#open.get(id);
  }

  /**
   * Why a policy cannot run as written: '' if it can; undefined if it was not tried yet.
   */
  refusal(type: ResourceType, object: AnyKubewardenPolicy): string | undefined {
    const trial = this.#trials.get(sourceKey({ type, key: objectKey(object) }));
    return trial?.generation === object.metadata.generation ? trial?.refusal : undefined;
  }

  /** Called with each policy that was tried, or is being opened and that takes long. */
  onTried(listener: (object: AnyKubewardenPolicy) => void): Disposable {
    const own = (object: AnyKubewardenPolicy): void => listener(object);
    this.#triers.add(own);
    return { [Symbol.dispose]: () => void this.#triers.delete(own) };
  }

  onChange(listener: (change: PolicyChange) => void): Disposable {
    const own = (change: PolicyChange): void => listener(change);
    this.#listeners.add(own);
    return { [Symbol.dispose]: () => void this.#listeners.delete(own) };
  }

  /** Runs until the signal of the context aborts; then all are closed. */
  async run(): Promise<void> {
    const { signal, logger, metrics } = this.#options.context;
    using queue = keyQueue();
    using subscriptions = new DisposableStack();
    const ofKubernetes = [this.#admissionPolicies, this.#bindings];
    const listed = [...this.#caches.map(listedIfServed), ...ofKubernetes.map(listedOrRefused)];
    await Promise.race([aborted(signal), Promise.all(listed)]);
    if (signal.aborted) return;
    const initial = new Set<string>();
    const add = (key: string): void => queue.add(key);
    for (const cache of this.#caches) {
      subscriptions.use(cache.subscribe(({ key }) => add(sourceKey({ type: cache.type, key }))));
      for (const key of cache.keys()) initial.add(sourceKey({ type: cache.type, key }));
    }
    const ofAdmission = (name: string): string => sourceKey({ type: validatingAdmissionPolicies, key: name });
    subscriptions.use(this.#admissionPolicies.subscribe(({ key }) => add(ofAdmission(key))));
    subscriptions.use(
      this.#bindings.subscribe(({ object, previous }) => {
        for (const one of [object, previous]) {
          for (const name of one === undefined ? [] : policyOfBinding(one)) add(ofAdmission(name));
        }
      }),
    );
    for (const key of this.#admissionPolicies.keys()) initial.add(ofAdmission(key));
    for (const key of initial) add(key);
    if (initial.size === 0) this.#complete.resolve();
    try {
      await runController({
        name: 'policies',
        queue,
        workers: 4,
        reconcile: async (key, stop) => {
          try {
            return await this.#reconcile(key, stop);
          } finally {
            initial.delete(key);
            if (initial.size === 0) this.#complete.resolve();
          }
        },
        signal,
        logger,
        metrics: metrics?.controllers,
      });
    } finally {
      await this.#closeAll();
    }
  }

  async #reconcile(key: string, signal: AbortSignal): Promise<Result> {
    const source = sourceOf(key);
    let wanted: readonly Policy[] = [];
    let problem: string | undefined;
    const object = this.#object(source);
    try {
      wanted = this.#read(source);
    } catch (error) {
      problem = messageOf(error);
    }
    const ids = new Set(wanted.map(({ id }) => id));
    // One that is malformed stays as it was.
    if (problem === undefined) {
      for (const id of this.#ids.get(key) ?? []) if (!ids.has(id)) this.#remove(id);
      this.#ids.set(key, ids);
    }
    for (const policy of wanted) {
      const cancel = this.#clock.schedule(SLOW_MS, () => this.#tellOpening(source, policy.id, signal));
      try {
        problem = (await this.#renew(policy, signal)) ?? problem;
      } finally {
        cancel();
      }
    }
    this.#tellFinding(source, object, wanted[0], problem);
    if (problem === undefined) this.#problems.delete(key);
    else this.#problems.set(key, problem);
    if (object !== undefined) {
      const { generation } = object.metadata;
      this.#trials.set(key, { generation, refusal: problem ?? '' });
      for (const listener of this.#triers) listener(object);
      // Its status may have been written meanwhile.
      const latest = this.#object(source) ?? object;
      const told = latest.metadata.generation === generation ? latest : object;
      if (!isDeleting(told)) await this.#tell(source.type, told, problem, signal);
      else if (this.#options.releases === true)
        await removeFinalizer(this.#options.context.client, source.type, object, formerFinalizers, {
          signal,
        });
    } else if (wanted.length === 0) {
      this.#ids.delete(key);
      this.#problems.delete(key);
      this.#trials.delete(key);
    }
    for (const { id } of wanted) this.#announce(id);
    return problem === undefined ? done : requeueAfter(RETRY_MS);
  }

  /** @throws {RampartError} for an invalid selector. */
  #read({ type, key }: Source): readonly Policy[] {
    if (type.plural === validatingAdmissionPolicies.plural) {
      const policy = this.#admissionPolicies.get(key);
      if (policy === undefined) return [];
      return this.#bindings.byIndex('policy', key).map((binding) => readAdmissionPolicy(policy, binding));
    }
    const object = this.#object({ type, key });
    return object === undefined ? [] : [readKubewardenPolicy(object)];
  }

  #object({ type, key }: Source): AnyKubewardenPolicy | undefined {
    return this.#caches.find((cache) => cache.type.plural === type.plural)?.get(key);
  }

  /** Why it cannot be evaluated as it is now. */
  async #renew(policy: Policy, signal: AbortSignal): Promise<string | undefined> {
    const before = this.#open.get(policy.id);
    if (before?.policy.version === policy.version) return undefined;
    let opened: OpenPolicy;
    this.#opening.set(policy.id, Date.now());
    try {
      opened = await OpenPolicy.open(policy, this.#options.runtimes, signal);
    } catch (error) {
      signal.throwIfAborted();
      if (policy.origin.namespace === undefined) return messageOf(error);
      const told = forTenant(error);
      if (told !== error) this.#log(policy, error);
      return messageOf(told);
    } finally {
      this.#opening.delete(policy.id);
    }
    this.#logged.delete(policy.id);
    this.#open.set(policy.id, opened);
    this.#enforced = [...this.#open.values()].toSorted(byId);
    if (before !== undefined) this.#close(before);
    return undefined;
  }

  /** What its condition leaves out; once, as it is opened again and again. */
  #log({ id }: Policy, error: unknown): void {
    if (this.#logged.get(id) === messageOf(error)) return;
    this.#logged.set(id, messageOf(error));
    this.#options.context.logger.warn(
      { err: error, policy: id },
      'cannot fetch the module of a policy; retrying',
    );
  }

  /** Each problem once; after a restart, what the status has was told. */
  #tellFinding(
    { type, key }: Source,
    object: AnyKubewardenPolicy | undefined,
    policy: Policy | undefined,
    problem: string | undefined,
  ): void {
    const before = this.#problems.get(sourceKey({ type, key })) ?? refusalIn(object);
    const isGone = problem === undefined && policy === undefined;
    if (isGone || before === problem) return;
    const [name = '', namespace = ''] = key.split('/').reverse();
    const id = policy?.id ?? (object === undefined ? key : policyId({ ...object, kind: type.kind }));
    const severity = object?.metadata.annotations?.[severityAnnotation];
    this.#options.findings?.policy(
      { id, reference: { kind: type.kind, namespace, name }, severity },
      problem,
    );
  }

  /** It is already active. An audit waits until the status is written, because reports contain its version. */
  #announce(id: string): void {
    const opened = this.#open.get(id);
    const before = this.#announced.get(id);
    if (opened === undefined || opened === before) return;
    this.#announced.set(id, opened);
    this.#changed({ before: before?.policy, now: opened.policy });
  }

  #remove(id: string): void {
    this.#logged.delete(id);
    const before = this.#open.get(id);
    if (before === undefined) return;
    this.#open.delete(id);
    this.#enforced = [...this.#open.values()].toSorted(byId);
    if (this.#announced.delete(id)) this.#changed({ before: before.policy, now: undefined });
    this.#close(before);
  }

  #changed(change: PolicyChange): void {
    this.#audited = [...this.#announced.values()].toSorted(byId);
    for (const listener of this.#listeners) listener(change);
  }

  #close(policy: OpenPolicy): void {
    policy[Symbol.asyncDispose]().catch((err: unknown) =>
      this.#options.context.logger.warn({ err, policy: policy.policy.id }, 'cannot close a policy'),
    );
  }

  async #closeAll(): Promise<void> {
    const all = [...this.#open.values()];
    this.#open.clear();
    this.#announced.clear();
    this.#enforced = this.#audited = [];
    await Promise.allSettled(all.map((one) => one[Symbol.asyncDispose]()));
  }

  #tellOpening(source: Source, id: string, signal: AbortSignal): void {
    const object = this.#object(source);
    if (object === undefined || isDeleting(object)) return;
    for (const listener of this.#triers) listener(object);
    const status = openingStatus(object, this.#opening.get(id));
    if (!this.#options.writesStatus || status === undefined || status === object.status) return;
    this.#write(source.type, object, status, signal).catch((err: unknown) => {
      // What is written at its end says more.
      this.#options.context.logger.debug({ err, policy: id }, 'cannot tell that a policy is being opened');
    });
  }

  async #tell(
    type: ResourceType,
    object: AnyKubewardenPolicy,
    problem: string | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    if (!this.#options.writesStatus) return;
    const [id] = this.#ids.get(sourceKey({ type, key: objectKey(object) })) ?? [];
    const isAsked = id !== undefined && this.#open.has(id);
    const status = problem === undefined ? activeStatus(object) : refusedStatus(object, problem, isAsked);
    if (status === object.status) return;
    if (problem !== undefined) {
      this.#recorder.record({
        regarding: referenceTo(type, object),
        type: 'Warning',
        reason: 'PolicyNotActive',
        action: 'Opening',
        note: problem,
      });
    }
    const written = await this.#write(type, object, status, signal);
    if (id === undefined || written === undefined) return;
    const opened = this.#open.get(id);
    if (opened === undefined || this.#announced.get(id) === opened) return;
    const { resourceVersion = '' } = written.metadata;
    opened.policy = { ...opened.policy, origin: { ...opened.policy.origin, resourceVersion } };
  }

  /** @returns undefined if it is gone. @throws {KubeError} for one that has changed. */
  #write(
    type: ResourceType,
    { metadata }: AnyKubewardenPolicy,
    status: Status,
    signal: AbortSignal,
  ): Promise<AnyKubewardenPolicy | undefined> {
    const { namespace, name = '', resourceVersion } = metadata;
    const target = { namespace, name, subresource: 'status' };
    const body = { metadata: { resourceVersion }, status };
    return orUndefined(
      this.#options.context.client.patch(
        type as ResourceType<AnyKubewardenPolicy>,
        target,
        { type: 'merge', body },
        { signal },
      ),
    );
  }
}

/** A cluster without Kubewarden's definitions has ValidatingAdmissionPolicies. */
async function listedIfServed(cache: IndexedCache<AnyKubewardenPolicy>): Promise<void> {
  const refusal = await Promise.race([cache.synced, cache.refused]);
  if (refusal === 'forbidden') await cache.synced;
}

/** A cluster before 1.30 does not serve them, and not everybody may read them. */
async function listedOrRefused({ synced, refused }: Pick<IndexedCache<KubeObject>, 'refused' | 'synced'>) {
  await Promise.race([synced, refused]);
}

const policyOfBinding = ({ spec }: ValidatingAdmissionPolicyBinding): string[] => [spec?.policyName ?? ''];

const byId = (a: OpenPolicy, b: OpenPolicy): number => (a.policy.id < b.policy.id ? -1 : 1);

/** `clusteradmissionpolicies/x`, `admissionpolicies/ns/x`. */
function sourceKey({ type, key }: Source): string {
  return `${type.plural}/${key}`;
}

const sourceTypes: ReadonlyMap<string, ResourceType> = new Map(
  [...kubewardenTypes, validatingAdmissionPolicies].map((type) => [type.plural, type]),
);

function sourceOf(key: string): Source {
  const slash = key.indexOf('/');
  const type = sourceTypes.get(key.slice(0, slash));
  if (type === undefined) throw new TypeError(`no source ${key}`);
  return { type, key: key.slice(slash + 1) };
}
