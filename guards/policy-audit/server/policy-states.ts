/**
 * What a policy server says of its policies, on the port of its readiness probe. The operator asks its pods for it: they have no rights in
 * the API to write it anywhere. Whoever reaches the port can read it, so it has neither addresses nor settings.
 */
import { isObject } from '../../../lib/json/json.ts';

export const statesPath = '/policies';

/** By the ID of each policy: '' if it is evaluated, as it is or as it was before; otherwise why not. */
export type PolicyStates = ReadonlyMap<string, string>;

export function statesText(states: PolicyStates): string {
  return JSON.stringify({ policies: Object.fromEntries(states) });
}

/** @throws {Error} for what is not {@link statesText} */
export function statesIn(text: string): PolicyStates {
  const document: unknown = JSON.parse(text);
  const policies = isObject(document) ? document['policies'] : undefined;
  if (!isObject(policies)) throw new Error('its answer has no policies');
  return new Map(Object.entries(policies).map(([id, why]) => [id, String(why)]));
}
