/**
 * The interface of the engine: a policy with its settings evaluates a request to a verdict. Each runtime (`cel`, `wapc`, `opa`,
 * `gatekeeper`, `wasi`) is a folder beside this file, and all pass one suite (evaluator.suite.fixture.ts).
 */

import type { ApplyType } from '../../../lib/apiserver/apply/type.ts';

/** Decoded JSON. Integers beyond 2^53 and those that CEL reads are converted to `bigint` by their users, not here. */
export type JsonObject = Record<string, unknown>;

/** The input of a policy for one write, or for one existing object: `request` of an AdmissionReview of admission.k8s.io/v1. */
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
  /** As an HTTP status: 400, 403, 500. Undefined: the caller's default. */
  readonly code?: number;
  /** As in metav1.Status: `Invalid`, `Forbidden`. */
  readonly reason?: string;
  /** The entire object as a mutating policy wants it. Only if it differs. */
  readonly mutated?: JsonObject;
  readonly warnings?: readonly string[];
  readonly auditAnnotations?: Readonly<Record<string, string>>;
  /** For a group: why each member refused, or could not be evaluated. */
  readonly causes?: readonly { readonly field: string; readonly message: string }[];
  /** Its requests to the outside, if any. The verdict holds as long as their answers are unchanged. */
  readonly asked?: readonly AskedOfCluster[];
}

/** Something whose changes are not reported has a kind, too: that of a SubjectAccessReview, or the name of the host call. */
export interface AskedOfCluster {
  readonly apiVersion: string;
  readonly kind: string;
  /** Undefined: of all namespaces, or of none. */
  readonly namespace?: string;
  /** Undefined: all of the kind. */
  readonly name?: string;
}

export interface SettingsVerdict {
  readonly valid: boolean;
  readonly message?: string;
}

/** `none`: of a policy that cannot be evaluated. */
export type RuntimeName = 'cel' | 'gatekeeper' | 'group' | 'none' | 'opa' | 'wapc' | 'wasi';

/** Knowledge about the kind of an object, for policies that change it. */
export interface ObjectModel {
  /** How configurations are merged into it. */
  readonly applyType: ApplyType;
  /**
   * Fills in defaults, in place.
   *
   * @throws {Error} if it is not an object of its kind
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
  /** Whether it is no admission request. */
  readonly isRaw?: boolean | undefined;
}

/**
 * A policy with its settings, ready for concurrent evaluations. Whoever opens one disposes it: running evaluations end
 * with an {@link EvaluationError} then.
 *
 * @example
 * await using policy = await openEvaluator({ module, settings, hostCalls });
 * const { valid, message } = await policy.validateSettings();
 * const { allowed } = await policy.evaluate(request);
 */
export interface Evaluator extends AsyncDisposable {
  readonly runtime: RuntimeName;
  /** Why it has no verdicts now, and whether the failurePolicy of the policy decides on writes then. Undefined: it has. */
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
  /** Requests made before the error: as in a verdict. */
  asked: readonly AskedOfCluster[] = [];

  constructor(why: EvaluationError['why'], message: string, options?: ErrorOptions) {
    const depth = Error.stackTraceLimit;
    // Capturing a stack takes longer than most expressions run, and says nothing about them.
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
   * @throws {Error} whose message is passed to the guest: not granted, unknown, failed.
   */
  call(operation: HostOperation, payload: Uint8Array, signal?: AbortSignal): Promise<Uint8Array>;
}

export interface HostOperation {
  readonly binding: string;
  readonly namespace: string;
  readonly operation: string;
}
