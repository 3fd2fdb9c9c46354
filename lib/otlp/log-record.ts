/**
 * Log records in OTLP's JSON: the proto3 JSON mapping of `ExportLogsServiceRequest`, in which integers of 64 bits are strings
 * and enums are numbers.
 *
 * https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
 */

export type AttributeValue =
  | string
  | number
  | bigint
  | boolean
  | readonly AttributeValue[]
  | { readonly [key: string]: AttributeValue | undefined };

/** Undefined attributes are omitted. */
export type Attributes = Readonly<Record<string, AttributeValue | undefined>>;

export interface LogRecord {
  /** When the event happened, in ns since 1970; 0 if that is not known. */
  readonly timeNs: bigint;
  /** When this program learnt of the event, in ns since 1970. */
  readonly observedNs: bigint;
  /** `SeverityNumber` of OpenTelemetry's log data model, 0 to 24. */
  readonly severityNumber: number;
  readonly severityText: string;
  readonly body: string;
  readonly attributes: Attributes;
}

/** The sender, for all records of a request. */
export interface LogSource {
  readonly resource: Attributes;
  readonly scope: { readonly name: string; readonly version: string };
}

type AnyValue =
  | { readonly stringValue: string }
  | { readonly boolValue: boolean }
  | { readonly intValue: string }
  | { readonly doubleValue: number | string }
  | { readonly arrayValue: { readonly values: readonly AnyValue[] } }
  | { readonly kvlistValue: { readonly values: readonly KeyValue[] } };

interface KeyValue {
  readonly key: string;
  readonly value: AnyValue;
}

/** The body of a request. */
export function exportRequest({ resource, scope }: LogSource, records: readonly LogRecord[]): string {
  const logRecords = records.map((record) => ({
    timeUnixNano: String(record.timeNs),
    observedTimeUnixNano: String(record.observedNs),
    severityNumber: record.severityNumber,
    severityText: record.severityText,
    body: { stringValue: record.body },
    attributes: keyValues(record.attributes),
  }));
  return JSON.stringify({
    resourceLogs: [{ resource: { attributes: keyValues(resource) }, scopeLogs: [{ scope, logRecords }] }],
  });
}

function keyValues(attributes: Attributes): KeyValue[] {
  const pairs: KeyValue[] = [];
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined) pairs.push({ key, value: anyValue(value) });
  }
  return pairs;
}

function anyValue(value: AttributeValue): AnyValue {
  if (typeof value === 'string') return { stringValue: value };
  if (typeof value === 'boolean') return { boolValue: value };
  if (typeof value === 'bigint' || Number.isSafeInteger(value)) return { intValue: String(value) };
  // JSON has no infinite numbers, and proto3's mapping has texts for them.
  if (typeof value === 'number') return { doubleValue: Number.isFinite(value) ? value : String(value) };
  return Array.isArray(value)
    ? { arrayValue: { values: value.map(anyValue) } }
    : { kvlistValue: { values: keyValues(value as Attributes) } };
}
