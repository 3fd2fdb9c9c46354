/** The policies that can be evaluated now; follows the policies in the API. */
import type { GuardContext } from '../../../guard/context.ts';
import { done, requeueAfter, type Result, runController } from '../../../lib/kube/controller/controller.ts';
import { keyQueue } from '../../../lib/kube/controller/key-queue.ts';
import { objectKey, type ResourceType } from '../../../lib/kube/object/object.ts';
import { messageOf } from '../../../lib/errors/errors.ts';
import { isDeleting, removeFinalizer } from '../../../lib/kube/controller/finalizers.ts';
import type { AnyKubewardenPolicy } from '../api.ts';
import { aborted } from '../../../lib/time/abort.ts';
import { type Clock, systemClock } from '../../../lib/time/clock.ts';
import { Listeners } from '../../../lib/time/listeners.ts';
import type { PolicyFindings } from '../findings/policy-findings.ts';
import { FailedVersions } from './failed-versions.ts';
import type { KeptPolicies } from './kept-policies.ts';
import type { OpenPolicy, Runtimes } from './open-policy.ts';
import { PoliciesInUse, type PolicyChange } from './policies-in-use.ts';
import type { Policy } from './policy.ts';
import { PolicyOpener } from './policy-opener.ts';
import { PolicySources, type Source, sourceKey, sourceOf } from './policy-sources.ts';
import { isInUse, isKnownUnused, refusalIn, type Substitute } from './policy-status.ts';
import { policyId, severityAnnotation } from './read-policy.ts';
import { StatusWriter } from './status-writer.ts';

export interface PolicySetOptions {
  readonly context: GuardContext;
  readonly runtimes: Runtimes;
  /** Whether this process decides on admission, and so reports in the status of policies whether they are active. */
  readonly writesStatus: boolean;
  /** Whether MutatingAdmissionPolicies are included if the API serves them. Default: `writesStatus`. */
  readonly mutates?: boolean;
  /** Whether the finalizers of Kubewarden's controller are removed from deleted policies. Default: false. */
  readonly releases?: boolean;
  /** Where the last version of each policy that could be evaluated is kept. Default: nowhere. */
  readonly kept?: KeptPolicies | undefined;
  /** Gets a finding when a policy cannot be evaluated as written, and when it can be again. Default: no findings. */
  readonly findings?: Pick<PolicyFindings, 'policy'>;
  /** For tests. Default: the machine's clock. */
  readonly clock?: Clock;
}

/** The outcome of opening a policy at one generation. */
interface Trial {
  readonly generation: number | undefined;
  /** Why the policy cannot run; '' if it can. */
  readonly refusal: string;
}

/** If opening a policy takes longer, its status says that the policy is being opened. */
const SLOW_MS = 5000;
/**
 * Finalizers that Kubewarden's controller adds to each policy; the first one before 1.14. Without the controller,
 * they would keep policies from being deleted.
 */
export const formerFinalizers = ['kubewarden', 'kubewarden.io/finalizer'];

/**
 * Policies, keyed by ID. If the current version cannot be opened, the previous one is used, even after a restart
 * if it was kept: refused writes stay refused until the new version can be evaluated, and the status says so. If a
 * policy was in use and has no previous version, its failurePolicy decides.
 */
export class PolicySet {
  readonly #options: PolicySetOptions;
  readonly #sources: PolicySources;
  readonly #status: StatusWriter | undefined;
  readonly #inUse: PoliciesInUse;
  readonly #opener: PolicyOpener;
  /** IDs of the policies from each source, keyed by the source. */
  readonly #ids = new Map<string, ReadonlySet<string>>();
  /** Why a policy is not active as written, keyed by its source. */
  readonly #problems = new Map<string, string>();
  readonly #trials = new Map<string, Trial>();
  readonly #failed: FailedVersions;
  /** Since when a policy's module is being fetched and compiled, keyed by ID. */
  readonly #opening = new Map<string, number>();
  readonly #listeners = new Listeners<[change: PolicyChange]>();
  readonly #clock: Clock;
  readonly #triers = new Listeners<[object: AnyKubewardenPolicy]>();
  readonly #complete = Promise.withResolvers<void>();
  readonly #decided = Promise.withResolvers<void>();

  constructor(options: PolicySetOptions) {
    this.#options = options;
    const { context, runtimes } = options;
    this.#clock = options.clock ?? systemClock;
    this.#failed = new FailedVersions(this.#clock);
    this.#sources = new PolicySources(context, options.mutates ?? options.writesStatus);
    this.#status = options.writesStatus ? new StatusWriter(context) : undefined;
    this.#inUse = new PoliciesInUse(runtimes, context.logger, (change) => this.#listeners.notify(change));
    this.#opener = new PolicyOpener({ ...options, logger: context.logger, inUse: this.#inUse });
  }

  /** Policies that apply to writes; a new list after each change. */
  get enforced(): readonly OpenPolicy[] {
    return this.#inUse.enforced;
  }

