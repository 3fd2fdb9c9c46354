import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { BinaryWriter, moduleOf, type Section } from './binary.ts';
import { changesOnlyMemoryAndGlobals } from './instructions.ts';
import { allRuntimes, policyModule } from './policies.fixture.ts';
import { prepareModule } from './prepare.ts';

const [i32, funcref, endOfCode] = [0x7f, 0x70, 0x0b];

function section(id: number, ...bytes: (number | readonly number[])[]): Section {
  return { id, content: Uint8Array.from(bytes.flat()) };
}

function code(...instructions: number[]): Uint8Array {
  const writer = new BinaryWriter();
  writer.u32(1);
  writer.u32(instructions.length + 2);
  writer.bytes([0, ...instructions, endOfCode]);
  return writer.finish();
}

/** A module of one function without arguments, named `f`, a memory of a page, a table and a global that it can change. */
function module(...instructions: number[]): Uint8Array<ArrayBuffer> {
  return moduleOf([
    section(1, 1, 0x60, 0, 0),
    section(3, 1, 0),
    section(4, 1, funcref, 0, 2),
    section(5, 1, 0, 1),
    section(6, 1, i32, 1, 0x41, 7, endOfCode),
    section(7, 1, 1, 0x66, 0, 0),
    { id: 10, content: code(...instructions) },
  ]);
}

suite('a compiled module, unchanged', () => {
  test('its memory cannot grow over the limit, whatever it asks for', () => {
    const { bytes } = prepareModule(module(), 3);
    const { exports } = new WebAssembly.Instance(new WebAssembly.Module(bytes));
    const memory = exports['rampart:memory'] as WebAssembly.Memory;
    memory.grow(2);
    assert.throws(() => memory.grow(1), RangeError);
  });

  test('a lower maximum of its own stays', () => {
    const own = moduleOf([section(5, 1, 1, 1, 2)]);
    const { exports } = new WebAssembly.Instance(new WebAssembly.Module(prepareModule(own, 100).bytes));
    assert.throws(() => (exports['rampart:memory'] as WebAssembly.Memory).grow(2), RangeError);
  });

  test('all that it can change can be read and set', () => {
    // global.set 0 to 42
    const { bytes, restoring } = prepareModule(module(0x41, 42, 0x24, 0), 10);
    assert.deepEqual(restoring, {
      memory: 'rampart:memory',
      globals: ['rampart:global:0', 'rampart:global:1'],
    });
    const { exports } = new WebAssembly.Instance(new WebAssembly.Module(bytes));
    const global = exports['rampart:global:0'] as WebAssembly.Global;
    assert.equal(global.value, 7);
    (exports['f'] as () => void)();
    assert.equal(global.value, 42);
    global.value = 7;
    assert.equal(global.value, 7);
  });

  test('it grows its memory as it would, and sees the size that it has', () => {
    const [grow, size] = [
      [0x20, 0, 0x40, 0],
      [0x3f, 0],
    ] as const;
    const made = moduleOf([
      section(1, 2, [0x60, 1, i32, 1, i32], [0x60, 0, 1, i32]),
      section(3, 2, 0, 1),
      section(5, 1, 0, 1),
      section(7, 2, [1, 0x67, 0, 0], [1, 0x73, 0, 1]),
      section(10, 2, [grow.length + 2, 0, ...grow, endOfCode], [size.length + 2, 0, ...size, endOfCode]),
    ]);
    const { bytes, restoring } = prepareModule(made, 5);
    const { exports } = new WebAssembly.Instance(new WebAssembly.Module(bytes));
    const [growBy, sizeNow] = [exports['g'], exports['s']] as ((pages?: number) => number)[];
    assert.ok(growBy && sizeNow && restoring);
    const memory = exports['rampart:memory'] as WebAssembly.Memory;
    const pages = exports[restoring.globals[0] ?? ''] as WebAssembly.Global;
    assert.deepEqual([sizeNow(), growBy(0), growBy(2), sizeNow()], [1, 1, 1, 3]);
    assert.equal(memory.buffer.byteLength, 3 * 65_536);
    // Put back: what there is beyond is taken first.
    pages.value = 1;
    assert.deepEqual([sizeNow(), growBy(1), sizeNow()], [1, 1, 2]);
    assert.equal(memory.buffer.byteLength, 3 * 65_536);
    assert.deepEqual([growBy(3), sizeNow()], [2, 5]);
    // The limit, and numbers that run over.
    for (const max of [1, 65_536, -1, 2 ** 31]) assert.equal(growBy(max), -1, String(max));
    assert.deepEqual([growBy(0), sizeNow(), memory.buffer.byteLength], [5, 5, 5 * 65_536]);
  });

  test('one that changes its table, or drops a segment, cannot be put back', () => {
    const null_ = [0xd0, funcref];
    for (const [what, instructions] of [
      ['table.set', [0x41, 0, ...null_, 0x26, 0]],
      ['table.grow', [...null_, 0x41, 1, 0xfc, 15, 0, 0x1a]],
      ['table.fill', [0x41, 0, ...null_, 0x41, 1, 0xfc, 17, 0]],
      ['table.copy', [0x41, 0, 0x41, 0, 0x41, 0, 0xfc, 14, 0, 0]],
    ] as const) {
      const made = module(...instructions);
      assert.ok(new WebAssembly.Module(made), what);
      assert.equal(prepareModule(made, 10).restoring, undefined, what);
    }
  });

  test('numbers in code that look like such an instruction do not make it one', () => {
    // i32.const 0x26; f32.const and f64.const of bytes 0x26; a block that branches by a table; memory.fill.
    const instructions = [
      [0x41, 0x26, 0x1a],
      [0x43, 0x26, 0x26, 0x26, 0x26, 0x1a],
      [0x44, ...Array.from({ length: 8 }, () => 0x26), 0x1a],
      [0x02, 0x40, 0x41, 0, 0x0e, 2, 0, 0, 0, endOfCode],
      [0x41, 0, 0x41, 0, 0x41, 0, 0xfc, 11, 0],
      [0x41, 0, 0xfd, 0x0f, 0xfd, 0x0c, ...Array.from({ length: 16 }, () => 0x26), 0xfd, 0x6e, 0x1a],
    ].flat();
    const made = module(...instructions);
    assert.ok(new WebAssembly.Module(made));
    assert.ok(prepareModule(made, 10).restoring);
  });

  test('code that is not known counts as code that changes more', () => {
    assert.equal(changesOnlyMemoryAndGlobals(code(0xfb, 0)), false);
    assert.equal(changesOnlyMemoryAndGlobals(code(0xff)), false);
    assert.equal(changesOnlyMemoryAndGlobals(Uint8Array.of(5, 1)), false);
  });

  test('one with two memories, or with one of 64 bits, is refused', () => {
    assert.throws(() => prepareModule(moduleOf([section(5, 2, 0, 1, 0, 1)]), 10), /more than one memory/);
    assert.throws(() => prepareModule(moduleOf([section(5, 1, 4, 1)]), 10), /64-bit memory/);
  });

  test('every policy of the tests can be reset', () => {
    for (const runtime of allRuntimes) {
      for (const name of ['labels', 'memory', 'unruly'] as const) {
        assert.ok(prepareModule(policyModule(name, runtime), 100).restoring, `${name} ${runtime}`);
      }
    }
  });
});
