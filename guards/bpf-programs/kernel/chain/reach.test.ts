import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as fc from '../../../../lib/testing/fast-check.fixture.ts';

import { Reach } from './reach.ts';

const hook = (...runs: readonly number[]) => ({
  key: 'eth0 ingress',
  members: runs.map((count, programId) => ({ programId, runs: BigInt(count) })),
});

test('a program that ran a hundred times while the next one did not ends the chain', () => {
  const reach = new Reach();
  assert.equal(reach.count(hook(5, 5, 0)), undefined);
  assert.equal(reach.count(hook(104, 104, 0)), undefined);
  assert.equal(reach.count(hook(105, 105, 0)), 1);
  // Nothing came: what is known stays.
  assert.equal(reach.count(hook(105, 105, 0)), 1);
  assert.equal(reach.count(hook(106, 106, 0)), 1);
  // Now the first does.
  assert.equal(reach.count(hook(150, 106, 0)), 1);
  assert.equal(reach.count(hook(206, 106, 0)), 0);
});

test('one packet that reaches the end refutes it, and it takes more to say so again', () => {
  const reach = new Reach();
  reach.count(hook(0, 0));
  assert.equal(reach.count(hook(100, 0)), 0);
  assert.equal(reach.count(hook(101, 1)), undefined);
  assert.equal(reach.count(hook(1000, 1)), undefined);
  assert.equal(reach.count(hook(1101, 1)), 0);
});

test('other programs, or counters that begin anew, are another hook', () => {
  const reach = new Reach();
  reach.count(hook(0, 0));
  assert.equal(reach.count(hook(100, 0)), 0);
  assert.equal(reach.count(hook(3, 0)), undefined);
  assert.equal(reach.count(hook(103, 0)), 0);
  assert.equal(reach.count(hook(200, 0, 0)), undefined);
  reach.keepOnly(new Set());
  assert.equal(reach.count(hook(300, 0, 0)), undefined);
  assert.equal(reach.count(hook(400, 0, 0)), 0);
});

test('reports nothing about programs that let all packets go on', () => {
  fc.assert(
    fc.property(fc.array(fc.nat({ max: 1000 })), (packets) => {
      const reach = new Reach();
      let sum = 0;
      for (const count of packets) assert.equal(reach.count(hook((sum += count), sum, sum)), undefined);
    }),
  );
});
