import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { Registry } from './exposition.ts';

suite('the text for Prometheus', () => {
  test('help, type and samples; what has a meaning in the text is escaped', () => {
    const registry = new Registry();
    registry.register({
      name: 'x_total',
      help: 'A \\ and\na line "b"',
      type: 'counter',
      labelNames: ['path', 'mode'],
      read: () => [
        { labels: { path: 'a"b\\c\nd', mode: '' }, value: 2n ** 53n },
        { labels: { mode: 'é' }, value: 0.1 },
      ],
    });
    registry.register({
      name: 'y',
      help: '',
      type: 'gauge',
      labelNames: [],
      read: () => [NaN, Infinity, -Infinity, 1e21].map((value) => ({ labels: {}, value })),
    });
    const expected = [
      '# HELP x_total A \\\\ and\\na line "b"',
      '# TYPE x_total counter',
      'x_total{path="a\\"b\\\\c\\nd",mode=""} 9007199254740992',
      'x_total{mode="é"} 0.1',
      '# HELP y ',
      '# TYPE y gauge',
      'y NaN',
      'y +Inf',
      'y -Inf',
      'y 1e+21',
    ];
    assert.equal(registry.metrics(), `${expected.join('\n')}\n`);
  });

  test('a name twice and a label that was not named are refused', () => {
    const registry = new Registry();
    const metric = { name: 'x', help: '', type: 'gauge', labelNames: ['a'] } as const;
    registry.register({ ...metric, read: () => [{ labels: { b: '' }, value: 1 }] });
    assert.throws(() => registry.register({ ...metric, read: () => [] }), { code: 'RAMPART_INPUT' });
    assert.throws(() => registry.metrics(), { code: 'RAMPART_INPUT', message: /label b of metric x/ });
  });
});
