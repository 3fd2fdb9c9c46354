/**
 * The runtime `cel`: policies of expressions, evaluated here. They run on the calling thread: an expression ends by its
 * budget within about 0.1 s, and most take microseconds, which a message to a worker would multiply.
 */
import {
  EvaluationError,
  type EvaluateOptions,
  type Evaluator,
  type JsonObject,
  type PolicyRequest,
  type SettingsVerdict,
  type Verdict,
} from '../evaluator.ts';
import { Asks } from './asks.ts';
import type { World } from './cluster.ts';
import { type CreateFrame, framesOf } from './decide.ts';
import { compilePolicy, type CompiledPolicy } from './policy.ts';
import type { Dialect } from './scope.ts';
import { type Problem, Problems, readSettings } from './settings.ts';
import { verdictOf } from './verdict.ts';

export interface CelOptions extends World {
  /** Default: `cel-policy`. */
  readonly dialect?: Dialect;
}

/**
 * Opens a policy of expressions. This also works with invalid settings: `validateSettings` reports their problems.
 *
 * @param settings - Those of the module `cel-policy`: `variables`, `validations`, `paramKind`, `paramRef`,
 * `failurePolicy`; for the dialect of Kubernetes, the spec of a ValidatingAdmissionPolicy with the `paramRef` of
 * its binding.
 * @example
 * await using policy = openCelEvaluator({ validations: [{ expression: 'object.spec.replicas <= 5' }] });
 * const { allowed, message } = await policy.evaluate(request);
 */
export function openCelEvaluator(settings: JsonObject, options: CelOptions = {}): Evaluator {
  return new CelEvaluator(settings, options);
}

/** The problems of settings, without opening a policy. Pure. */
export function celProblems(settings: JsonObject, dialect: Dialect): readonly Problem[] {
  const problems = new Problems();
  compilePolicy(readSettings(settings, problems), dialect, problems);
  return problems.all;
}

class CelEvaluator implements Evaluator {
  readonly runtime = 'cel';
  readonly #policy: CompiledPolicy;
  readonly #frameOf: CreateFrame;
  readonly #problems: readonly string[];
  readonly #world: World;
  readonly #closed = new AbortController();

  constructor(settings: JsonObject, { dialect = 'cel-policy', ...world }: CelOptions) {
    const problems = new Problems();
    this.#policy = compilePolicy(readSettings(settings, problems), dialect, problems);
    this.#frameOf = framesOf(dialect, this.#policy.scope, this.#policy.used);
    this.#problems = problems.texts;
    this.#world = world;
  }

  async validateSettings(): Promise<SettingsVerdict> {
    if (this.#problems.length === 0) return { valid: true };
    return { valid: false, message: `The settings are invalid: ${this.#problems.join('; ')}` };
  }

  async evaluate(request: PolicyRequest, options: EvaluateOptions = {}): Promise<Verdict> {
    if (this.#problems.length > 0)
      throw new EvaluationError('expression', `The settings are invalid: ${this.#problems.join('; ')}`);
    const asks = new Asks(this.#world, options, this.#closed.signal);
    try {
      const verdict = await asks.answered(() =>
        verdictOf(this.#policy, this.#frameOf, request, asks, options.model),
      );
      return asks.asked.length === 0 ? verdict : { ...verdict, asked: asks.asked };
    } catch (error) {
      if (error instanceof EvaluationError) error.asked = asks.asked;
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed.abort();
  }
}
