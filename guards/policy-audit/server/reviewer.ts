/** Answers reviews with the policies of a table. */
import type { Logger } from '../../../lib/telemetry/log.ts';
import { EvaluationError, type JsonObject, type PolicyRequest } from '../engine/evaluator.ts';
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

/** The paths that a server has for each policy. */
export type ReviewKind = 'audit' | 'validate' | 'validate_raw';

export interface ReviewerOptions {
  readonly table: PolicyTable;
  readonly metrics: EvaluationMetrics;
  /** For policies without their own. Infinity: no limit. */
  readonly deadlineMs: number;
  /** Everything in this namespace is allowed: that of the server itself. */
  readonly acceptedNamespace?: string | undefined;
  readonly logger: Logger;
}

/**
 * @returns the body of the response; undefined if there is no such policy.
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
      const verdict = await evaluator.evaluate(request, {
        signal,
        ...(deadlineMs !== Infinity && { deadlineMs }),
      });
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

  return async (kind, id, body, signal) => {
    // Taken before anything is awaited: the policy from when the request arrived answers.
    using inUse = options.table.take(id);
    if (inUse === undefined) return undefined;
    const isRaw = kind === 'validate_raw';
    const request = isRaw ? requestOfRawReview(body) : requestOfReview(body);
    const { acceptedNamespace } = options;
    const startMs = performance.now();
    const response =
      !isRaw && acceptedNamespace !== undefined && request.namespace === acceptedNamespace
        ? { uid: request.uid, allowed: true }
        : await ask(inUse, request, { isRaw, signal });
    record(inUse, request, response, { kind, latencyMs: performance.now() - startMs });
    return reviewOf(kind === 'audit' ? response : constrained(response, inUse.policy), isRaw);
  };
}
