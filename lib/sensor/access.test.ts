import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { suite, test } from 'node:test';

import { RampartError } from '../errors/errors.ts';
import * as fc from '../testing/fast-check.fixture.ts';
import {
  accessFilter,
  accessWords,
  ANY_OPERATION,
  attributeBits,
  describeMask,
  everyAccess,
  may,
  operationBits,
} from './access.ts';

const isInput = (pattern: RegExp) => (error: unknown) =>
  error instanceof RampartError && error.code === 'RAMPART_INPUT' && pattern.test(error.message);

suite('accessFilter', () => {
  test('one bit per word, and all of them together', () => {
    assert.deepEqual(
      accessWords.map((word) => accessFilter([word])),
      [may.READ, may.WRITE, may.EXEC, may.APPEND, may.ACCESS, may.OPEN, ...Object.values(operationBits)],
    );
    assert.equal(accessFilter(accessWords), everyAccess);
  });

  test('order and repetition do not matter', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...accessWords), { minLength: 1 }), (words) => {
        const bits = [...new Set(words)].map((word) => accessFilter([word]));
        assert.equal(
          accessFilter(words),
          bits.reduce((sum, bit) => sum + bit, 0),
        );
      }),
    );
  });

  test('an unknown word is named, with the words there are', () => {
    for (const word of ['reed', 'READ', '', ' read', 'toString', '__proto__', 'constructor']) {
      assert.throws(() => accessFilter(['read', word]), isInput(/" is not an access.*read, write, execute/));
    }
  });

  test('no word at all is refused', () => {
    assert.throws(() => accessFilter([]), isInput(/no access is named/));
  });
});

suite('describeMask', () => {
  for (const [mask, words] of [
    [36, ['read']],
    [34, ['write']],
    [38, ['read', 'write']],
    [42, ['write', 'append']],
    [33, ['execute']],
    [6, ['read', 'write']],
    [2, ['write']],
    [18, ['check']],
    [20, ['check']],
    [32, ['open']],
    [0, ['open']],
    [may.CHDIR, ['open']],
    [operationBits.delete, ['delete']],
    [operationBits.attributes | attributeBits.mode, ['attributes']],
  ] as const) {
    test(`${mask} is ${words.join(' + ')}`, () => assert.deepEqual(describeMask(mask), words));
  }

  test('any mask gets at least one word, and a filter of these words lets it through', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 0xffff_ffff }), (mask) => {
        const words = describeMask(mask);
        assert.ok(words.length > 0);
        assert.equal(new Set(words).size, words.length);
        for (const word of words) assert.ok(wanted(accessFilter([word]), mask), `${word} of ${mask}`);
        const others = accessWords.filter((word) => !words.includes(word));
        if (others.length > 0)
          assert.ok(!wanted(accessFilter(others), mask), `not ${words.join()} of ${mask}`);
      }),
    );
  });
});

/** The kernel's rule (bpf/admit.h, `wanted`), from its source rather than from access.ts. */
function wanted(filter: number, mask: number): boolean {
  const { ACCESS, READ, WRITE, EXEC, APPEND, OPEN } = may;
  if (mask & ANY_OPERATION) return (filter & mask & ANY_OPERATION) !== 0;
  if (mask & ACCESS) return (filter & ACCESS) !== 0;
  if (mask & (READ | WRITE | EXEC | APPEND)) return (filter & mask & (READ | WRITE | EXEC | APPEND)) !== 0;
  return (filter & OPEN) !== 0;
}

test('the bits are the ones the programs are compiled with', () => {
  const header = readFileSync(new URL('./bpf/kernel.h', import.meta.url), 'utf8');
  const defined = [...header.matchAll(/^#define MAY_(\w+) (\d+)$/gm)].map(([, name, bit]) => [
    name,
    Number(bit),
  ]);
  assert.ok(defined.length >= 7);
  const shared = readFileSync(new URL('./bpf/sensor.h', import.meta.url), 'utf8');
  const operations = [...shared.matchAll(/^\t(OPERATION|ATTRIBUTES)_(\w+) = (0x\w+),$/gm)];
  assert.equal(operations.length, 8);
  for (const [, of, name = '', bit] of operations) {
    const bits: Readonly<Record<string, number>> = of === 'OPERATION' ? operationBits : attributeBits;
    assert.equal(bits[name.toLowerCase()], Number(bit), name);
  }
  for (const [name, bit] of defined) assert.equal(may[name as keyof typeof may], bit, String(name));
});
