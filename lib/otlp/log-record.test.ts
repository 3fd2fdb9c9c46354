import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import * as fc from '../testing/fast-check.fixture.ts';
import { decodeRequest } from './decode.fixture.ts';
import { type AttributeValue, exportRequest, type LogRecord, type LogSource } from './log-record.ts';

const source: LogSource = {
  resource: { 'service.name': 'rampart', 'k8s.node.name': undefined },
  scope: { name: 'rampart', version: '0.1.0' },
};
const record: LogRecord = {
  timeNs: 1_795_000_000_123_456_789n,
  observedNs: 1_795_000_000_200_000_000n,
  severityNumber: 17,
  severityText: 'high',
  body: 'It was read.',
  attributes: {},
};

const text = fc.string({ unit: 'binary', maxLength: 20 });
const { value: anyValue } = fc.letrec<{ value: AttributeValue }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    text,
    fc.boolean(),
    fc.integer(),
    fc.maxSafeInteger(),
    fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    fc.double({ noNaN: true, noDefaultInfinity: true, noInteger: true }),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(text, tie('value'), { maxKeys: 3, noNullPrototype: true }),
  ),
}));

suite('log records, as the classes of the OpenTelemetry SDK read them', () => {
  test('a record', () => {
    const attributes = {
      text: 'x',
      empty: '',
      whole: 42,
      large: 2n ** 63n - 1n,
      share: 0.5,
      yes: true,
      no: false,
      absent: undefined,
      list: [{ name: 'a', namespace: undefined }, { name: 'b' }],
    };
    const { resource, scope, records } = decodeRequest(exportRequest(source, [{ ...record, attributes }]));
    assert.deepEqual(resource, { 'service.name': 'rampart' });
    assert.equal(scope.name, 'rampart');
    const [{ values, ...decoded } = assert.fail()] = records;
    assert.equal(decoded.timeUnixNano, '1795000000123456789');
    assert.equal(decoded.observedTimeUnixNano, '1795000000200000000');
    assert.equal(decoded.severityNumber, 17);
    assert.equal(decoded.severityText, 'high');
    assert.deepEqual(decoded.body, { stringValue: 'It was read.' });
    assert.deepEqual(values, {
      ...{ text: 'x', empty: '', whole: 42, large: 2 ** 63, share: 0.5, yes: true, no: false },
      list: [{ name: 'a' }, { name: 'b' }],
    });
  });

  test('any attributes, any text', () => {
    const attributes = fc.dictionary(text, anyValue, { maxKeys: 5, noNullPrototype: true });
    fc.assert(
      fc.property(
        fc.array(fc.record({ body: text, attributes }), { minLength: 1, maxLength: 4 }),
        (several) => {
          const records = several.map((one) => ({ ...record, ...one }));
          const decoded = decodeRequest(exportRequest(source, records));
          assert.equal(decoded.records.length, records.length);
        },
      ),
      { numRuns: 300 },
    );
  });
});
