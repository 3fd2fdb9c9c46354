/** Evaluates policies in the process of the API server, which does not call webhooks. */
import { isDeepStrictEqual } from 'node:util';

import { apiErrors } from '../../../lib/apiserver/resources/api-error.ts';
import { isObject, type JsonObject } from '../../../lib/json/json.ts';
import type { Admission, AdmissionRequest, Changed } from '../../../guard/admission.ts';
import { systemNamespace } from '../../../guard/guard.ts';
import type { Labels } from '../../../lib/kube/selectors/selectors.ts';
import { mirrorUser } from '../../../guard/mirrored.ts';
import type { ExceptionSet } from '../exceptions/exception-set.ts';
import type { ReportedWrite } from '../findings/policy-findings.ts';
import type { GroupVersionResource, ObjectModel, PolicyRequest } from '../engine/evaluator.ts';
import { matchPolicy, type MatchTarget } from '../policies/match.ts';
import { modelOf } from '../policies/object-model.ts';
import type { Evaluation, Judgement, OpenPolicy } from '../policies/open-policy.ts';
import type { Policy } from '../policies/policy.ts';
import { isSpared } from '../policies/spared.ts';
import { refuseFaultyPolicy } from './faulty-policy.ts';
import {
  admissionPolicyRefusal,
  admissionPolicyWarning,
  type MutationFailure,
  mutationRefusal,
  webhookFailure,
  webhookName,
  webhookRefusal,
} from './refusal.ts';

export interface PolicyAdmissionOptions {
  /** Returns the policies that are evaluated for each write. */
  readonly policies: () => readonly OpenPolicy[];
  /** Returns the labels of a namespace; undefined if it does not exist. */
  readonly namespaceLabels: (name: string) => Labels | undefined;
  /** Default: none. */
  readonly exceptions?: Pick<ExceptionSet, 'find' | 'isEmpty'>;
  /** Called with each answer of a policy, for metrics. */
  readonly onAnswer: (policy: Policy, answer: AdmissionAnswer, operation: string) => void;
  /** Called with each evaluation that ended in time. */
  readonly onEvaluated?: (evaluation: Evaluation) => void;
  /** Called with each write that a policy refuses or cannot evaluate. */
  readonly onFinding?: (policy: Policy, write: ReportedWrite) => void;
}

export type AdmissionAnswer = 'allowed' | 'error' | 'excepted' | 'mutated' | 'rejected' | 'wouldReject';

type Objects = readonly [object: JsonObject | undefined, old: JsonObject | undefined];

/**
 * Mutating policies are evaluated one after the other, before the object is validated: first those of Kubernetes
 * by name, then those of Kubewarden, which are webhooks in a cluster, then once more those of Kubernetes that
 * request reinvocation. All other policies are evaluated after that, in parallel.
 *
 * Policies are not evaluated for objects that Rampart itself keeps in its namespace, unless they ask for it. No
 * policy is evaluated for pods that mirror the machine: those run already, and an audit reports them.
 */
export class PolicyAdmission implements Admission {
  readonly #options: PolicyAdmissionOptions;

  constructor(options: PolicyAdmissionOptions) {
    this.#options = options;
  }

