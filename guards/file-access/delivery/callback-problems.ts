/** Which callbacks of a policy do not accept alerts from this node. */
import type { KivePolicy, KiveTrap } from '../api.ts';
import type { CallbackState } from './options.ts';
import { type CallbackProblem, MAX_MESSAGE } from '../policy-status-schema.ts';

/** See `Delivery.stateOf`. */
export type StateOf = (callback: string, secret: string) => CallbackState | undefined;

/** Whether a trap of the policy has this callback with this Secret, `namespace/name` or empty. */
export function hasCallback({ metadata, spec }: KivePolicy, callback: string, secret: string): boolean {
  return spec.traps.some(
    (trap) => trap.callback === callback && secretOf(trap, metadata.namespace) === secret,
  );
}

/**
 * The callbacks with a problem, each only once, in the order of the traps.
 *
 * @param before - The status in the API, which an earlier process may have written. It is used where this process does not know yet, so
 * that a restart of the agent does not claim that all is well.
 */
export function callbackProblems(
  policy: KivePolicy,
  stateOf: StateOf | undefined,
  before: readonly CallbackProblem[] = [],
): CallbackProblem[] {
  const problems = new Map<string, CallbackProblem>();
  for (const trap of policy.spec.traps) {
    if (!trap.callback) continue;
    const state = stateOf?.(trap.callback, secretOf(trap, policy.metadata.namespace));
    if (state === undefined || problems.has(state.name)) continue;
    const { name: callback, problem, isDecided } = state;
    const known = before.find((one) => one.callback === callback);
    if (problem !== undefined) problems.set(callback, { callback, message: problem.slice(0, MAX_MESSAGE) });
    else if (!isDecided && known !== undefined) problems.set(callback, known);
  }
  return [...problems.values()];
}

function secretOf({ callbackSecret }: KiveTrap, namespace = ''): string {
  return callbackSecret === undefined ? '' : `${namespace}/${callbackSecret}`;
}
