import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as fc from '../testing/fast-check.fixture.ts';
import { FairShares, type Share } from './fair-shares.ts';
import { sourceOf } from './connection-shares.ts';

test('who takes everything loses its oldest, and others lose nothing', () => {
  const shares = new FairShares({ total: 4 });
  const revoked: string[] = [];
  const take = (source: string, name: string, units = 1): Share => {
    const share = shares.open(source, () => void revoked.push(name));
    assert.ok(share.grow(units), name);
    return share;
  };
  take('quiet', 'q1');
  for (const name of ['a1', 'a2', 'a3', 'a4']) take('loud', name);
  assert.deepEqual(revoked.splice(0), ['a1']);
  take('new', 'n1');
  assert.deepEqual(revoked.splice(0), ['a2']);
  take('newer', 'm1');
  assert.deepEqual(revoked.splice(0), ['a3']);
  // All have one. Who asks for two would have most.
  assert.equal(shares.open('large', () => undefined).grow(2), false);
  assert.deepEqual(revoked, []);
});

test('kept connections stay, and a share without room does not grow', () => {
  const shares = new FairShares({ total: 3, perSource: 2 });
  const none = (): void => assert.fail('revoked');
  const kept = shares.open('a', none);
  assert.ok(kept.grow(2));
  kept.isKept = true;
  assert.equal(shares.open('a', none).grow(1), false);
  const other = shares.open('b', none);
  assert.equal(other.grow(2), false);
  assert.ok(other.grow(1));
  assert.equal(shares.used, 3);
  kept[Symbol.dispose]();
  assert.equal(shares.used, 1);
  assert.ok(other.grow(1));
});

test('the limits hold, and a source alone below its part is never revoked', () => {
  const step = fc.record({
    source: fc.nat({ max: 4 }),
    units: fc.integer({ min: 1, max: 3 }),
    ends: fc.nat({ max: 20 }),
    keeps: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const shares = new FairShares({ total: 12, perSource: 6 });
      let current = { source: -1, units: 0 };
      interface Held {
        readonly source: number;
        readonly share: Share;
        readonly units: number;
      }
      const held: Held[] = [];
      const sources = [0, 1, 2, 3, 4];
      const sum = (some: readonly Held[]): number =>
        some.reduce((total, { share }) => total + share.units, 0);
      const of = (source: number): number => sum(held.filter((one) => one.source === source));
      const free = (source: number): number =>
        sum(held.filter(({ share, ...one }) => one.source === source && !share.isKept));
      for (const { source, units, ends, keeps } of steps) {
        const asking = { source, units };
        const share: Share = shares.open(String(source), () => {
          const own = held.find((one) => one.share === share);
          assert.ok(own !== undefined && !share.isKept);
          const before = own.units + (current.source === source ? current.units : 0);
          const isMax = sources.every((one) => free(one) <= free(source) + before);
          assert.ok(isMax || of(source) + before > 6);
        });
        current = asking;
        if (share.grow(units)) {
          share.isKept = keeps && source === 0;
          held.push({ source, share, units });
        } else share[Symbol.dispose]();
        held[ends]?.share[Symbol.dispose]();
        assert.ok(shares.used <= 12);
        for (const one of sources) assert.ok(of(one) <= 6);
        assert.equal(shares.used, sum(held));
      }
    }),
  );
});

test('addresses that one host can have are one source', () => {
  for (const [address, source] of [
    ['10.1.2.3', '10.1.2.3'],
    ['::ffff:10.1.2.3', '10.1.2.3'],
    ['127.3.2.1', 'loopback'],
    ['::ffff:127.0.0.1', 'loopback'],
    ['::1', 'loopback'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
    ['2001:db8:1:2::6', '2001:db8:1:2'],
    ['2001:db8::6', '2001:db8:0:0'],
    ['fe80::1%eth0', 'fe80:0:0:0'],
  ] as const) {
    assert.equal(sourceOf(address), source, address);
  }
});
