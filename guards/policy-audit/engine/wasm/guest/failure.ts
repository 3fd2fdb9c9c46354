/** The failure of a guest, inside the thread that runs it. */
import type { EvaluationError } from '../../evaluator.ts';

/** Thrown by the functions that a guest calls, and by its callers; the thread turns it into an outcome. */
export class GuestFailure extends Error {
  override readonly name = 'GuestFailure';
  readonly why: EvaluationError['why'];

  constructor(why: EvaluationError['why'], message: string) {
    super(message);
    this.why = why;
  }
}
