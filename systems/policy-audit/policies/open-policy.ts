/**
 * A policy with what runs it.
 *
 * @module
 */
import { errorCodes, RampartError } from '../../../shared/observe/errors.ts';
import type { ClusterReader } from '../engine/cel/cluster.ts';
import { compileMatchConditions } from '../engine/cel/match-conditions.ts';
import type { Matcher } from '../engine/cel/matching.ts';
import { EvaluationError, type Evaluator, type PolicyRequest, type Verdict } from '../engine/evaluator.ts';
import type { Policy } from './policy.ts';

/** Opens what runs a policy. */
export interface Runtimes {
  /** For match conditions that look at the namespace of an object. */
  readonly cluster: ClusterReader;
  /** @throws {RampartError} why it cannot run: no such module, settings that it refuses. */
  open(policy: Policy, signal: AbortSignal): Promise<Evaluator>;
}

/** What came of asking a policy. */
export type Judgement =
  /** A match condition is false: it is not about this request. */
  | { readonly type: 'skipped' }
  | { readonly type: 'verdict'; readonly verdict: Verdict }
  /** It could not be asked. */
  | { readonly type: 'error'; readonly error: EvaluationError };

/** Whoever opens one disposes it: what was asked before is answered first. */
export class OpenPolicy implements AsyncDisposable {
  /** It may be replaced by another description of the same version: of a policy whose status has changed. */
  policy: Policy;
  readonly runtime: Evaluator['runtime'];
  readonly #evaluator: Evaluator;
  readonly #conditions: Matcher | undefined;
  #running = 0;
  #idle: PromiseWithResolvers<void> | undefined;

  private constructor(policy: Policy, evaluator: Evaluator, conditions: Matcher | undefined) {
    this.policy = policy;
    this.runtime = evaluator.runtime;
    this.#evaluator = evaluator;
    this.#conditions = conditions;
  }

  /** @throws {RampartError} why it cannot be asked. */
  static async open(policy: Policy, runtimes: Runtimes, signal: AbortSignal): Promise<OpenPolicy> {
    const { matchConditions } = policy;
    const { cluster } = runtimes;
    const conditions =
      matchConditions.length === 0 ? undefined : compileMatchConditions(matchConditions, { cluster });
    if (conditions !== undefined && conditions.problems.length > 0) {
      throw new RampartError(errorCodes.INPUT, { what: conditions.problems.join('; ') });
    }
    const evaluator = await runtimes.open(policy, signal);
    try {
      const { valid, message = 'the policy does not say why' } = await evaluator.validateSettings({ signal });
      if (!valid) throw new RampartError(errorCodes.INPUT, { what: message });
      return new OpenPolicy(policy, evaluator, conditions);
    } catch (error) {
      await evaluator[Symbol.asyncDispose]();
      if (!(error instanceof EvaluationError)) throw error;
      throw new RampartError(errorCodes.INPUT, {
        what: 'the policy could not validate its settings',
        why: error.message,
        cause: error,
      });
    }
  }

  /** @throws the reason of the signal when it aborts. */
  async ask(request: PolicyRequest, signal?: AbortSignal): Promise<Judgement> {
    const { program, ignoresFailures } = this.policy;
    this.#running++;
    try {
      const match = await this.#conditions?.match(request, signal && { signal });
      if (match?.matched === false) {
        if (match.error === undefined || ignoresFailures) return { type: 'skipped' };
        return { type: 'error', error: new EvaluationError('expression', match.error) };
      }
      const deadlineMs = program.type === 'module' ? program.deadlineMs : undefined;
      const verdict = await this.#evaluator.evaluate(request, {
        ...(signal && { signal }),
        ...(deadlineMs !== undefined && { deadlineMs }),
      });
      return { type: 'verdict', verdict };
    } catch (error) {
      signal?.throwIfAborted();
      if (!(error instanceof EvaluationError)) throw error;
      return { type: 'error', error };
    } finally {
      if (--this.#running === 0) this.#idle?.resolve();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#running > 0) await (this.#idle ??= Promise.withResolvers()).promise;
    await this.#evaluator[Symbol.asyncDispose]();
  }
}
