import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { test } from 'node:test';

import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import * as fc from '../../../../lib/testing/fast-check.fixture.ts';
import { Btf } from './btf.ts';
import { sizeOf, valueOf } from './btf-value.ts';
import { functionTypes } from '../compose/compose.ts';

const path = '/sys/kernel/btf/vmlinux';

test("the kernel's own types", { skip: existsSync(path) ? false : `there is no ${path}` }, () => {
  const btf = new Btf(readFileSync(path));
  const list = btf.types.findIndex(({ kind, name }) => kind === 'struct' && name === 'list_head');
  assert.equal(sizeOf(btf, list), 16);
  const bytes = Buffer.alloc(16);
  bytes.writeBigUInt64LE(0xffff_8000n, 0);
  assert.deepEqual(valueOf(btf, list, bytes), { next: '0xffff8000', prev: '0x0' });
  // A truncated value has null for missing parts.
  assert.deepEqual(valueOf(btf, list, bytes.subarray(0, 8)), { next: '0xffff8000', prev: null });
});

test('malformed BTF is reported as malformed, without other effects', () => {
  const good = Buffer.from(functionTypes(['one', 'two']).bytes);
  assert.equal(new Btf(good).types.length, 5);
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.nat({ max: good.length - 1 }), fc.nat({ max: 255 })), { maxLength: 6 }),
      fc.nat({ max: good.length }),
      (changes, length) => {
        const bytes = Buffer.from(good);
        for (const [at, value] of changes) bytes[at] = value;
        try {
          const btf = new Btf(bytes.subarray(0, length));
          for (let id = 0; id < btf.types.length; id++) valueOf(btf, id, Buffer.alloc(8));
          btf.variables();
        } catch (error) {
          assert.ok(error instanceof RampartError && error.code === errorCodes.DECODE, String(error));
        }
      },
    ),
    { numRuns: 2000 },
  );
});