  /**
   * Policies that objects are audited with; a new list after each change, about which listeners are notified.
   * Includes policies that cannot be evaluated: their last results are kept.
   */
  get audited(): readonly OpenPolicy[] {
    return this.#inUse.audited;
  }

  /** Policies of Kubewarden's kinds, whether they can be evaluated or not. */
  kubewarden(): Generator<AnyKubewardenPolicy> {
    return this.#sources.kubewarden();
  }

  /** Policies whose modules are being fetched or compiled: when that began, in ms since 1970, keyed by ID. */
  get opening(): ReadonlyMap<string, number> {
    return this.#opening;
  }

  /** Why sources cannot be evaluated as written, keyed by source: `clusteradmissionpolicies/x`. */
  get problems(): ReadonlyMap<string, string> {
    return this.#problems;
  }

  /** Resolves when all policies that existed at the start have been tried once. */
  get complete(): Promise<void> {
    return this.#complete.promise;
  }

  /**
   * Resolves when `enforced` contains all policies that were in use at the start. Only requests to a policy that
   * is not open yet have to wait any longer.
   */
  get decided(): Promise<void> {
    return this.#decided.promise;
  }

  get(id: string): OpenPolicy | undefined {
    return this.#inUse.get(id);
  }

  /**
   * Why a policy cannot run as written: '' if it can; undefined if it was not tried yet.
   */
  refusal(type: ResourceType, object: AnyKubewardenPolicy): string | undefined {
    const trial = this.#trials.get(sourceKey({ type, key: objectKey(object) }));
    return trial?.generation === object.metadata.generation ? trial?.refusal : undefined;
  }

  /** Called with each policy that was tried, and with each whose opening takes long. */
  onTried(listener: (object: AnyKubewardenPolicy) => void): Disposable {
    return this.#triers.add(listener);
  }

  onChange(listener: (change: PolicyChange) => void): Disposable {
    return this.#listeners.add(listener);
  }

