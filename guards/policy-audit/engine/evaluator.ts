/**
 * The interface of the engine: a policy with its settings evaluates a request to a verdict. Each runtime (`cel`, `wapc`, `opa`,
 * `gatekeeper`, `wasi`) is a folder beside this file, and all pass one suite (evaluator.suite.fixture.ts).
 */

import type { ApplyType } from '../../../lib/apiserver/apply/type.ts';

/** Decoded JSON. Integers are numbers here; users convert those beyond 2^53, and those that CEL reads, to `bigint`. */
export type JsonObject = Record<string, unknown>;

/** The input of a policy for one write or one existing object: the `request` of an AdmissionReview of admission.k8s.io/v1. */
export interface PolicyRequest extends JsonObject {
  readonly uid: string;
  readonly operation: 'CREATE' | 'UPDATE' | 'DELETE' | 'CONNECT';
  readonly kind: { readonly group: string; readonly version: string; readonly kind: string };
  readonly resource: GroupVersionResource;
  readonly subResource?: string;
  readonly name?: string;
  readonly namespace?: string;
  readonly object?: JsonObject | null;
  readonly oldObject?: JsonObject | null;
  readonly userInfo: JsonObject;
  readonly dryRun?: boolean;
  readonly options?: JsonObject | null;
}

export interface GroupVersionResource {
  readonly group: string;
  readonly version: string;
  /** `deployments` */
  readonly resource: string;
}

/** The result of a policy. */
export interface Verdict {
  readonly allowed: boolean;
  readonly message?: string;
  /** An HTTP status: 400, 403, 500. Undefined: the caller's default. */
  readonly code?: number;
  /** The `reason` of a metav1.Status: `Invalid`, `Forbidden`. */
  readonly reason?: string;
  /** The entire object as changed by a mutating policy. Undefined if the policy did not change it. */
  readonly mutated?: JsonObject;
  readonly warnings?: readonly string[];
  readonly auditAnnotations?: Readonly<Record<string, string>>;
  /** For a group: why each member refused, or could not be evaluated. */
  readonly causes?: readonly { readonly field: string; readonly message: string }[];
  /** What the policy requested from outside, if anything. The verdict holds as long as the answers stay the same. */
  readonly asked?: readonly AskedOfCluster[];
}

/**
 * What a policy requested from outside: objects of the cluster; or an access check, whose kind is SubjectAccessReview; or another host
 * call, whose kind is the call's name, such as `oci/v1/verify`. Changes of the last two cannot be watched.
 */
export interface AskedOfCluster {
  readonly apiVersion: string;
  readonly kind: string;
  /** Undefined: all namespaces, or cluster-scoped. */
  readonly namespace?: string;
  /** Undefined: all objects of the kind. */
  readonly name?: string;
}

export interface SettingsVerdict {
  readonly valid: boolean;
  readonly message?: string;
}

/** `none`: the runtime of a policy that cannot be evaluated. */
export type RuntimeName = 'cel' | 'gatekeeper' | 'group' | 'none' | 'opa' | 'wapc' | 'wasi';

/** What is known about the kind of an object, for policies that change it. */
export interface ObjectModel {
  /** How configurations are merged into the object. */
  readonly applyType: ApplyType;
  /**
   * Fills in defaults, in place.
   *
   * @throws {Error} if the object is not valid for its kind
   */
  complete(this: void, object: JsonObject): void;
}

export interface EvaluateOptions {
  /** Model of the object. Default: its kind is unknown. */
  readonly model?: ObjectModel | undefined;
  readonly signal?: AbortSignal | undefined;
  /**
   * Time limit of this evaluation, unless the policy has its own; in a group, of each member. Default: 2,000
   * ms.
   */
  readonly deadlineMs?: number | undefined;
  /** Whether the request is not an admission request. */
  readonly isRaw?: boolean | undefined;
}

/**
 * A policy with its settings, ready for concurrent evaluations. The caller disposes it: running evaluations then
 * end with an {@link EvaluationError}.
 *
 * @example
 * await using policy = await openEvaluator({ module, settings, hostCalls });
 * const { valid, message } = await policy.validateSettings();
 * const { allowed } = await policy.evaluate(request);
 */
export interface Evaluator extends AsyncDisposable {
  readonly runtime: RuntimeName;
  /** Why the policy currently gives no verdicts, and whether its failurePolicy then decides on writes. Undefined: it gives verdicts. */
  readonly unavailable?: { readonly problem: string; readonly isEnforced: boolean } | undefined;
  /**
   * The policy's own verdict on its settings; valid if it does not check them.
   *
   * @throws {EvaluationError}
   */
  validateSettings(options?: EvaluateOptions): Promise<SettingsVerdict>;
  /** @throws {EvaluationError} if there is no verdict: it ran too long, trapped, or returned garbage. */
  evaluate(request: PolicyRequest, options?: EvaluateOptions): Promise<Verdict>;
}

/** Why there is no verdict. The server responds with HTTP 200, allowed=false, code 500; the scanner reports `error`. */
export class EvaluationError extends Error {
  /** `unavailable`: the policy cannot be evaluated, for example because its module cannot be fetched. */
  readonly why: 'aborted' | 'answer' | 'deadline' | 'expression' | 'memory' | 'trap' | 'unavailable';
  /** Requests that were made before the error, see {@link Verdict.asked}. */
  asked: readonly AskedOfCluster[] = [];

  constructor(why: EvaluationError['why'], message: string, options?: ErrorOptions) {
    const depth = Error.stackTraceLimit;
    // Capturing a stack takes longer than most expressions run, and the stack does not show anything about them.
    if (why === 'expression') Error.stackTraceLimit = 0;
    super(message, options);
    Error.stackTraceLimit = depth;
    this.name = 'EvaluationError';
    this.why = why;
  }
}

/**
 * A policy's requests to the outside while it runs. Capabilities are checked here, not in the runtimes.
 *
 * @example
 * const answer = await hostCalls.call({ binding: 'kubewarden', namespace: 'kubernetes', operation: 'get_resource' }, payload);
 */
export interface HostCalls {
  /**
   * @returns the answer for the guest: JSON in UTF-8.
   * @throws {Error} whose message is passed to the guest, if the call is not granted, is unknown or has failed.
   */
  call(operation: HostOperation, payload: Uint8Array, signal?: AbortSignal): Promise<Uint8Array>;
}

export interface HostOperation {
  readonly binding: string;
  readonly namespace: string;
  readonly operation: string;
}
