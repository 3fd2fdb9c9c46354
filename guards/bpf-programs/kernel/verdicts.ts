/** The outcome of each program of one {@link ProgramHost.apply}. */
import type { Logger } from '../../../lib/telemetry/log.ts';
import type { DesiredProgram, Outcome } from './desired.ts';
import { type FailureReason, failureOf, ProgramFailure } from './failure.ts';
import type { Refusals } from './refusals.ts';

export class Verdicts {
  readonly outcomes = new Map<string, Outcome>();
  /** Those whose previous version keeps running. */
  readonly #outdated = new Set<string>();
  readonly #refusals: Refusals;
  readonly #logger: Logger;

  constructor(refusals: Refusals, logger: Logger) {
    this.#refusals = refusals;
    this.#logger = logger;
  }

  loaded({ id }: DesiredProgram, programId: number, notes: readonly string[]): void {
    if (!this.#outdated.has(id)) this.outcomes.set(id, { state: 'loaded', programId, notes });
  }

  /**
   * @param reason - Unless the error says it itself.
   * @param goesOn - Whether the previous version runs meanwhile: nothing that happens to it changes the verdict.
   * @throws what is a bug of ours
   */
  failed(
    { id, owner, attach }: DesiredProgram,
    error: unknown,
    reason: FailureReason = 'attach',
    { goesOn = false }: { readonly goesOn?: boolean } = {},
  ): void {
    if (this.#outdated.has(id)) return;
    let failure = this.#refusals.explain(failureOf(error, reason), attach.type);
    if (goesOn) {
      this.#outdated.add(id);
      const message = `${failure.message.replace(/\.$/, '')}. The previous version keeps running.`;
      failure = new ProgramFailure(failure.reason, message, failure.mayPass, failure);
    }
    this.#logger.debug({ program: owner, id, reason: failure.reason }, failure.message);
    this.outcomes.set(id, failure.outcome);
  }

  /** An error is a failure of these programs, and of no others. */
  attempt(programs: readonly DesiredProgram[], work: () => void): void {
    try {
      work();
    } catch (error) {
      for (const program of programs) this.failed(program, error);
    }
  }
}