  /** Runs until the signal of the context aborts, and then closes all policies. */
  async run(): Promise<void> {
    const { signal, logger, metrics } = this.#options.context;
    using queue = keyQueue(this.#clock);
    using subscriptions = new DisposableStack();
    await Promise.race([aborted(signal), this.#sources.listed()]);
    if (signal.aborted) return;
    this.#sources.subscribe(subscriptions, (key) => queue.add(key));
    const initial = new Set(this.#sources.keys());
    const undecided = this.#substituteInUse(initial);
    await this.#forgetDeleted();
    const tried = (key: string): void => {
      initial.delete(key);
      undecided.delete(key);
      if (undecided.size === 0) this.#decided.resolve();
      if (initial.size === 0) this.#complete.resolve();
    };
    tried('');
    for (const key of initial) queue.add(key);
    try {
      await runController({
        name: 'policies',
        queue,
        workers: 4,
        reconcile: async (key, stop) => {
          try {
            return await this.#reconcile(key, stop);
          } finally {
            tried(key);
          }
        },
        signal,
        logger,
        metrics: metrics?.controllers,
        clock: this.#clock,
      });
    } finally {
      await this.#inUse.closeAll();
    }
  }

  /** @returns the sources for which it is unknown whether they were in use */
  #substituteInUse(keys: ReadonlySet<string>): Set<string> {
    const undecided = new Set<string>();
    for (const key of keys) {
      const source = sourceOf(key);
      const object = this.#sources.object(source);
      try {
        const isUsed = object === undefined || isInUse(object);
        for (const policy of isUsed ? this.#sources.read(source) : []) this.#inUse.substitute(policy, true);
        if (object !== undefined && !isUsed && !isKnownUnused(object)) undecided.add(key);
      } catch {
        // Errors are reported when the policy is opened.
        undecided.add(key);
      }
    }
    return undecided;
  }

  /** Forgets policies that were deleted while no process watched. */
  async #forgetDeleted(): Promise<void> {
    const { kept } = this.#options;
    if (kept !== undefined) await kept.retain(new Set(Array.from(this.kubewarden(), policyId)));
  }

  async #reconcile(key: string, signal: AbortSignal): Promise<Result> {
    const source = sourceOf(key);
    let wanted: readonly Policy[] = [];
    let problem: string | undefined;
    const object = this.#sources.object(source);
    try {
      wanted = this.#sources.read(source);
    } catch (error) {
      problem = messageOf(error);
    }
    const ids = new Set(wanted.map(({ id }) => id));
    // The previous version of a malformed policy is kept.
    if (problem === undefined) {
      for (const id of this.#ids.get(key) ?? []) if (!ids.has(id)) this.#remove(id);
      this.#ids.set(key, ids);
    } else await this.#standInForUnreadable(source, object, problem, signal);
    for (const policy of wanted) problem = (await this.#renew(source, policy, object, signal)) ?? problem;
    this.#reportFinding(source, object, wanted[0], problem);
    if (problem === undefined) this.#problems.delete(key);
    else this.#problems.set(key, problem);
    if (object !== undefined) {
      const { generation } = object.metadata;
      this.#trials.set(key, { generation, refusal: problem ?? '' });
      this.#triers.notify(object);
      // The status may have been written since then.
      const latest = this.#sources.object(source) ?? object;
      const reported = latest.metadata.generation === generation ? latest : object;
      if (!isDeleting(reported)) await this.#notify(source.type, reported, problem, signal);
      else if (this.#options.releases === true)
        await removeFinalizer(this.#options.context.client, source.type, object, formerFinalizers, {
          signal,
        });
    } else if (wanted.length === 0) {
      this.#ids.delete(key);
      this.#problems.delete(key);
      this.#trials.delete(key);
    }
    for (const id of this.#ids.get(key) ?? []) this.#inUse.announce(id);
    if (problem === undefined) return done;
    return requeueAfter(this.#failed.waitMs(wanted.map(({ id }) => id)));
  }

  /** Tries to open the current version. One that has failed is tried again only when it is due, however often its object is written. */
  async #renew(
    source: Source,
    policy: Policy,
    object: AnyKubewardenPolicy | undefined,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const { id } = policy;
    if (this.#isOpen(policy)) return undefined;
    const known = this.#failed.problemOf(policy);
    if (known !== undefined) return known;
    let meanwhile: Promise<void> | undefined;
    const cancel = this.#clock.schedule(
      SLOW_MS,
      () => void (meanwhile = this.#whileOpening(source, policy, signal)),
    );
    this.#opening.set(id, Date.now());
    let problem: string | undefined;
    try {
      problem = await this.#opener.open(policy, object, signal);
    } finally {
      cancel();
      // `#whileOpening` may be opening the kept version: without this wait, that version could outlive the policy.
      await meanwhile;
      this.#opening.delete(id);
    }
    if (problem !== undefined && !this.#inUse.get(id))
      await this.#opener.useKept(source.type, policy, signal);
    if (this.#isOpen(policy)) {
      this.#forgetFailures(id);
      return undefined;
    }
    problem ??= 'it was changed meanwhile';
    this.#failed.add(policy, problem);
    // A ValidatingAdmissionPolicy is in use from its creation: if it does not compile, its failurePolicy decides.
    this.#inUse.substitute(policy, object === undefined || isInUse(object), problem);
    return problem;
  }

  /** Uses a malformed policy's last evaluated version after a restart, if that was kept. If not, the results in reports are kept. */
  async #standInForUnreadable(
    source: Source,
    object: AnyKubewardenPolicy | undefined,
    problem: string,
    signal: AbortSignal,
  ): Promise<void> {
    const policy = this.#sources.withoutSelectors(source);
    if (policy === undefined || object === undefined) return;
    if (this.#inUse.get(policy.id) !== undefined) return;
    this.#ids.set(sourceKey(source), new Set([policy.id]));
    await this.#opener.useKept(source.type, policy, signal);
    // It is unknown which objects the policy applies to, so nothing is reported for objects without a result.
    const isEnforced = this.#options.writesStatus && isInUse(object);
    this.#inUse.substitute(policy, isEnforced, problem);
  }

  #isOpen({ id, version }: Policy): boolean {
    return this.#inUse.get(id)?.policy.version === version;
  }

  /** If opening takes long, uses the last evaluated version; without one, the status says that the policy is being opened. */
  async #whileOpening(source: Source, policy: Policy, signal: AbortSignal): Promise<void> {
    try {
      if (this.#inUse.get(policy.id) === undefined) await this.#opener.useKept(source.type, policy, signal);
      const object = this.#sources.object(source);
      if (object === undefined || isDeleting(object)) return;
      this.#triers.notify(object);
      if (this.#inUse.get(policy.id) !== undefined) return;
      await this.#status?.reportOpening(source.type, object, this.#opening.get(policy.id), signal);
    } catch (err) {
      // The log message at the end of the opening contains more.
      this.#options.context.logger.debug(
        { err, policy: policy.id },
        'cannot tell that a policy is being opened',
      );
    }
  }

  /** Reports each problem once. After a restart, problems in the status count as reported. */
  #reportFinding(
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

  #forgetFailures(id: string): void {
    this.#opener.forget(id);
    this.#failed.forget(id);
  }

  #remove(id: string): void {
    this.#forgetFailures(id);
    this.#inUse.remove(id);
    void this.#options.kept?.forget(id);
  }

  /** Reports contain the version of the status, so an audit waits until that is written. */
  async #notify(
    type: ResourceType,
    object: AnyKubewardenPolicy,
    problem: string | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    if (this.#status === undefined) return;
    const [id = ''] = this.#ids.get(sourceKey({ type, key: objectKey(object) })) ?? [];
    const opened = this.#inUse.get(id);
    const substitute: Substitute =
      opened !== undefined ? 'former' : this.#inUse.isSubstituted(id) ? 'failurePolicy' : undefined;
    const resourceVersion = await this.#status.notify(type, object, { problem, substitute }, signal);
    if (resourceVersion === undefined || opened === undefined || this.#inUse.isAnnounced(opened)) return;
    opened.policy = { ...opened.policy, origin: { ...opened.policy.origin, resourceVersion } };
  }
}
