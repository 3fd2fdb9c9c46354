/**
 * The states of a policy server's policies, served on the port of its readiness probe. The operator queries
 * its pods: they have no rights to write to the API. Anyone who reaches the port can read it, so it has
 * neither addresses nor settings.
 */
import { isObject } from '../../../lib/json/json.ts';

export const statesPath = '/policies';

/** Keyed by the ID of each policy: '' if its present or previous version is evaluated; otherwise the reason. */
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