  admit(
    request: AdmissionRequest,
    object: JsonObject | undefined,
    old: JsonObject | undefined,
  ): Changed | Promise<Changed> {
    if (object === undefined || !this.#options.policies().some(({ policy }) => policy.isMutating))
      return undefined;
    return this.#mutate(request, object, old);
  }

  validate(
    request: AdmissionRequest,
    object: JsonObject | undefined,
    old: JsonObject | undefined,
  ): void | Promise<void> {
    refuseFaultyPolicy(request, object, old);
    const asked = this.#relevant(request, [object, old], ({ isMutating }) => !isMutating);
    return asked.length === 0 ? undefined : this.#validate(request, asked, [object, old]);
  }

  #relevant(
    request: AdmissionRequest,
    objects: Objects,
    isAsked: (policy: Policy) => boolean,
  ): (readonly [OpenPolicy, GroupVersionResource])[] {
    const { resource, namespace, name, user } = request;
    if (user.name === mirrorUser) return [];
    const isNamespace = resource.plural === 'namespaces' && resource.group === '';
    const isSystem = (isNamespace ? name : namespace) === systemNamespace;
    const found: (readonly [OpenPolicy, GroupVersionResource])[] = [];
    let target: MatchTarget | undefined;
    for (const open of this.#options.policies()) {
      if (!isAsked(open.policy) || (isSystem && !open.policy.isForSystem)) continue;
      target ??= this.#target(request, objects);
      if (open.policy.source === 'kubewarden' && isSpared(open.policy, target)) continue;
      const shown = matchPolicy(open.policy, target);
      if (typeof shown === 'string') continue;
      if (this.#isExcepted(open.policy, request, objects)) {
        this.#options.onAnswer(open.policy, 'excepted', request.operation);
        continue;
      }
      found.push([open, shown]);
    }
    return found;
  }

