import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import * as fc from '../../lib/testing/fast-check.fixture.ts';
import { type FindingHead, findingLine, kindOf, severities, severityOf } from './finding.ts';
import { readFinding } from './read-finding.ts';

const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc.constantFrom('', '"severity":"low"', '\\', '\n', '\u202e'),
);
const reference = fc.option(
  fc.record({ kind: text, namespace: text, name: text }, { noNullPrototype: true }),
);
const anyHead: fc.Arbitrary<FindingHead> = fc.record(
  {
    guard: text,
    kind: text,
    time: fc.constantFrom('2026-11-21T10:00:00Z', '2026-11-21T10:00:00.123456789Z'),
    node: fc.record({ name: text }, { noNullPrototype: true }),
    severity: fc.constantFrom(...severities),
    object: reference,
    policy: reference,
    verdict: text,
    message: text,
  },
  { noNullPrototype: true },
);

const head: FindingHead = {
  ...{ guard: 'door-watch', kind: 'Greeting', node: { name: 'n1' }, severity: 'low', verdict: 'greeted' },
  time: '2026-11-21T10:00:00.123456789Z',
  object: { kind: 'Door', namespace: 'shop', name: 'front' },
  policy: null,
  message: 'The front door was greeted.',
};

suite('the line of a finding', () => {
  test('any head survives a round trip, on one line with a unique beginning', () => {
    fc.assert(
      fc.property(anyHead, (any) => {
        const line = findingLine(any, { more: 1 });
        assert.ok(!line.includes('\n'));
        assert.equal(severityOf(line), any.severity);
        const read = readFinding(line);
        assert.deepEqual(read?.head, any);
        assert.equal(read.keys['more'], 1);
        assert.deepEqual(Object.keys(read.keys), [
          ...['guard', 'kind', 'time', 'node', 'severity', 'object', 'policy', 'verdict', 'message', 'more'],
        ]);
      }),
    );
  });

  test('its time, to the nanosecond', () => {
    const expected = BigInt(Date.UTC(2026, 10, 21, 10)) * 1_000_000n + 123_456_789n;
    assert.equal(readFinding(findingLine(head))?.timeNs, expected);
  });

  test('its kind, without parsing it', () => {
    assert.equal(kindOf(findingLine(head)), 'Greeting');
    for (const other of ['', '{"level":30}', ` ${findingLine(head)}`, '{"guard":"a","time":"","kind":"b"}'])
      assert.equal(kindOf(other), undefined);
  });

  test('other lines, and those without a key of the head, are not findings', () => {
    const line = findingLine(head);
    for (const other of [
      '',
      'rampart: guarding node n1',
      '{"level":30,"msg":"x"}',
      '{"guard":"x"}',
      line.slice(0, -2),
      ` ${line}`,
    ]) {
      assert.equal(readFinding(other), undefined, other);
    }
    for (const key of Object.keys(head)) {
      const without = line.replace(`"${key}":`, '"other":');
      assert.equal(readFinding(without), undefined, key);
    }
    for (const [from, to] of [
      ['"low"', '"lowest"'],
      ['2026-11-21T', '2026-11-21 '],
      ['"policy":null', '"policy":{"kind":"x","name":"y"}'],
      ['{"name":"n1"}', '"n1"'],
    ] as const)
      assert.equal(readFinding(line.replace(from, to)), undefined, to);
  });
});
