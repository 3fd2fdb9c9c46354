/**
 * Events are stored as core/v1 has them; events.k8s.io/v1 shows the same objects under other names (kubernetes
 * `pkg/apis/events/v1/conversion.go`).
 */
import type { Codec } from '../resources/resource.ts';
import type { JsonObject } from '../../json/json.ts';

/** Field names in core/v1 and in events.k8s.io/v1; all other names are the same in both. */
const names: readonly (readonly [string, string])[] = [
  ['involvedObject', 'regarding'],
  ['message', 'note'],
  ['source', 'deprecatedSource'],
  ['firstTimestamp', 'deprecatedFirstTimestamp'],
  ['lastTimestamp', 'deprecatedLastTimestamp'],
  ['count', 'deprecatedCount'],
  ['reportingComponent', 'reportingController'],
];

const toNew: ReadonlyMap<string, string> = new Map(names);
const toOld: ReadonlyMap<string, string> = new Map(names.map(([old, now]) => [now, old]));

function renamed(event: JsonObject, to: ReadonlyMap<string, string>, apiVersion: string): JsonObject {
  const result: JsonObject = {};
  for (const [field, value] of Object.entries(event)) {
    if (field === '__proto__') continue;
    result[to.get(field) ?? field] = value;
  }
  if ('apiVersion' in event) result['apiVersion'] = apiVersion;
  return result;
}

/** For events.k8s.io/v1. */
export const eventCodec: Codec = {
  decode: (stored) => renamed(stored, toNew, 'events.k8s.io/v1'),
  encode: (shown) => renamed(shown, toOld, 'v1'),
};
