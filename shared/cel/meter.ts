/**
 * What an evaluation costs, counted while it runs, in about the units of Kubernetes (apiserver
 * `pkg/apis/cel/config.go`). A rule that gets too expensive is broken off, so that no object can hold up the server.
 */
/** One evaluation of one rule; about 0.1 s. */
export const perCallLimit = 1_000_000;
/** All rules on one object; about 1 s. */
export const perObjectLimit = 10_000_000;

/** Thrown once too much was spent. One object for all: making it a million times over would cost more than the rules. */
export class CostExceeded extends Error {}
const costExceeded = new CostExceeded('operation cancelled: actual cost limit exceeded');

let spent = 0;
let limit = Infinity;
/** What was counted {@link apart}. */
let aside = 0;
let run = 0;

/** @throws {CostExceeded} when the evaluation that runs has used up its limit. */
export function charge(cost: number): void {
  spent += cost;
  if (spent > limit) throw costExceeded;
}

/** What an evaluation came to: a result or an error, and its cost. */
export interface Outcome {
  readonly value?: unknown;
  readonly error?: unknown;
  readonly cost: number;
  readonly exceeded: boolean;
}

/** Another number for each run: what is remembered for the length of one. */
export function currentRun(): number {
  return run;
}

/** Runs an expression. Never throws; evaluation is synchronous, so one at a time runs. */
export function measured(evaluate: () => unknown, costLimit = perCallLimit): Outcome {
  run++;
  spent = 0;
  aside = 0;
  limit = costLimit;
  try {
    const value = evaluate();
    // An expression may have swallowed the error: `true || <too costly>`.
    return spent > limit
      ? { error: costExceeded, cost: spent + aside, exceeded: true }
      : { value, cost: spent + aside, exceeded: false };
  } catch (error) {
    return { error, cost: spent + aside, exceeded: error === costExceeded };
  } finally {
    limit = Infinity;
  }
}

/** Runs an expression that the one that runs asks for: with a limit of its own, its cost is part of the whole. */
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
