import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import * as fc from '../../../../lib/testing/fast-check.fixture.ts';
import {
  bpfDo,
  createPerCpuArray,
  createProgramArray,
  type Descriptor,
  setProgram,
  Structure,
} from '../../../../lib/ebpf/bpf-call.ts';
import { type ChainKind, composeChain, composeGated } from './compose.ts';
import { mapInfo } from '../info.ts';
import { Instructions } from '../../../../lib/ebpf/instructions.ts';
import { loadComposition } from './load-composition.ts';
import { readEntry } from '../running/map-entries.ts';
import { granted } from '../../../../lib/ebpf/refusal.ts';

const skip = process.getuid?.() === 0 ? false : 'needs root';
const types = { xdp: { type: 6, expectedAttachType: 37 }, tc: { type: 3, expectedAttachType: 0 } } as const;
const BPF_PROG_TEST_RUN = 10;

/** One that returns a number. */
function constant(result: number): Instructions {
  return Instructions.of([{ code: 0xb7, to: 0, immediate: result }, { code: 0x95 }]);
}

function run(program: Descriptor): number {
  const frame = new Uint8Array(64).fill(255);
  const attr = new Structure(80).u32(0, program.fd).u32(8, frame.byteLength).pointer(16, frame).u32(32, 1);
  assert.equal(bpfDo(BPF_PROG_TEST_RUN, attr), undefined);
  return attr.u32At(4) | 0;
}

/** The model of a chain: one program after the other, until one returns a code outside of its mask. */
function expected(kind: ChainKind, members: readonly { readonly code: number; readonly mask: number }[]) {
  const ran: number[] = [];
  for (const [at, { code, mask }] of members.entries()) {
    ran.push(at);
    const bit = kind === 'xdp' ? code : code + 1;
    if (bit < 0 || bit > 31 || ((mask >>> bit) & 1) === 0) return { ran, result: code };
  }
  return { ran, result: kind === 'xdp' ? 2 : -1 };
}

const member = fc.record({
  code: fc.oneof(fc.integer({ min: -1, max: 10 }), fc.constantFrom(-2, 30, 31, 32, 2 ** 31 - 1, -(2 ** 31))),
  mask: fc.oneof(fc.constantFrom(0, -1, 0b110, 1 | (1 << 31)), fc.integer()),
});

suite('composed programs', { skip }, () => {
  test('run as their masks say, and count who ran', () => {
    fc.assert(
      fc.property(
        fc.constantFrom<ChainKind>('xdp', 'tc'),
        fc.array(member, { minLength: 1, maxLength: 12 }),
        (kind, members) => {
          using map = granted('map', createPerCpuArray(64 * 8, 1, 'test_runs'));
          const chain = composeChain(
            kind,
            members.map(({ code, mask }, slot) => ({
              name: `p${slot}`,
              instructions: constant(code),
              proceedOn: mask,
              slot,
            })),
            { runsFd: map.fd },
          );
          using program = loadComposition(chain, { ...types[kind], name: 'test', gpl: true });
          const { ran, result } = expected(kind, members);
          assert.equal(run(program), result);
          const counted = readEntry(map.fd, mapInfo(map.fd), new Uint8Array(4));
          const sums = members.map((_, slot) =>
            Number(counted?.values.reduce((sum, value) => sum + value.readBigUInt64LE(slot * 8), 0n)),
          );
          assert.deepEqual(
            sums,
            members.map((_, at) => Number(ran.includes(at))),
          );
        },
      ),
      { numRuns: 200 },
    );
  });

  test('go on in the next segment', () => {
    using array = granted('array', createProgramArray(2, 'test_next'));
    const proceed = { name: 'p', instructions: constant(2), proceedOn: 0b100, slot: 0 };
    const drop = { ...proceed, instructions: constant(1) };
    const load = { ...types.xdp, name: 'test', gpl: true };
    using second = loadComposition(composeChain('xdp', [drop]), load);
    assert.equal(setProgram(array, 1, second), undefined);
    using first = loadComposition(
      composeChain('xdp', [proceed], { next: { arrayFd: array.fd, index: 1 } }),
      load,
    );
    assert.equal(run(first), 1);
    using stops = loadComposition(
      composeChain('xdp', [drop, proceed], { next: { arrayFd: array.fd, index: 1 } }),
      load,
    );
    assert.equal(run(stops), 1);
  });

  test('are refused with the words of the verifier', () => {
    // A load from where nothing is: r0 = *(u64 *)(r3 + 0)
    const wrong = Instructions.of([{ code: 0x79, to: 0, from: 3 }, { code: 0x95 }]);
    const chain = composeChain('xdp', [{ name: 'wrong', instructions: wrong, proceedOn: 0, slot: 0 }]);
    assert.throws(
      () => loadComposition(chain, { ...types.xdp, name: 'test', gpl: true }),
      /cannot load the composed program test: permission denied \(EACCES\)[^]*R3 !read_ok/,
    );
  });

  test('name functions by their members, for who looks with bpftool', () => {
    const { functions, types: raw } = composeChain('xdp', [
      { name: 'xdp count', instructions: constant(2), proceedOn: 0, slot: 0 },
    ]);
    assert.equal(functions.length, 2);
    assert.ok(Buffer.from(raw).includes('\0main\0m0_xdp_count\0'));
  });

  test('a gate is one more function before the member', () => {
    const gated = composeGated(
      { by: 'pid-namespace', device: 4n, inode: 2n ** 33n },
      { name: 'probe', instructions: constant(0) },
    );
    using program = loadComposition(gated, { type: 2, name: 'test', gpl: true });
    assert.ok(program.fd > 0);
    const byCgroup = composeGated(
      { by: 'cgroup', level: 3, id: 2n ** 40n + 1n },
      { name: 'probe', instructions: constant(0) },
    );
    using other = loadComposition(byCgroup, { type: 2, name: 'test', gpl: true });
    assert.ok(other.fd > 0);
  });
});

test('functions of a program begin where it calls them or hands them over', () => {
  const program = Instructions.of([
    // r1 = callback, two instructions; then a call of the function behind the exit.
    { code: 0x18, to: 1, from: 4, immediate: 4 },
    { code: 0 },
    { code: 0x85, from: 1, immediate: 1 },
    { code: 0x95 },
    { code: 0x95 },
    { code: 0x95 },
  ]);
  assert.deepEqual(program.functionStarts(), [0, 4, 5]);
});
