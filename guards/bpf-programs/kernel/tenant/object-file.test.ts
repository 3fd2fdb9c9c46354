// Findings in object files, including those made to hide something.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { Instructions, type InstructionParts } from '../../../../lib/ebpf/instructions.ts';
import { BpfObject } from '../../../../lib/ebpf/object.ts';
import { RampartError } from '../../../../lib/errors/errors.ts';
import * as fc from '../../../../lib/testing/fast-check.fixture.ts';
import { bytecode } from '../lab.fixture.ts';
import { checkLoaded, harmless } from './admission.ts';
import { demandsOf, dropCalls } from './demands.ts';
import { ObjectFile } from './object-file.ts';
import { defaultTenantRules } from './rules.ts';

const code = (...parts: readonly InstructionParts[]): Buffer => Instructions.of(parts).bytes;
const calls = (bytes: Buffer): readonly string[] => [...demandsOf([bytes]).calls];

suite('demands of instructions', () => {
  test('lists helpers by name, unknown ones by number, also after a truncated load', () => {
    const load = { code: 0x18 };
    const call = (immediate: number) => ({ code: 0x85, immediate });
    assert.deepEqual(calls(code(call(1), load, { code: 0 }, call(12))), [
      'bpf_map_lookup_elem',
      'bpf_tail_call',
    ]);
    assert.deepEqual(calls(code(load, call(113))), ['bpf_probe_read_kernel']);
    assert.deepEqual(calls(code(call(999))), ['helper 999']);
  });

  test('may_goto is a loop without a bound; a call in the object file is nothing', () => {
    assert.deepEqual(calls(code({ code: 0xe5, offset: -2 }, { code: 0x85, from: 1, immediate: -1 })), [
      'may_goto',
    ]);
  });

  test('numbers of the kernel, and descriptors of maps', () => {
    const of = (from: number, opcode = 0x18) => demandsOf([code({ code: opcode, from, immediate: 7 })]);
    assert.deepEqual(
      [0, 1, 2, 3, 4, 5, 6].map((from) => of(from).ofKernel),
      [...[false, false, false, true, false, true, true]],
    );
    assert.deepEqual(
      [0, 1, 2].map((from) => [...of(from).maps]),
      [[], [7], [7]],
    );
    assert.ok(of(2, 0x85).ofKernel);
  });

  test('a dropped call returns 0', () => {
    const bytes = code({ code: 0x85, immediate: 6 }, { code: 0x85, immediate: 7 });
    dropCalls([bytes], (name) => name === 'bpf_trace_printk');
    assert.deepEqual(bytes, code({ code: 0xb7 }, { code: 0x85, immediate: 7 }));
  });
});

suite('object files', () => {
  test('a program has its section and .text', () => {
    const file = new ObjectFile(bytecode('tenant'));
    assert.deepEqual([...demandsOf(file.code('uprobe/kernel')).calls].toSorted(), [
      'bpf_map_update_elem',
      'bpf_probe_read_kernel',
    ]);
    assert.deepEqual([...demandsOf(file.code('xdp/user')).calls].toSorted(), [
      'bpf_map_update_elem',
      'bpf_probe_read_user',
    ]);
    assert.deepEqual(file.externs('xdp/ksym'), ['init_task']);
    assert.deepEqual(file.externs('xdp/kfunc'), ['bpf_rdonly_cast']);
    assert.deepEqual(file.externs('xdp/kconfig'), []);
  });

  test('names are in the one table of symbols, whatever a table of relocations says', () => {
    const bytes = Buffer.from(bytecode('tenant'));
    const begin = Number(bytes.readBigUInt64LE(40));
    for (let at = begin; at < begin + bytes.readUInt16LE(60) * 64; at += 64)
      // SHT_REL
      if (bytes.readUInt32LE(at + 4) === 9) bytes.writeUInt32LE(60_000, at + 40);
    assert.deepEqual(new ObjectFile(bytes).externs('xdp/ksym'), ['init_task']);
  });

  test('an index of names that is kept elsewhere is refused: libbpf follows it', () => {
    const bytes = Buffer.from(bytecode('tenant'));
    // SHN_XINDEX: the index is in `sh_link` of the first header.
    bytes.writeUInt32LE(bytes.readUInt16LE(62), Number(bytes.readBigUInt64LE(40)) + 40);
    bytes.writeUInt16LE(0xffff, 62);
    using object = BpfObject.open(bytes, 'names elsewhere');
    assert.ok(object.programs().some(({ section }) => section === 'xdp/kfunc'));
    assert.throws(() => new ObjectFile(bytes), /its section names are not in the file/);
  });

  test('a program without instructions is refused, as its section was not found', () => {
    assert.throws(
      () => new ObjectFile(bytecode('tenant')).code('xdp/none'),
      /no instructions of section xdp\/none/,
    );
  });

  test('keeps only functions that the loaded instructions call', () => {
    const admission = { rules: defaultTenantRules };
    const ofFile = { calls: ['bpf_tail_call'], externs: [] };
    const instructions = Instructions.of([{ code: 0x85, immediate: 1 }]);
    assert.deepEqual(checkLoaded(admission, ofFile, 'xdp', instructions, new Set()), {
      ...ofFile,
      calls: ['bpf_map_lookup_elem', 'bpf_tail_call'],
    });
  });

  test('many sections that each span the whole file take no time', () => {
    const bytes = Buffer.from(bytecode('tenant'));
    const begin = Number(bytes.readBigUInt64LE(40));
    for (let at = begin + 64; at < begin + 3 * 64; at += 64) {
      bytes.writeBigUInt64LE(0n, at + 24);
      bytes.writeBigUInt64LE(BigInt(bytes.length), at + 32);
    }
    assert.throws(() => new ObjectFile(bytes), /sections overlap/);
  });

  test('whatever the bytes are, they are read or refused', () => {
    const original = bytecode('tenant');
    const change = fc.tuple(fc.nat(original.length - 1), fc.nat(255));
    const header = fc.tuple(fc.nat(63), fc.nat(255));
    const sections = Number(Buffer.from(original).readBigUInt64LE(40));
    const sectionHeader = fc.tuple(fc.integer({ min: sections, max: original.length - 1 }), fc.nat(255));
    fc.assert(
      fc.property(
        fc.array(fc.oneof(change, header, sectionHeader), { minLength: 1, maxLength: 8 }),
        fc.nat(original.length),
        fc.boolean(),
        (changes, length, isCut) => {
          const bytes = Uint8Array.from(original);
          for (const [at, value] of changes) bytes[at] = value;
          try {
            const file = new ObjectFile(
              harmless(isCut ? bytes.subarray(0, length) : bytes, defaultTenantRules),
            );
            demandsOf(file.code('xdp/kfunc'));
            file.externs('xdp/kfunc');
          } catch (error) {
            if (!(error instanceof RampartError)) throw error;
          }
        },
      ),
      { numRuns: 3000 },
    );
  });
});
