/** How a guest fails, inside of the thread that runs it. */
import type { EvaluationError } from '../../evaluator.ts';

/** Thrown by what a guest calls, and by what calls it; the thread makes an outcome of it. */
export class GuestFailure extends Error {
  override readonly name = 'GuestFailure';
  readonly why: EvaluationError['why'];

  constructor(why: EvaluationError['why'], message: string) {
    super(message);
    this.why = why;
  }
}
