/**
 * A policy with what runs it.
 *
 * @module
 */
import { EvaluationError, type Evaluator, type PolicyRequest, type Verdict } from '../engine/evaluator.ts';
import type { ModuleProgram, Policy } from './policy.ts';
import { compileThinConditions, type Conditions, openThinCel } from './thin-cel.ts';

/** Opens what runs a policy. */
export interface Runtimes {
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
  readonly #conditions: Conditions | undefined;
  #running = 0;
  #idle: PromiseWithResolvers<void> | undefined;

  private constructor(policy: Policy, evaluator: Evaluator, conditions: Conditions | undefined) {
    this.policy = policy;
    this.runtime = evaluator.runtime;
    this.#evaluator = evaluator;
    this.#conditions = conditions;
  }

  /** @throws {RampartError} why it cannot be asked. */
  static async open(policy: Policy, runtimes: Runtimes, signal: AbortSignal): Promise<OpenPolicy> {
    const { matchConditions } = policy;
    const conditions = matchConditions.length === 0 ? undefined : compileThinConditions(matchConditions);
    return new OpenPolicy(policy, await runtimes.open(policy, signal), conditions);
  }

  /** @throws the reason of the signal when it aborts. */
  async ask(request: PolicyRequest, signal?: AbortSignal): Promise<Judgement> {
    const { program } = this.policy;
    this.#running++;
    try {
      if (this.#conditions !== undefined && !this.#conditions(request)) return { type: 'skipped' };
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

/**
 * Whether a module is `cel-policy`, whichever registry it is said to come from: what it takes as settings our own engine runs.
 *
 * @example
 * isCelModule('registry://ghcr.io/kubewarden/policies/cel-policy:v1.0.0'); // true
 */
export function isCelModule(module: string): boolean {
  const [withoutDigest = ''] = module.split('@');
  return /(?:^|\/)cel-policy(?::[^/:]*)?$/.test(withoutDigest);
}

/** Runs what needs no module. */
export const nativeRuntimes: Runtimes = {
  open: async ({ program }) => {
    await Promise.resolve();
    if (program.type === 'expressions') return openThinCel(program.settings);
    if (program.type === 'module' && isCelModule(program.module)) return openThinCel(program.settings);
    throw new Error(`no runtime for ${(program as ModuleProgram).module}`);
  },
};
