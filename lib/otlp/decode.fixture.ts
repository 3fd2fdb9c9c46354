/**
 * Requests as OpenTelemetry's own classes read them: those that its JavaScript SDK generates from opentelemetry-proto. They
 * pass over unknown fields and convert some types; so what they have read is written again, and has to be what was sent.
 */
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';

/** A message type as protobufjs generates it. */
interface MessageType {
  fromObject(json: unknown): object;
  verify(message: object): string | null;
  encode(message: object): { finish(): Uint8Array };
  decode(bytes: Uint8Array): object;
  toObject(message: object, options: object): unknown;
}
interface Root {
  readonly opentelemetry: {
    readonly proto: {
      readonly collector: {
        readonly logs: { readonly v1: { readonly ExportLogsServiceRequest: MessageType } };
      };
    };
  };
}

export interface DecodedRecord {
  readonly timeUnixNano: string;
  readonly observedTimeUnixNano: string;
  readonly severityNumber: number;
  readonly severityText: string;
  readonly body: { readonly stringValue: string };
  readonly attributes: readonly KeyValue[];
}
interface KeyValue {
  readonly key: string;
  readonly value: Readonly<Record<string, unknown>>;
}
interface DecodedRequest {
  readonly resourceLogs: readonly {
    readonly resource: { readonly attributes: readonly KeyValue[] };
    readonly scopeLogs: readonly {
      readonly scope: { readonly name: string; readonly version: string };
      readonly logRecords: readonly DecodedRecord[];
    }[];
  }[];
}

const require = createRequire(import.meta.url);
const { opentelemetry } = require('@opentelemetry/otlp-transformer/build/src/generated/root.js') as Root;
const { ExportLogsServiceRequest } = opentelemetry.proto.collector.logs.v1;

export interface Decoded {
  readonly resource: Readonly<Record<string, unknown>>;
  readonly scope: { readonly name: string; readonly version: string };
  readonly records: readonly (DecodedRecord & { readonly values: Readonly<Record<string, unknown>> })[];
}

/** @throws {assert.AssertionError} for what is no request by the schema. */
export function decodeRequest(json: string): Decoded {
  const sent = JSON.parse(json) as unknown;
  const message = ExportLogsServiceRequest.fromObject(sent);
  assert.equal(ExportLogsServiceRequest.verify(message), null);
  const read = ExportLogsServiceRequest.decode(ExportLogsServiceRequest.encode(message).finish());
  const written = ExportLogsServiceRequest.toObject(read, { longs: String, json: true }) as DecodedRequest;
  assert.deepEqual(withoutDefaults(written), withoutDefaults(sent));
  const [{ resource, scopeLogs: [{ scope, logRecords } = assert.fail()] } = assert.fail()] =
    written.resourceLogs;
  return {
    resource: valuesOf(resource.attributes ?? []),
    scope,
    records: logRecords.map((record) => ({ ...record, values: valuesOf(record.attributes ?? []) })),
  };
}

/** proto3 need not write what is zero or empty; a chosen alternative (`stringValue: ""`) is written. */
function withoutDefaults(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutDefaults);
  if (typeof value !== 'object' || value === null) return value;
  const isChoice = Object.keys(value).some((key) => key.endsWith('Value'));
  const kept = Object.entries(value).filter(
    ([, inner]) => isChoice || !(inner === '' || inner === 0 || inner === '0' || isEmpty(inner)),
  );
  return Object.fromEntries(kept.map(([key, inner]) => [key, withoutDefaults(inner)]));
}

function isEmpty(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0;
}

function valuesOf(attributes: readonly KeyValue[]): Readonly<Record<string, unknown>> {
  const keys = attributes.map(({ key }) => key);
  assert.equal(new Set(keys).size, keys.length, 'no key twice');
  return Object.fromEntries(attributes.map(({ key, value }) => [key, plain(value)]));
}

/** An AnyValue as people write it in tests. */
function plain(value: Readonly<Record<string, unknown>>): unknown {
  const [[kind, inner] = assert.fail('no value')] = Object.entries(value);
  if (kind === 'intValue') return Number(inner);
  if (kind === 'arrayValue')
    return ((inner as { values?: Readonly<Record<string, unknown>>[] }).values ?? []).map(plain);
  if (kind === 'kvlistValue') return valuesOf((inner as { values?: KeyValue[] }).values ?? []);
  return inner;
}
