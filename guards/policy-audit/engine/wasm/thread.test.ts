import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';

import { saidByNextThread } from '../../../../lib/testing/next-thread.fixture.ts';
import { moduleOf, sectionIds } from './binary.ts';
import { PolicyThread } from './thread.ts';

test('a thread for policies that is ended at once loads its code first: V8 may crash otherwise', async () => {
  const said = saidByNextThread();
  await new PolicyThread(() => undefined).end({ why: 'aborted', message: 'at once' });
  assert.deepEqual(await said, [{ ready: true }]);
});

/** Imports `m.f` and exports it again as `f`; `g` calls it as often as it is told. */
const caller = moduleOf(
  [
    // The type of both: (i32) -> ().
    { id: sectionIds.type, content: [1, 0x60, 1, 0x7f, 0] },
    { id: sectionIds.import, content: [1, 1, 0x6d, 1, 0x66, 0, 0] },
    { id: sectionIds.function, content: [1, 0] },
    { id: sectionIds.export, content: [2, 1, 0x66, 0, 0, 1, 0x67, 0, 1] },
    // One body of 18 bytes: call f with the count, decrement it, again unless it is 0.
    {
      id: sectionIds.code,
      content: [
        ...[1, 18, 0],
        ...[0x03, 0x40, 0x20, 0, 0x10, 0, 0x20, 0, 0x41, 1, 0x6b, 0x22, 0, 0x0d, 0, 0x0b, 0x0b],
      ],
    },
  ].map(({ id, content }) => ({ id, content: Uint8Array.from(content) })),
);

test('V8 compiles no wrappers of imports, which threads would share, once there are threads for policies', () => {
  const hasGenericWrapper = (before: string): string =>
    execFileSync(
      process.execPath,
      [
        '--allow-natives-syntax',
        '--input-type=module',
        '--eval',
        `${before}
        const module = new WebAssembly.Module(new Uint8Array(${JSON.stringify([...caller])}));
        const { exports } = new WebAssembly.Instance(module, { m: { f: () => undefined } });
        exports.g(5000);
        console.log(%HasUnoptimizedWasmToJSWrapper(exports.f));`,
      ],
      { encoding: 'utf8' },
    ).trim();
  const thread = JSON.stringify(import.meta.resolve('./thread.ts'));
  assert.deepEqual([hasGenericWrapper(''), hasGenericWrapper(`await import(${thread});`)], ['false', 'true']);
});
