import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import * as fc from '../lib/testing/fast-check.fixture.ts';

import { isAgentLease, readAgentLease } from './agent-lease-names.ts';

const labels = { 'rampart.dev/agent': 'n1' };

function leaseOf(guards: string, node = 'n1') {
  return {
    metadata: { name: 'a', labels, annotations: { 'rampart.dev/node': node, 'rampart.dev/guards': guards } },
  };
}

function guardsOf(guards: unknown): Record<string, unknown> {
  const text = typeof guards === 'string' ? guards : JSON.stringify(guards);
  return Object.fromEntries(readAgentLease(leaseOf(text))?.guards ?? [['none', 'at all']]);
}

suite('the Lease of an agent', () => {
  test('each state, with its reason', () => {
    const lease = readAgentLease(
      leaseOf(
        '{"a":{"state":"running"},"b":{"state":"unavailable","reason":"no BPF"},"c":{"state":"starting"},' +
          '"d":{"state":"waiting","reason":"no CRD"}}',
        'n1.example.com',
      ),
    );
    assert.equal(lease?.nodeName, 'n1.example.com');
    assert.deepEqual(
      [...lease.guards],
      [
        ['a', { state: 'running', reason: '' }],
        ['b', { state: 'unavailable', reason: 'no BPF' }],
        ['c', { state: 'starting', reason: '' }],
        ['d', { state: 'waiting', reason: 'no CRD' }],
      ],
    );
  });

  test('facts of a guard are plain values, and few', () => {
    const facts = {
      backend: 'nftables',
      syncs: 3,
      ok: true,
      long: 'x'.repeat(500),
      nested: { a: 1 },
      list: [1],
      no: null,
    };
    assert.deepEqual(guardsOf({ guard: { state: 'running', facts } }), {
      guard: {
        state: 'running',
        reason: '',
        facts: { backend: 'nftables', syncs: 3, ok: true, long: 'x'.repeat(200) },
      },
    });
    const many = Object.fromEntries(Array.from({ length: 200 }, (_, at) => [`f${at}`, at]));
    const read = (given: unknown) => {
      const lease = readAgentLease(leaseOf(JSON.stringify({ guard: { state: 'running', facts: given } })));
      return lease?.guards.get('guard')?.facts;
    };
    assert.equal(Object.keys(read(many) ?? {}).length, 128);
    assert.deepEqual(read(7), {});
    assert.equal(read(undefined), undefined);
  });

  test('coverage and losses of a guard are texts and numbers, of limited size', () => {
    const read = (coverage: unknown, losses = '') => {
      const lease = leaseOf(JSON.stringify({ guard: { state: 'running', coverage } }));
      return readAgentLease({
        metadata: {
          ...lease.metadata,
          annotations: { ...lease.metadata.annotations, 'rampart.dev/losses': losses },
        },
      });
    };
    const coverage = { mode: 'kprobe', blindSpots: ['rename'], losses: { accesses: 3 } };
    const known = read(coverage, '{"lines":2,"why":"slow"}');
    assert.deepEqual([known?.guards.get('guard')?.coverage, known?.losses], [coverage, { lines: 2 }]);
    const empty = { mode: '', blindSpots: [], losses: {} };
    for (const odd of [7, [], { mode: 1, blindSpots: 'all', losses: [3] }])
      assert.deepEqual(read(odd)?.guards.get('guard')?.coverage, empty);
    const many = {
      ...empty,
      mode: 'x'.repeat(999),
      blindSpots: Array.from({ length: 20 }, () => 'x'.repeat(300)),
    };
    const cut = read(many)?.guards.get('guard')?.coverage;
    assert.deepEqual([cut?.mode.length, cut?.blindSpots.length, cut?.blindSpots[0]?.length], [200, 16, 200]);
  });

  test('other Leases are not those of agents; one without a node still is', () => {
    const { annotations } = leaseOf('{}').metadata;
    assert.equal(readAgentLease({ metadata: { name: 'kive', annotations } }), undefined);
    assert.equal(isAgentLease({ metadata: { name: 'kive', annotations } }), false);
    for (const node of ['', 'N1', 'a_b', '-n', 'a..b', 'n\n', 'a'.repeat(254)]) {
      assert.equal(readAgentLease(leaseOf('{}', node)), undefined, node);
      assert.equal(isAgentLease(leaseOf('{}', node)), true);
    }
    assert.equal(readAgentLease({ metadata: { name: 'a', labels } }), undefined);
  });

  test('reads known fields of guards, of limited length', () => {
    const running = { state: 'running', reason: '' };
    for (const [given, expected] of [
      ['', {}],
      ['{', {}],
      ['null', {}],
      ['[{"state":"running"}]', {}],
      [`{"a":{"state":"running"},"b":"${'x'.repeat(20_000)}"}`, {}],
      [
        { a: null, b: 'running', c: { state: 'sleeping' }, d: {}, e: [], f: { state: 'running' } },
        { f: running },
      ],
      [{ 'A b': { state: 'running' }, '\u001b': { state: 'running' } }, {}],
      [
        '{"__proto__":{"state":"running"},"a":{"state":"running","__proto__":{"reason":"x"}}}',
        { a: running },
      ],
      [{ a: { state: 'running', reason: 7 } }, { a: running }],
      [
        { a: { state: 'waiting', reason: 'x'.repeat(2000) } },
        { a: { state: 'waiting', reason: 'x'.repeat(1000) } },
      ],
    ] as const) {
      assert.deepEqual(guardsOf(given), expected, JSON.stringify(given).slice(0, 80));
    }
    const many = Object.fromEntries(Array.from({ length: 100 }, (_, at) => [`g${at}`, { state: 'running' }]));
    assert.equal(readAgentLease(leaseOf(JSON.stringify(many)))?.guards.size, 64);
  });

  test('whatever is written there', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
        for (const [name, { state, reason }] of readAgentLease(leaseOf(text))?.guards ?? []) {
          assert.match(name, /^[a-z]/);
          assert.ok(['starting', 'running', 'waiting', 'unavailable'].includes(state));
          assert.equal(typeof reason, 'string');
        }
      }),
    );
  });
});
