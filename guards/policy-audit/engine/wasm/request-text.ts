/** Requests and settings as JSON for guests. A request is evaluated by many policies: it is serialized once. */
import type { JsonObject, PolicyRequest } from '../evaluator.ts';

const texts = new WeakMap<PolicyRequest, string>();

/** A request that is passed in is never changed. */
export function requestText(request: PolicyRequest): string {
  let text = texts.get(request);
  if (text === undefined) texts.set(request, (text = JSON.stringify(request, withBigints)));
  return text;
}

export function settingsText(settings: JsonObject): string {
  return JSON.stringify(settings, withBigints);
}

/** Integers that others converted to `bigint` are numbers in JSON. */
function withBigints(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? rawJson(String(value)) : value;
}

/** TypeScript's types do not have `JSON.rawJSON` yet. */
function rawJson(text: string): unknown {
  return (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON(text);
}
