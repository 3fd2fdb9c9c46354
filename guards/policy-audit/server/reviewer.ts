/** Answers reviews with the policies of a table. */
import type { ObjectReference } from '../../../guard/stream/finding.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import { EvaluationError, type JsonObject, type PolicyRequest } from '../engine/evaluator.ts';
import type { PolicyFindings } from '../findings/policy-findings.ts';
import type { Exception } from '../exceptions/exception.ts';
import type { ServedPolicy } from './served-policy.ts';
import type { EvaluationMetrics } from './evaluation-metrics.ts';
import type { PolicyInUse, PolicyTable } from './policy-table.ts';
import {
  type AdmissionResponse,
  constrained,
  failureOf,
  requestOfRawReview,
  requestOfReview,
  responseOf,
  reviewOf,
} from './review.ts';

/** The paths of each policy. */
export type ReviewKind = 'audit' | 'validate' | 'validate_raw';

export interface ReviewerOptions {
  readonly table: PolicyTable;
  readonly metrics: EvaluationMetrics;
  /** Time limit for policies without one of their own. */
  readonly deadlineMs: number;
  /** The namespace of the server itself, in which everything is allowed. */
  readonly acceptedNamespace?: string | undefined;
  /** Default: none. */
  readonly exceptions?: (policy: ServedPolicy, request: PolicyRequest) => Exception | undefined;
  readonly findings: Pick<PolicyFindings, 'write'>;
  readonly logger: Logger;
}

/**
 * @returns the body of the response; undefined if the policy does not exist.
 * @throws {ShapeError} if the body is not a review
 */
export type Review = (
  kind: ReviewKind,
  id: string,
  body: unknown,
  signal: AbortSignal,
) => Promise<JsonObject | undefined>;

export function reviewer(options: ReviewerOptions): Review {
  async function ask(
    { problem, evaluator }: PolicyInUse,
    request: PolicyRequest,
    { isRaw, signal }: { readonly isRaw: boolean; readonly signal: AbortSignal },
  ): Promise<AdmissionResponse> {
    if (problem !== undefined || evaluator === undefined)
      return failureOf(request, problem ?? 'the policy is closed');
    const { deadlineMs } = options;
    try {
      const verdict = await evaluator.evaluate(request, { signal, deadlineMs, isRaw });
      return responseOf(verdict, request, isRaw);
    } catch (error) {
      if (!(error instanceof EvaluationError)) throw error;
      return failureOf(request, `internal server error: ${error.message}`);
    }
  }

  function record(
    { policy, problem }: PolicyInUse,
    request: PolicyRequest,
    response: AdmissionResponse,
    { kind, latencyMs }: { readonly kind: ReviewKind; readonly latencyMs: number },
  ): void {
    const { metrics, logger } = options;
    if (
      policy.mode === 'monitor' &&
      kind !== 'audit' &&
      (!response.allowed || response.patch !== undefined)
    ) {
      const { uid, allowed, status, patch } = response;
      logger.info(
        {
          policy: policy.id,
          uid,
          allowed,
          message: status?.message,
          code: status?.code,
          mutates: patch !== undefined,
        },
        'a policy in monitor mode would have decided otherwise',
      );
    }
    if (problem !== undefined) metrics.recordProblem(policy.id);
    else {
      const isRaw = kind === 'validate_raw';
      metrics.record(
        {
          policyName: policy.id,
          policyMode: policy.mode,
          origin: kind === 'audit' ? 'audit' : 'validate',
          namespace: isRaw ? undefined : request.namespace,
          kind: isRaw ? undefined : request.kind.kind,
          operation: isRaw ? undefined : request.operation,
          accepted: response.allowed,
          mutated: response.patch !== undefined,
          errorCode: response.status?.code,
        },
        latencyMs,
      );
    }
  }

  /** Only decisions on requests of the API server are reported: an audit changes nothing. */
  function notify(
    { policy, problem }: PolicyInUse,
    request: PolicyRequest,
    { response, answer, isRaw }: { response: AdmissionResponse; answer: AdmissionResponse; isRaw: boolean },
  ): void {
    if (response.allowed && answer.allowed) return;
    const { id, origin, mode } = policy;
    const { severity, ...reference } = origin ?? {};
    const status = response.allowed ? answer.status : response.status;
    // As in reports: code 500 means that the policy exceeded its deadline.
    const isError = problem !== undefined || status?.code === 500;
    const { kind, namespace = '', name = '', operation, dryRun } = request;
    const username = isRaw ? undefined : request.userInfo['username'];
    options.findings.write(
      { id, reference: origin === undefined ? null : (reference as ObjectReference), severity },
      {
        verdict: isError ? 'errored' : mode === 'monitor' ? 'monitored' : 'rejected',
        operation: isRaw ? 'review' : operation,
        user: !isRaw && typeof username === 'string' ? username : '',
        isDryRun: !isRaw && dryRun === true,
        object: isRaw ? null : { kind: kind.kind, namespace, name },
        reason: status?.message ?? '',
        isRefused: !answer.allowed,
      },
    );
  }

  return async (kind, id, body, signal) => {
    // Taken before anything is awaited, so that the policy at the arrival of the request answers.
    using inUse = options.table.take(id);
    if (inUse === undefined) return undefined;
    const isRaw = kind === 'validate_raw';
    const request = isRaw ? requestOfRawReview(body) : requestOfReview(body);
    const { acceptedNamespace } = options;
    const startMs = performance.now();
    const isAccepted = acceptedNamespace !== undefined && request.namespace === acceptedNamespace;
    const isExcepted = !isRaw && options.exceptions?.(inUse.policy, request) !== undefined;
    const response =
      !isRaw && (isAccepted || isExcepted)
        ? { uid: request.uid, allowed: true }
        : await ask(inUse, request, { isRaw, signal });
    record(inUse, request, response, { kind, latencyMs: performance.now() - startMs });
    if (kind === 'audit') return reviewOf(response, isRaw);
    const answer = constrained(response, inUse.policy);
    notify(inUse, request, { response, answer, isRaw });
    return reviewOf(answer, isRaw);
  };
}
