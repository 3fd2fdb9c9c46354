import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { decodeRequest } from '../../lib/otlp/decode.fixture.ts';
import { exportRequest } from '../../lib/otlp/log-record.ts';
import * as fc from '../../lib/testing/fast-check.fixture.ts';
import { type FindingHead, findingLine, severities } from './finding.ts';
import { assertHas, received } from './ocsf.fixture.ts';
import { fileAttributes, findingActivity, findingAttributes, type OcsfMapping } from './ocsf.ts';
import { otlpRecord } from './otlp-record.ts';

const head: FindingHead = {
  ...{ guard: 'door-watch', kind: 'Greeting', node: { name: 'n1' }, severity: 'high', verdict: 'greeted' },
  time: '2026-11-21T10:00:00.123456789Z',
  object: { kind: 'Door', namespace: 'shop', name: 'front' },
  policy: { kind: 'DoorPolicy', namespace: '', name: 'polite' },
  message: 'The front door was greeted.',
};
const greeting: OcsfMapping = () => ({
  class: 'fileActivity',
  activity: [2, 'Read'],
  action: 'denied',
  attributes: fileAttributes('/doors/front'),
});

suite('a finding as a log record', () => {
  test('attributes of all findings', () => {
    const { body, severityNumber, severityText, timeUnixNano, values } = received(
      findingLine(head),
      greeting,
    );
    assert.equal(body, 'The front door was greeted.');
    assert.deepEqual([severityNumber, severityText], [17, 'high']);
    assert.equal(timeUnixNano, String(BigInt(Date.UTC(2026, 10, 21, 10)) * 1_000_000n + 123_456_789n));
    assertHas(values, {
      ...{ 'rampart.guard': 'door-watch', 'rampart.kind': 'Greeting', 'rampart.verdict': 'greeted' },
      'rampart.object.kind': 'Door',
      'rampart.object.namespace': 'shop',
      'rampart.object.name': 'front',
      'rampart.policy.kind': 'DoorPolicy',
      'rampart.policy.namespace': undefined,
      'rampart.policy.name': 'polite',
      ...{ 'policy.name': 'polite', 'policy.uid': 'polite', 'policy.type': 'DoorPolicy' },
      ...{ class_uid: 1001, activity_id: 2, type_uid: 100_102, type_name: 'File System Activity: Read' },
      ...{ severity_id: 4, severity: 'High', 'device.hostname': 'n1' },
      ...{ action_id: 2, action: 'Denied', disposition_id: 2, disposition: 'Blocked' },
      ...{ 'file.path': '/doors/front', 'file.name': 'front' },
      ...{ 'log.record.uid': 'id-1', 'metadata.uid': 'id-1', 'metadata.product.version': '0.1.0' },
    });
  });

  test('severities rise in both schemas', () => {
    const all = severities.map((severity) => received(findingLine({ ...head, severity }), greeting));
    for (const numbers of [
      all.map(({ severityNumber }) => severityNumber),
      all.map(({ values }) => values['severity_id']),
    ])
      assert.deepEqual(
        numbers,
        numbers.toSorted((one, other) => Number(one) - Number(other)),
      );
  });

  test('a finding keeps its uid from the first to the last', () => {
    const uid = (message: string, isClosed: boolean): unknown =>
      findingAttributes({ ...head, message }, isClosed)['finding_info.uid'];
    assert.equal(uid('open', false), uid('closed', true));
    assert.equal(uid('open', false), 'door-watch:Door/shop/front:DoorPolicy//polite');
    assert.deepEqual(
      [findingActivity(false), findingActivity(true)],
      [
        [1, 'Create'],
        [3, 'Close'],
      ],
    );
  });

  test('findings without object, policy or node; of a guard without a mapping; lines that are not findings', () => {
    const options = { mappings: new Map(), version: '0.1.0' };
    const recordOf = (text: string) =>
      otlpRecord({ id: 'i', line: Buffer.from(text), acceptedMs: 5.5 }, options);
    const alone = recordOf(findingLine({ ...head, object: null, policy: null, node: { name: '' } }));
    assertHas(alone.attributes, {
      class_uid: 0,
      class_name: 'Base Event',
      'device.hostname': undefined,
      'policy.name': undefined,
    });
    const other = recordOf('not JSON');
    assert.deepEqual(other, {
      ...{ timeNs: 0n, observedNs: 5_000_000n, severityNumber: 0, severityText: '', body: 'not JSON' },
      attributes: { 'log.record.uid': 'i', raw_data: 'not JSON' },
    });
  });

  test('any line is a record that can be read', () => {
    const anyLine = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.json(),
      fc.dictionary(fc.string(), fc.jsonValue()).map((rest) => findingLine(head, rest)),
    );
    fc.assert(
      fc.property(anyLine, (text) => {
        const line = Buffer.from(text);
        const record = otlpRecord(
          { id: 'i', line, acceptedMs: 0 },
          { mappings: new Map([['door-watch', greeting]]), version: '0.1.0' },
        );
        const source = { resource: {}, scope: { name: 'rampart', version: '0.1.0' } };
        const { records } = decodeRequest(exportRequest(source, [record]));
        assert.equal(records[0]?.values['raw_data'], line.toString());
      }),
    );
  });
});