  #isExcepted(
    { origin }: Policy,
    { resource, namespace, name }: AdmissionRequest,
    [object, old]: Objects,
  ): boolean {
    const { exceptions } = this.#options;
    if (exceptions === undefined || exceptions.isEmpty) return false;
    const { group, kind, namespaced } = resource;
    const labels = labelsOf(object ?? old) ?? {};
    return (
      exceptions.find(origin, { group, kind, namespace: namespaced ? namespace : '', name, labels }) !==
      undefined
    );
  }

  #target(
    { operation, resource, subresource, namespace, name }: AdmissionRequest,
    [object, old]: Objects,
  ): MatchTarget {
    const { group, version, plural, namespaced } = resource;
    const isNamespace = group === '' && plural === 'namespaces';
    return {
      operation,
      group,
      version,
      resource: plural,
      subresource: subresource?.name ?? '',
      isNamespaced: namespaced,
      namespace: isNamespace ? name : namespace,
      name,
      equivalents: [],
      labels: labelsOf(object),
      oldLabels: labelsOf(old),
      namespaceLabels: isNamespace
        ? (labelsOf(object) ?? labelsOf(old) ?? {})
        : namespaced
          ? (this.#options.namespaceLabels(namespace) ?? {})
          : undefined,
    };
  }

  async #mutate(
    request: AdmissionRequest,
    object: JsonObject,
    old: JsonObject | undefined,
  ): Promise<JsonObject | undefined> {
    /** Policies that request reinvocation if later policies change the object, with the object as each policy left it. */
    const seen = new Map<string, JsonObject>();
    let current = await this.#mutateByAll(request, [object, old], isOfKubernetes, (policy, after) => {
      if (policy.isReinvoked) seen.set(policy.id, after);
    });
    current = await this.#mutateByAll(request, [current, old], isMutatingWebhook);
    const again = new Set(
      [...seen].flatMap(([id, after]) => (isDeepStrictEqual(after, current) ? [] : [id])),
    );
    if (again.size > 0)
      current = await this.#mutateByAll(request, [current, old], (policy) => again.has(policy.id));
    return current === object ? undefined : structuredClone(current);
  }

  /**
   * @param evaluated - Called for each policy that applied, with the object after it.
   * @throws {ApiError} if a policy refuses, or cannot be applied
   */
  async #mutateByAll(
    request: AdmissionRequest,
    [object, old]: readonly [JsonObject, JsonObject | undefined],
    isAsked: (policy: Policy) => boolean,
    evaluated?: (policy: Policy, after: JsonObject) => void,
  ): Promise<JsonObject> {
    const failures: MutationFailure[] = [];
    const model = modelOf(request.resource);
    let current = object;
    for (const [open, kind] of this.#relevant(request, [object, old], isAsked).toSorted(byPolicyName)) {
      const { policy } = open;
      const judgement = await this.#ask(open, request, kind, [current, old], model);
      if (judgement === undefined) continue;
      if (judgement.type === 'error' && policy.source === 'MutatingAdmissionPolicy') {
        const { message } = judgement.error;
        this.#options.onAnswer(policy, 'error', request.operation);
        this.#notify(policy, request, 'errored', { reason: message, isRefused: !policy.ignoresFailures });
        // The other policies are still evaluated, to report all failures.
        if (!policy.ignoresFailures) failures.push({ policy, message });
        continue;
      }
      this.#decide(policy, request, judgement);
      if (judgement.type !== 'verdict') continue;
      const { allowed, mutated } = judgement.verdict;
      if (mutated !== undefined && allowed && policy.mode !== 'monitor') {
        current = mutated;
        this.#options.onAnswer(policy, 'mutated', request.operation);
      }
      evaluated?.(policy, current);
    }
    const [first, ...more] = failures;
    if (first !== undefined) throw mutationRefusal(request.resource, request.name, [first, ...more]);
    return current;
  }

  async #validate(
    request: AdmissionRequest,
    asked: readonly (readonly [OpenPolicy, GroupVersionResource])[],
    objects: Objects,
  ): Promise<void> {
    const judgements = await Promise.all(
      asked.map(
        async ([open, kind]) => [open.policy, await this.#ask(open, request, kind, objects)] as const,
      ),
    );
    const refusals: unknown[] = [];
    for (const [policy, judgement] of judgements) {
      if (judgement === undefined) continue;
      try {
        this.#decide(policy, request, judgement);
      } catch (error) {
        refusals.push(error);
      }
    }
    // Like in an API server, one refusal is the answer. Here it is always the same one: the first by name of policy.
    if (refusals.length > 0) throw refusals[0];
  }

  /** @throws {ApiError} if the policy refuses. */
  #decide(policy: Policy, request: AdmissionRequest, judgement: Judgement): void {
    const { onAnswer } = this.#options;
    const { operation, resource, name, warnings } = request;
    if (judgement.type === 'skipped') return;
    if (judgement.type === 'verdict') warnings.push(...(judgement.verdict.warnings ?? []));
    if (judgement.type === 'verdict' && judgement.verdict.allowed) {
      onAnswer(policy, 'allowed', operation);
      return;
    }
    const isError = judgement.type === 'error';
    if (isError && policy.ignoresFailures && policy.source === 'ValidatingAdmissionPolicy') {
      onAnswer(policy, 'error', operation);
      this.#notify(policy, request, 'errored', { reason: judgement.error.message, isRefused: false });
      return;
    }
    const verdict = isError
      ? { allowed: false, message: judgement.error.message, code: 500 }
      : judgement.verdict;
    const isRefused = policy.mode === 'protect';
    onAnswer(policy, isError ? 'error' : isRefused ? 'rejected' : 'wouldReject', operation);
    const reported = isError ? 'errored' : isRefused ? 'rejected' : 'monitored';
    this.#notify(policy, request, reported, { reason: verdict.message ?? '', isRefused });
    if (policy.warns) warnings.push(admissionPolicyWarning(policy, verdict.message ?? ''));
    if (!isRefused) return;
    throw policy.source === 'kubewarden'
      ? webhookRefusal(policy, verdict)
      : admissionPolicyRefusal(resource, name, policy, verdict);
  }

  /**
   * The policy's judgement; undefined if it did not answer and its failurePolicy is Ignore. @throws {ApiError} if
   * its failurePolicy is Fail
   */
  async #ask(
    open: OpenPolicy,
    request: AdmissionRequest,
    kind: GroupVersionResource,
    objects: Objects,
    model?: ObjectModel,
  ): Promise<Judgement | undefined> {
    const { policy } = open;
    if (request.dryRun && policy.hasSideEffects) {
      throw apiErrors.badRequest(`admission webhook "${webhookName(policy)}" does not support dry run`);
    }
    const time = AbortSignal.timeout(policy.timeoutMs);
    const asked = policyRequest(request, kind, objects);
    const beganMs = performance.now();
    let judgement: Judgement;
    try {
      judgement = await open.ask(asked, time, model);
    } catch (error) {
      if (!time.aborted) throw error;
      const waitedFor = open.unavailable === undefined ? '' : `: ${open.unavailable}`;
      return this.#unanswered(
        policy,
        request,
        `it did not respond within ${policy.timeoutMs / 1000} s${waitedFor}`,
      );
    }
    // A Kubernetes policy is not a webhook: its error is reported as a refusal.
    if (policy.source === 'kubewarden' && judgement.type === 'error' && judgement.error.why === 'unavailable')
      return this.#unanswered(policy, request, judgement.error.message);
    this.#options.onEvaluated?.({
      ...{ policy, request: asked, judgement },
      latencyMs: performance.now() - beganMs,
    });
    return judgement;
  }

  /** The failurePolicy decides, as for a webhook that does not answer. @throws {ApiError} */
  #unanswered(policy: Policy, request: AdmissionRequest, reason: string): undefined {
    this.#options.onAnswer(policy, 'error', request.operation);
    const isRefused = !policy.ignoresFailures && policy.mode !== 'monitor';
    this.#notify(policy, request, 'errored', { reason, isRefused });
    if (isRefused) throw webhookFailure(policy, reason);
    return undefined;
  }

  #notify(
    policy: Policy,
    { operation, user, resource, namespace, name, dryRun }: AdmissionRequest,
    verdict: ReportedWrite['verdict'],
    why: Pick<ReportedWrite, 'isRefused' | 'reason'>,
  ): void {
    const object = { kind: resource.kind, namespace: resource.namespaced ? namespace : '', name };
    this.#options.onFinding?.(policy, {
      operation,
      user: user.name,
      isDryRun: dryRun,
      object,
      verdict,
      ...why,
    });
  }
}

