/** A line of a guard as a receiver of OTLP has it. */
import assert from 'node:assert/strict';

import { decodeRequest } from '../../lib/otlp/decode.fixture.ts';
import { exportRequest } from '../../lib/otlp/log-record.ts';
import { type OcsfMapping, ocsfClasses } from './ocsf.ts';
import { otlpRecord } from './otlp-record.ts';

export interface ReceivedFinding {
  readonly body: string;
  readonly severityNumber: number;
  readonly severityText: string;
  readonly timeUnixNano: string;
  readonly values: Readonly<Record<string, unknown>>;
}

/** Checks the fields that all events of OCSF require. */
export function received(line: string, mapping: OcsfMapping): ReceivedFinding {
  const { guard } = JSON.parse(line) as { guard: string };
  const stored = { id: 'id-1', line: Buffer.from(line), acceptedMs: 1_795_000_000_000 };
  const record = otlpRecord(stored, { mappings: new Map([[guard, mapping]]), version: '0.1.0' });
  const request = exportRequest({ resource: {}, scope: { name: 'rampart', version: '0.1.0' } }, [record]);
  const [decoded = assert.fail()] = decodeRequest(request).records;
  const { values } = decoded;
  const known = Object.values(ocsfClasses).find(({ uid }) => uid === values['class_uid']);
  assert.ok(known, `class ${String(values['class_uid'])}`);
  assert.equal(values['class_name'], known.name);
  assert.equal(values['category_uid'], known.category[0]);
  assert.equal(values['type_uid'], known.uid * 100 + Number(values['activity_id']));
  assert.equal(values['metadata.version'], '1.8.0');
  assert.equal(values['metadata.product.name'], 'Rampart');
  assert.equal(String(values['time']), decoded.timeUnixNano.slice(0, -6));
  assert.equal(values['raw_data'], line);
  assert.equal(values['rampart.guard'], guard);
  const { severityNumber, severityText, timeUnixNano } = decoded;
  return { body: decoded.body.stringValue, severityNumber, severityText, timeUnixNano, values };
}

/** `actual` has these. */
export function assertHas(
  actual: Readonly<Record<string, unknown>>,
  wanted: Readonly<Record<string, unknown>>,
): void {
  assert.deepEqual(Object.fromEntries(Object.keys(wanted).map((key) => [key, actual[key]])), wanted);
}
