/**
 * The states of a policy server's policies, served on the port of its readiness probe. The operator queries the
 * pods, since they have no permission to write to the API. Everyone who can reach the port can read the states, so
 * they contain neither addresses nor settings.
 */
import { isObject } from '../../../lib/json/json.ts';

export const statesPath = '/policies';

/** Keyed by the ID of each policy: '' if its current or previous version is evaluated; otherwise the reason why neither is. */
export type PolicyStates = ReadonlyMap<string, string>;

export function statesText(states: PolicyStates): string {
  return JSON.stringify({ policies: Object.fromEntries(states) });
}

/** @throws {Error} if it was not written by {@link statesText} */
export function statesIn(text: string): PolicyStates {
  const document: unknown = JSON.parse(text);
  const policies = isObject(document) ? document['policies'] : undefined;
  if (!isObject(policies)) throw new Error('its answer has no policies');
  return new Map(Object.entries(policies).map(([id, why]) => [id, String(why)]));
}