const isOfKubernetes = ({ source }: Policy): boolean => source === 'MutatingAdmissionPolicy';

const isMutatingWebhook = ({ source, isMutating }: Policy): boolean => source === 'kubewarden' && isMutating;

/** Sorts webhooks by name, which is the policy's ID, and policies of Kubernetes by the name of the policy, then of the binding. */
function byPolicyName(
  [{ policy: a }]: readonly [OpenPolicy, unknown],
  [{ policy: b }]: readonly [OpenPolicy, unknown],
): number {
  if (isOfKubernetes(a) && a.origin.name !== b.origin.name) return a.origin.name < b.origin.name ? -1 : 1;
  return a.id < b.id ? -1 : 1;
}

/** The `request` of an AdmissionReview that Kubernetes sends to a webhook. */
function policyRequest(
  { operation, resource, subresource, namespace, name, user, dryRun }: AdmissionRequest,
  shown: GroupVersionResource,
  [object, old]: Objects,
): PolicyRequest {
  const { group, version, plural, kind } = resource;
  return {
    uid: crypto.randomUUID(),
    kind: { group: shown.group, version: shown.version, kind },
    resource: { group: shown.group, version: shown.version, resource: plural },
    requestKind: { group, version, kind },
    requestResource: { group, version, resource: plural },
    ...(subresource && { subResource: subresource.name, requestSubResource: subresource.name }),
    ...(name !== '' && { name }),
    ...(namespace !== '' && { namespace }),
    operation,
    userInfo: { username: user.name, groups: user.groups },
    object: object ?? null,
    oldObject: old ?? null,
    dryRun,
    options: null,
  };
}

function labelsOf(object: JsonObject | undefined): Labels | undefined {
  if (object === undefined) return undefined;
  const { metadata } = object;
  const labels = isObject(metadata) ? metadata['labels'] : undefined;
  return isObject(labels) ? (labels as Labels) : {};
}
