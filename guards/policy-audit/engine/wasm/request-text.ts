/** Requests and settings as JSON for guests. A request is serialized only once, since many policies evaluate it. */
import type { JsonObject, PolicyRequest } from '../evaluator.ts';

const texts = new WeakMap<PolicyRequest, string>();

/** The text is cached for each request object, so a request must not be changed afterwards. */
export function requestText(request: PolicyRequest): string {
  let text = texts.get(request);
  if (text === undefined) texts.set(request, (text = JSON.stringify(request, withBigints)));
  return text;
}

export function settingsText(settings: JsonObject): string {
  return JSON.stringify(settings, withBigints);
}

/** Writes integers that were converted to `bigint` as numbers. */
function withBigints(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? rawJson(String(value)) : value;
}

/** `JSON.rawJSON`, which TypeScript's types do not contain yet. */
function rawJson(text: string): unknown {
  return (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON(text);
}
