/**
 * Errors of expressions that run. The rule fails with their message, which is that of cel-go.
 *
 * @module
 */
import { charge } from './meter.ts';

/** What `||`, `&&`, `all` and `exists` may swallow. */
export class CelError extends Error {}

/** Making an error takes about as long as this many steps. */
const errorCost = 50;

/** The error of a function that cannot answer. */
export function failure(message: string): CelError {
  charge(errorCost);
  return new CelError(message);
}

export const noOverload = (): CelError => failure('no such overload');
