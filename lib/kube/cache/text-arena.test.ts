import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import * as fc from '../../testing/fast-check.fixture.ts';
import { TextArena } from './text-arena.ts';

suite('text arena', () => {
  test('behaves like a Map for any sequence of additions, replacements and removals', () => {
    const text = fc.oneof(
      fc.string({ maxLength: 40 }),
      fc.string({ unit: 'grapheme', maxLength: 40 }),
      fc.integer({ min: 0, max: 600 }).map((length) => 'x'.repeat(length)),
    );
    const step = fc.oneof(
      { weight: 3, arbitrary: fc.record({ kind: fc.constant('add' as const), text, at: fc.nat() }) },
      { weight: 3, arbitrary: fc.record({ kind: fc.constant('replace' as const), text, at: fc.nat() }) },
      { weight: 2, arbitrary: fc.record({ kind: fc.constant('remove' as const), text, at: fc.nat() }) },
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
        const arena = new TextArena(256);
        const model = new Map<number, string>();
        for (const { kind, text: content, at } of steps) {
          const handle = [...model.keys()][at % Math.max(1, model.size)];
          if (kind === 'add') {
            const added = arena.add(content);
            assert.ok(!model.has(added));
            model.set(added, content);
          } else if (handle !== undefined && kind === 'replace') {
            arena.replace(handle, content);
            model.set(handle, content);
          } else if (handle !== undefined) {
            arena.remove(handle);
            model.delete(handle);
          }
        }
        assert.equal(arena.size, model.size);
        for (const [handle, content] of model) assert.equal(arena.read(handle), content);
        const bytes = [...model.values()].reduce((sum, content) => sum + Buffer.byteLength(content) + 8, 0);
        assert.equal(arena.liveBytes, bytes);
      }),
      { numRuns: 300 },
    );
  });

  test('repeated replacements do not take more room', () => {
    const arena = new TextArena(64 * 1024);
    const handles = Array.from({ length: 1000 }, (_, index) => arena.add('a'.repeat(500 + (index % 100))));
    for (let round = 0; round < 20_000; round++) {
      arena.replace(handles[(round * 7919) % 1000] as number, 'b'.repeat(500 + (round % 100)));
    }
    const allowed = (arena.liveBytes * 6) / 5 + 3 * 64 * 1024;
    assert.ok(arena.reservedBytes <= allowed, `${arena.reservedBytes} for ${arena.liveBytes}`);
    for (const handle of handles) arena.remove(handle);
    assert.deepEqual([arena.size, arena.liveBytes], [0, 0]);
    assert.ok(arena.reservedBytes <= 64 * 1024);
  });

  test('few texts take little, also when they change often', () => {
    const arena = new TextArena();
    const handle = arena.add('x');
    for (let round = 0; round < 10_000; round++) arena.replace(handle, 'x'.repeat(500 + (round % 100)));
    assert.equal(arena.read(handle).length, 599);
    assert.ok(arena.reservedBytes <= 32 * 1024, `${arena.reservedBytes} bytes`);
  });

  test('a text larger than a slab; one that was removed', () => {
    const arena = new TextArena(64);
    const large = arena.add('ä'.repeat(10_000));
    assert.equal(arena.read(large), 'ä'.repeat(10_000));
    arena.remove(large);
    assert.equal(arena.reservedBytes, 64);
    assert.throws(() => arena.read(large), { code: 'RAMPART_NOT_FOUND' });
    assert.throws(() => new TextArena(1), { code: 'RAMPART_INPUT' });
  });
});
