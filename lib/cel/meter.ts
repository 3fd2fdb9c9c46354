/**
 * The cost of an evaluation, counted while it runs, in roughly the units of Kubernetes (apiserver
 * `pkg/apis/cel/config.go`). A rule that gets too expensive is aborted, so that no object can block the server.
 */
/** Cost limit for one evaluation of one rule; about 0.1 s. */
export const perCallLimit = 1_000_000;
/** Cost limit for all rules on one object; about 1 s. */
export const perObjectLimit = 10_000_000;

/** Thrown once the budget is exceeded. A shared object: creating it a million times would cost more than the rules. */
export class CostExceeded extends Error {}
const costExceeded = new CostExceeded('operation cancelled: actual cost limit exceeded');

let spent = 0;
let limit = Infinity;
/** Cost counted by {@link apart}, which is not part of `spent`. */
let aside = 0;
let run = 0;

/** @throws {CostExceeded} when the current evaluation has exceeded its limit. */
export function charge(cost: number): void {
  spent += cost;
  if (spent > limit) throw costExceeded;
}

/** The outcome of an evaluation: a result or an error, and its cost. */
export interface Outcome {
  readonly value?: unknown;
  readonly error?: unknown;
  readonly cost: number;
  readonly exceeded: boolean;
}

/** A number that identifies the current run, for caches that are valid only during one. */
export function currentRun(): number {
  return run;
}

/** Runs an expression. Never throws; evaluation is synchronous, so only one runs at a time. */
export function measured(evaluate: () => unknown, costLimit = perCallLimit): Outcome {
  run++;
  spent = 0;
  aside = 0;
  limit = costLimit;
  try {
    const value = evaluate();
    // An expression may have ignored the error: `true || <too costly>`.
    return spent > limit
      ? { error: costExceeded, cost: spent + aside, exceeded: true }
      : { value, cost: spent + aside, exceeded: false };
  } catch (error) {
    return { error, cost: spent + aside, exceeded: error === costExceeded };
  } finally {
    limit = Infinity;
  }
}

/** Runs an expression that the current one needs, with its own limit. Its cost is added to the total of the current one. */
export function apart<T>(evaluate: () => T): T {
  const outer = { spent, limit };
  spent = 0;
  limit = perCallLimit;
  try {
    return evaluate();
  } finally {
    aside += spent;
    ({ spent, limit } = outer);
  }
}
