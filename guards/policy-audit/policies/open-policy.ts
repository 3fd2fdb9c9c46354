/** A policy with its evaluator. */
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import type { World } from '../engine/cel/cluster.ts';
import { compileMatchConditions } from '../engine/cel/match-conditions.ts';
import type { Matcher } from '../engine/cel/matching.ts';
import {
  type AskedOfCluster,
  EvaluationError,
  type Evaluator,
  type ObjectModel,
  type PolicyRequest,
  type Verdict,
} from '../engine/evaluator.ts';
import type { Modules } from '../modules/modules.ts';
import type { Policy } from './policy.ts';
import type { StandIn } from './stand-in.ts';

/** Where the modules of a policy come from. */
export interface ModuleSource extends Pick<Modules, 'fetch'> {
  /** Identifies the settings of the PolicyServer that the modules were fetched with. */
  readonly terms: string;
}

/** Opens the runtime of a policy. */
export interface Runtimes {
  /** Read by match conditions: the namespace of an object, and the permissions of the requesting user. */
  readonly world: World;
  /**
   * @param through - Wraps the source of the policy's modules; the result is used instead.
   * @throws {RampartError} if the policy cannot run, for example because its module is missing or rejects the
   * settings.
   */
  open(
    policy: Policy,
    signal: AbortSignal,
    through?: (source: ModuleSource) => Pick<Modules, 'fetch'>,
  ): Promise<Evaluator>;
}

/** The outcome for one request, and what the policy and its conditions requested: it holds as long as the answers stay the same. */
export type Judgement = { readonly asked: readonly AskedOfCluster[] } & (
  | { readonly type: 'verdict'; readonly verdict: Verdict }
  /** A match condition is false: the policy does not apply to this request. */
  | { readonly type: 'skipped' }
  /** The policy could not be evaluated. */
  | { readonly type: 'error'; readonly error: EvaluationError }
);

/** An evaluation that has ended. */
export interface Evaluation {
  readonly policy: Policy;
  readonly request: PolicyRequest;
  readonly judgement: Judgement;
  readonly latencyMs: number;
}

/** The caller disposes it: running evaluations finish first. */
export class OpenPolicy implements AsyncDisposable {
  /** Replaced by a new description of the same version when the status of the policy has changed. */
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

  /** @throws {RampartError} if the policy cannot be evaluated. */
  static async open(
    policy: Policy,
    runtimes: Runtimes,
    signal: AbortSignal,
    through?: Parameters<Runtimes['open']>[2],
  ): Promise<OpenPolicy> {
    const conditions = conditionsOf(policy, runtimes);
    if (conditions !== undefined && conditions.problems.length > 0) {
      throw new RampartError(errorCodes.INPUT, { what: conditions.problems.join('; ') });
    }
    const evaluator = await runtimes.open(policy, signal, through);
    try {
      const { valid, message = 'the policy gives no reason' } = await evaluator.validateSettings({ signal });
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

  /** Represents a policy that cannot be evaluated, until `standIn` learns that it can be. */
  static unopened(policy: Policy, runtimes: Runtimes, standIn: StandIn): OpenPolicy {
    const conditions = conditionsOf(policy, runtimes);
    // If its conditions do not compile, the policy applies to everything that its rules match.
    const isUsable = conditions !== undefined && conditions.problems.length === 0;
    return new OpenPolicy(policy, standIn, isUsable ? conditions : undefined);
  }

  /** Why the policy cannot be evaluated; undefined if it can. */
  get unavailable(): string | undefined {
    return this.#evaluator.unavailable?.problem;
  }

  /** Whether the policy's failurePolicy decides on writes while it cannot be evaluated. */
  get isEnforced(): boolean {
    return this.#evaluator.unavailable?.isEnforced ?? true;
  }

  /**
   * @param model - Model of the object, for policies that mutate by its schema.
   * @throws the reason of the signal when it aborts.
   */
  async ask(request: PolicyRequest, signal?: AbortSignal, model?: ObjectModel): Promise<Judgement> {
    const { program, ignoresFailures } = this.policy;
    this.#running++;
    let asked: readonly AskedOfCluster[] = [];
    try {
      const match = await this.#conditions?.match(request, signal && { signal });
      asked = match?.asked ?? [];
      if (match?.matched === false) {
        if (match.error === undefined || ignoresFailures) return { type: 'skipped', asked };
        return { type: 'error', error: new EvaluationError('expression', match.error), asked };
      }
      const deadlineMs = program.type === 'module' ? program.deadlineMs : undefined;
      const verdict = await this.#evaluator.evaluate(request, { signal, deadlineMs, model });
      return { type: 'verdict', verdict, asked: [...asked, ...(verdict.asked ?? [])] };
    } catch (error) {
      signal?.throwIfAborted();
      if (!(error instanceof EvaluationError)) throw error;
      return { type: 'error', error, asked: [...asked, ...error.asked] };
    } finally {
      if (--this.#running === 0) this.#idle?.resolve();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#running > 0) await (this.#idle ??= Promise.withResolvers()).promise;
    await this.#evaluator[Symbol.asyncDispose]();
  }
}

function conditionsOf({ matchConditions }: Policy, { world }: Runtimes): Matcher | undefined {
  return matchConditions.length === 0 ? undefined : compileMatchConditions(matchConditions, world);
}
