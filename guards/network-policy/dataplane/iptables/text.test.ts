import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';

import { addressText, addressValue } from '../../engine/addresses.ts';
import * as fc from '../../../../lib/testing/fast-check.fixture.ts';
import { blocksOf, coversAll } from './blocks.ts';
import { familyEdits } from './edits.ts';
import { type IpSet, setEdits } from './ipset.ts';
import { comment, idOf, podChain, policyChain, setName } from './names.ts';
import { noFamilyRules } from './rules.ts';

test('names fit the kernel, distinguish namespaces, directions and families, and are a digit of our own and base32 of a SHA-256', () => {
  const long = `${'n'.repeat(63)}/${'p'.repeat(253)}`;
  assert.equal(podChain(long).length, 28);
  assert.equal(policyChain('ingress', long, 6).length, 28);
  assert.equal(setName('SRC', 6, idOf(long)).length, 31);
  assert.notEqual(podChain('a/bc'), podChain('ab/c'));
  assert.notEqual(policyChain('ingress', 'a/b', 4), policyChain('egress', 'a/b', 4));
  assert.notEqual(policyChain('ingress', 'a/b', 4), policyChain('ingress', 'a/b', 6));
  const digest = BigInt(`0x${createHash('sha256').update('a\nb').digest('hex')}`) >> 176n;
  const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';
  const id = Array.from({ length: 15 }, (_, at) => letters[Number((digest >> BigInt(75 - 5 * at)) & 31n)]);
  assert.equal(idOf('a', 'b'), `0${id.join('')}`);
});

test('comments are quoted as iptables-save quotes them, and cannot end a line', () => {
  assert.equal(comment('plain-word_1'), '-m comment --comment plain-word_1');
  assert.equal(comment("the pod's"), String.raw`-m comment --comment "the pod\'s"`);
  assert.equal(comment('a"\nCOMMIT'), '-m comment --comment "a??COMMIT"');
  assert.ok(comment('x'.repeat(400)).length < 256);
});

test('ranges as blocks: the same addresses, none twice, and no block of all', () => {
  assert.deepEqual(blocksOf(4, [{ first: '0.0.0.0', last: '255.255.255.255' }]), [
    '0.0.0.0/1',
    '128.0.0.0/1',
  ]);
  assert.deepEqual(blocksOf(6, [{ first: '::', last: 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff' }]), [
    '::/1',
    '8000::/1',
  ]);
  assert.deepEqual(blocksOf(4, [{ first: '10.0.0.1', last: '10.0.0.4' }]), [
    '10.0.0.1',
    '10.0.0.2/31',
    '10.0.0.4',
  ]);
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 2 ** 32 - 1 }), fc.nat(5000), (low, more) => {
      const high = Math.min(low + more, 2 ** 32 - 1);
      const range = { first: addressText(4, BigInt(low)), last: addressText(4, BigInt(high)) };
      let next = BigInt(low);
      for (const block of blocksOf(4, [range])) {
        const [address = '', length = '32'] = block.split('/');
        assert.equal(addressValue(address), next);
        const size = 1n << BigInt(32 - Number(length));
        assert.equal(next % size, 0n);
        next += size;
      }
      assert.equal(next, BigInt(high) + 1n);
    }),
  );
});

test('whether ranges cover addresses', () => {
  const ranges = [
    { first: '10.0.0.0', last: '10.0.0.255' },
    { first: '10.0.2.0', last: '10.0.2.255' },
  ];
  assert.ok(coversAll(ranges, ['10.0.0.9', '10.0.2.255']));
  assert.ok(!coversAll(ranges, ['10.0.0.9', '10.0.1.1']));
});

test('a chain is changed where it differs, so that the counts of its other rules stay', () => {
  const rules = (...lines: readonly string[]) => ({ ...noFamilyRules, chains: new Map([['C', lines]]) });
  const before = rules('-j A', '-j P1', '-j P2', '-j REJECT');
  assert.deepEqual(familyEdits(before, rules('-j A', '-j P2', '-j P3', '-j REJECT')), [
    '-D C -j P1',
    '-D C -j P2',
    '-I C 2 -j P2',
    '-I C 3 -j P3',
  ]);
  assert.deepEqual(familyEdits(before, before), []);
  // Deleted by its text, the wrong one of two that are alike could go.
  const twice = rules('-j A', '-j B', '-j A');
  assert.deepEqual(familyEdits(twice, rules('-j B', '-j A')), [':C - [0:0]', '-A C -j B', '-A C -j A']);
});

test('members come before the rules change and go after it', () => {
  const set = (...members: readonly string[]): IpSet => ({
    ...{ name: 'KUBE-SRC-A', type: 'hash:net', family: 4 },
    members: new Set(members),
  });
  const of = (one: IpSet) => new Map([[one.name, one]]);
  assert.deepEqual(setEdits(of(set('10.0.0.1', '10.0.0.2')), of(set('10.0.0.2', '10.0.0.3'))), {
    before: ['add KUBE-SRC-A 10.0.0.3'],
    after: ['del KUBE-SRC-A 10.0.0.1'],
  });
  assert.deepEqual(setEdits(of(set('10.0.0.1')), new Map()), { before: [], after: ['destroy KUBE-SRC-A'] });
  const swapped = setEdits(of({ ...set('10.0.0.1'), isOdd: true }), of(set('10.0.0.2')));
  assert.match(
    swapped.before.join('\n'),
    /^create (\S+) hash:net .*\nflush \1\nadd \1 10.*\nadd \1 10.*\nswap \1 KUBE-SRC-A\ndestroy \1$/,
  );
  assert.deepEqual(swapped.after, ['del KUBE-SRC-A 10.0.0.1']);
});
