import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { errorCodes } from '../../../../lib/errors/errors.ts';
import { BpfObject } from '../../../../lib/ebpf/object.ts';
import * as fc from '../../../../lib/testing/fast-check.fixture.ts';
import { bytecode } from '../lab.fixture.ts';
import { Btf } from './btf.ts';
import { putValue } from './btf-bytes.ts';
import { valueOf } from './btf-value.ts';

function typesOf(name: string): Btf {
  using object = BpfObject.open(bytecode(name), name);
  return new Btf(object.types() ?? new Uint8Array());
}

suite('values become bytes', () => {
  const btf = typesOf('values');
  const id = btf.types.findIndex(({ kind, name }) => kind === 'struct' && name === 'value');
  const put = (value: unknown, isComplete = false, bytes: Buffer = Buffer.alloc(48)): Buffer => {
    putValue({ btf, path: 'value', isComplete }, id, value, bytes);
    return bytes;
  };

  test('values can be written in the form in which they are shown', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 48, maxLength: 48 }), (random) => {
        const bytes = Buffer.from(random);
        // A _Bool of the kernel is 0 or 1, and what is shown as a text ends with zeros.
        bytes[12] = (bytes[12] ?? 0) & 1;
        const shown = valueOf(btf, id, bytes);
        assert.deepEqual(valueOf(btf, id, put(JSON.parse(JSON.stringify(shown)))), shown);
      }),
    );
  });

  test('members that are left out stay', () => {
    const bytes = put({ many: '0x10', name: 'eth0', colour: 'BLUE', high: 17 });
    put({ low: 5, below: -5 }, false, bytes);
    const shown = valueOf(btf, id, bytes) as Record<string, unknown>;
    assert.deepEqual(
      [shown['many'], shown['name'], shown['colour'], shown['high'], shown['low'], shown['below']],
      [16, 'eth0', 'BLUE', 17, 5, -5],
    );
  });

  const refusals: readonly (readonly [unknown, RegExp])[] = [
    [{ nothing: 1 }, /^value\.nothing is not in the type\. Members: many, below/],
    [{ many: -1 }, /^value\.many is -1, and must be from 0 to 18446744073709551615/],
    [{ below: 2 ** 31 }, /^value\.below is 2147483648, and must be from -2147483648 to 2147483647/],
    [{ low: 8 }, /^value\.low is 8, and must be from 0 to 7/],
    [{ colour: 'GREEN' }, /^value\.colour is "GREEN"\. Use one of: RED, BLUE/],
    [{ name: 'a name that is too long' }, /^value\.name has 23 bytes, and the array has 16/],
    [{ halves: [1] }, /^value\.halves has 1 elements, and must have 2/],
    [{ halves: [1, 70_000] }, /^value\.halves\[1\] is 70000/],
    [{ whole: 1, halves: [2, 0] }, /^value has different values in one place: whole, halves/],
    [{ yes: 'maybe' }, /^value\.yes is "maybe", and must be an integer/],
    [{ below: 1.5 }, /^value\.below is 1\.5/],
    [7, /^value is 7, and must be an object/],
    [{ constructor: 1 }, /^value\.constructor is not in the type/],
  ];
  for (const [value, message] of refusals) {
    test(`refused: ${JSON.stringify(value)}`, () => {
      assert.throws(() => put(value), { code: errorCodes.INPUT, message });
    });
  }

  test('every member of a key is required, except members of a union', () => {
    const all = { many: 1, below: 1, yes: true, name: 'a', colour: 1, low: 1, high: 1, whole: 1 };
    put(all, true);
    const { colour: _, ...rest } = all;
    assert.throws(() => put(rest, true), { code: errorCodes.INPUT, message: /^value\.colour is missing/ });
  });
});
