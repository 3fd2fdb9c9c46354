/** Collects the outcome of each program during one {@link ProgramHost.apply}. */
import type { Logger } from '../../../lib/telemetry/log.ts';
import { type DesiredProgram, type Outcome, programTypeOf } from './desired.ts';
import { type FailureReason, failureOf, type ProgramFailure } from './failure.ts';
import type { LoadedProgram } from './load/loaded-program.ts';
import type { ProgramRecord } from './records.ts';
import type { Refusals } from './refusals.ts';

export class Verdicts {
  readonly outcomes = new Map<string, Outcome>();
  /** Programs whose previous version runs instead of the requested one, by id, with the reason. */
  readonly #kept = new Map<string, { readonly digest: string; readonly failure: ProgramFailure }>();
  readonly #refusals: Refusals;
  readonly #logger: Logger;

  constructor(refusals: Refusals, logger: Logger) {
    this.#refusals = refusals;
    this.#logger = logger;
  }

  /** Call it when a program is attached; for a program that is kept, when its previous version is. */
  loaded({ id }: DesiredProgram, programId: number, notes: readonly string[]): void {
    const kept = this.#kept.get(id);
    this.outcomes.set(
      id,
      kept === undefined
        ? { state: 'loaded', programId, notes }
        : { state: 'kept', programId, digest: kept.digest, notes, failure: kept.failure.outcome },
    );
  }

  /**
   * Call it when the program does not run at all.
   *
   * @param reason - Used unless the error has its own.
   * @throws an error that is a fault of Rampart
   */
  failed(program: DesiredProgram, error: unknown, reason: FailureReason = 'attach'): void {
    // Why the new version failed is more useful: users cannot change that its previous version cannot be attached either.
    const failure = this.#kept.get(program.id)?.failure ?? this.#explained(program, error, reason);
    this.outcomes.set(program.id, failure.outcome);
  }

  /**
   * Call it when the previous version is used instead: from then on, {@link loaded} refers to that version. @throws an error that is a
   * fault of Rampart
   */
  keep(
    program: DesiredProgram,
    { digest }: ProgramRecord,
    error: unknown,
    reason: FailureReason = 'attach',
  ): void {
    if (!this.#kept.has(program.id))
      this.#kept.set(program.id, { digest, failure: this.#explained(program, error, reason) });
  }

  /** Runs `work`; an error becomes the failure of these programs only. */
  attempt(programs: readonly DesiredProgram[], work: () => void): void {
    try {
      work();
    } catch (error) {
      for (const program of programs) this.failed(program, error);
    }
  }

  /**
   * Attaches the requested version; if that fails, the previous one stays attached, or is attached again.
   *
   * @param attach - Returns notes for the user.
   */
  attach(one: LoadedProgram, attach: (record: ProgramRecord) => readonly string[]): void {
    const { program, record, previous } = one;
    try {
      this.loaded(program, record.programId, attach(record));
    } catch (error) {
      if (previous === undefined) return this.failed(program, error);
      this.keep(program, previous, error);
      this.attach({ ...one, record: previous, previous: undefined }, attach);
    }
  }

  #explained({ id, owner, attach }: DesiredProgram, error: unknown, reason: FailureReason): ProgramFailure {
    const failure = this.#refusals.explain(failureOf(error, reason), programTypeOf(attach));
    this.#logger.debug({ program: owner, id, reason: failure.reason }, failure.message);
    return failure;
  }
}
