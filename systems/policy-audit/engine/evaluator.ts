/**
 * The one call of the engine: a policy with its settings and a request give a verdict. Each runtime (`cel`, `wapc`, `opa`,
 * `gatekeeper`, `wasi`) is a folder beside this file, and all are run by one suite (evaluator.suite.fixture.ts).
 */

/** JSON as it was decoded. Integers beyond 2^53 and those that CEL reads are made `bigint` by who needs them, not here. */
export type JsonObject = Record<string, unknown>;

/** What a policy is told of one write, or of one object that is there: `request` of an AdmissionReview of admission.k8s.io/v1. */
export interface PolicyRequest extends JsonObject {
  readonly uid: string;
  readonly operation: 'CREATE' | 'UPDATE' | 'DELETE' | 'CONNECT';
  readonly kind: GroupVersionKind;
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

export interface GroupVersionKind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
}

export interface GroupVersionResource {
  readonly group: string;
  readonly version: string;
  readonly resource: string;
}

/** What a policy says. */
export interface Verdict {
  readonly allowed: boolean;
  readonly message?: string;
  /** As an HTTP status: 400, 403, 500. Undefined: the caller's default. */
  readonly code?: number;
  /** As metav1.Status has it: `Invalid`, `Forbidden`. */
  readonly reason?: string;
  /** The whole object as a mutating policy wants it. Only where it differs. */
  readonly mutated?: JsonObject;
  readonly warnings?: readonly string[];
  readonly auditAnnotations?: Readonly<Record<string, string>>;
  /** Of a group: why each member refused, or could not be asked. */
  readonly causes?: readonly { readonly field: string; readonly message: string }[];
  /** What it asked the world for, where it asked. The verdict holds as long as these are as they were. */
  readonly asked?: readonly AskedOfCluster[];
}

/** Something whose changes nobody tells of has a kind, too: that of a SubjectAccessReview, or the name of the host call. */
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

export type RuntimeName = 'cel' | 'gatekeeper' | 'group' | 'opa' | 'wapc' | 'wasi';

export interface EvaluateOptions {
  readonly signal?: AbortSignal | undefined;
  /** Of this evaluation. Default: 2,000 ms, or the policy's `timeoutEvalSeconds`. */
  readonly deadlineMs?: number | undefined;
}

/**
 * A policy with its settings, ready to be asked; by many at once. Whoever opens one disposes it: evaluations that run end
 * with an {@link EvaluationError} then.
 *
 * @example
 * await using policy = await openEvaluator({ module, settings, hostCalls });
 * const { valid, message } = await policy.validateSettings();
 * const { allowed } = await policy.evaluate(request);
 */
export interface Evaluator extends AsyncDisposable {
  readonly runtime: RuntimeName;
  /** What the policy itself says of its settings; valid where it does not look at them. @throws {EvaluationError} */
  validateSettings(options?: EvaluateOptions): Promise<SettingsVerdict>;
  /** @throws {EvaluationError} where there is no verdict: it ran too long, trapped, answered garbage. */
  evaluate(request: PolicyRequest, options?: EvaluateOptions): Promise<Verdict>;
}

/** Why there is no verdict. The server answers it as HTTP 200, allowed=false, code 500; the scanner as `error`. */
export class EvaluationError extends Error {
  readonly why: 'aborted' | 'answer' | 'deadline' | 'expression' | 'memory' | 'trap';
  /** What was asked for before it came to this: as that of a verdict. */
  asked: readonly AskedOfCluster[] = [];

  constructor(why: EvaluationError['why'], message: string, options?: ErrorOptions) {
    const depth = Error.stackTraceLimit;
    // A stack takes longer to make than most expressions to run, and says nothing about them.
    if (why === 'expression') Error.stackTraceLimit = 0;
    super(message, options);
    Error.stackTraceLimit = depth;
    this.name = 'EvaluationError';
    this.why = why;
  }
}

/**
 * What a policy may ask of the world while it runs. Capabilities are checked here, not in the runtimes.
 *
 * @example
 * const answer = await hostCalls.call({ binding: 'kubewarden', namespace: 'kubernetes', operation: 'get_resource' }, payload);
 */
export interface HostCalls {
  /**
   * @returns the answer as the guest is to get it, JSON in UTF-8.
   * @throws {Error} whose message the guest is given: not granted, not known, failed.
   */
  call(operation: HostOperation, payload: Uint8Array, signal?: AbortSignal): Promise<Uint8Array>;
}

export interface HostOperation {
  readonly binding: string;
  readonly namespace: string;
  readonly operation: string;
}
