/**
 * Types whose JSON is not an object of their fields: quantities, times, and unions such as IntOrString. Each follows
 * the type's `MarshalJSON` in k8s.io/apimachinery and k8s.io/apiextensions-apiserver.
 */
import { BodyMistake } from '../body/body-mistake.ts';
import { decodeJson } from '../body/json-body.ts';
import type { JsonObject } from '../../json/json.ts';

/** Makes the JSON from the sent fields, keyed by their protobuf names; bytes are a Buffer. @throws {BodyMistake} */
export type Form = (fields: JsonObject) => unknown;

/** Keyed by message name. */
export const forms: ReadonlyMap<string, Form> = new Map<string, Form>([
  ['resource.Quantity', ({ string }) => (typeof string === 'string' && string !== '' ? string : '0')],
  ['intstr.IntOrString', intOrString],
  ['meta.Time', time],
  ['meta.MicroTime', microTime],
  ['meta.FieldsV1', ({ Raw }) => json(Raw)],
  ['runtime.RawExtension', ({ raw }) => json(raw)],
  ['apiextensions.JSON', ({ raw }) => json(raw)],
  ['apiextensions.JSONSchemaPropsOrArray', ({ jSONSchemas, schema }) => jSONSchemas ?? schema ?? null],
  ['apiextensions.JSONSchemaPropsOrBool', ({ allows, schema }) => schema ?? allows === true],
  ['apiextensions.JSONSchemaPropsOrStringArray', ({ property, schema }) => property ?? schema ?? null],
  ['authentication.ExtraValue', ({ items }) => items ?? []],
  ['authorization.ExtraValue', ({ items }) => items ?? []],
]);

function intOrString({ type = 0, intVal = 0, strVal = '' }: JsonObject): unknown {
  if (type === 0) return intVal;
  if (type === 1) return strVal;
  throw new BodyMistake('impossible IntOrString.Type');
}

/** JSON can express times in the years 0 to 9999. In Unix seconds. */
const firstSecond = -62_167_219_200;
const lastSecond = 253_402_300_799;
/** Go's zero time, in Unix seconds: it means that no time is set. */
const noTime = -62_135_596_800;

/** The time as RFC 3339, to the second; `null` if it is not set. */
function time(fields: JsonObject): string | null {
  const seconds = secondsOf(fields);
  return seconds === undefined ? null : `${dateText(seconds)}Z`;
}

function microTime(fields: JsonObject): string | null {
  const seconds = secondsOf(fields);
  if (seconds === undefined) return null;
  const micros = Math.trunc(Number(fields['nanos'] ?? 0) / 1000);
  const whole = Math.floor(micros / 1_000_000);
  return `${dateText(seconds + whole)}.${String(micros - whole * 1_000_000).padStart(6, '0')}Z`;
}

function secondsOf(fields: JsonObject): number | undefined {
  if (Object.keys(fields).length === 0) return undefined;
  const seconds = Number(fields['seconds'] ?? 0);
  return seconds === noTime ? undefined : seconds;
}

function dateText(seconds: number): string {
  if (seconds < firstSecond || seconds > lastSecond) {
    throw new BodyMistake('Time.MarshalJSON: year outside of range [0,9999]');
  }
  return new Date(seconds * 1000).toISOString().slice(0, 19);
}

function json(bytes: unknown): unknown {
  return Buffer.isBuffer(bytes) && bytes.length > 0 ? decodeJson(bytes).value : null;
}
