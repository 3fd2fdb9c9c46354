/**
 * The substitute for a policy that cannot be evaluated. Its match conditions still apply, because an API server
 * evaluates them even if a webhook does not answer; but there is no verdict.
 */
import { orAborted } from '../../../lib/time/abort.ts';
import {
  type EvaluateOptions,
  EvaluationError,
  type Evaluator,
  type PolicyRequest,
  type SettingsVerdict,
  type Verdict,
} from '../engine/evaluator.ts';

/** Evaluates the policy. @throws {EvaluationError} like an evaluator */
type Answer = (
  request: PolicyRequest,
  options: Pick<EvaluateOptions, 'model' | 'signal'>,
) => Promise<Verdict>;

/** Makes requests wait until it is known whether the policy can be evaluated. */
export class StandIn implements Evaluator {
  readonly runtime = 'none';
  readonly #known = Promise.withResolvers<void>();
  #answer: Answer | undefined;
  /** Whether the policy was in use, so that its failurePolicy decides on writes. */
  readonly isEnforced: boolean;
  /** Why the policy cannot be evaluated, as far as that is known. */
  problem = 'it is being loaded';

  constructor(isEnforced: boolean) {
    this.isEnforced = isEnforced;
  }

  get unavailable(): NonNullable<Evaluator['unavailable']> {
    return { problem: this.problem, isEnforced: this.isEnforced };
  }

  /** From now on, requests are answered by `answer`. */
  opened(answer: Answer): void {
    this.#answer = answer;
    this.#known.resolve();
  }

  /** From now on, requests fail instead of waiting. */
  failed(problem: string): void {
    this.problem = problem;
    this.#known.resolve();
  }

  validateSettings(): Promise<SettingsVerdict> {
    return Promise.resolve({ valid: true });
  }

  /** @throws {EvaluationError} `unavailable`; the signal's reason */
  async evaluate(request: PolicyRequest, options: EvaluateOptions = {}): Promise<Verdict> {
    await orAborted(this.#known.promise, options.signal);
    if (this.#answer === undefined) throw new EvaluationError('unavailable', this.problem);
    return this.#answer(request, options);
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.failed(this.problem);
    return Promise.resolve();
  }
}
