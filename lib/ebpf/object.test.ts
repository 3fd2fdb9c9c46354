import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { RampartError } from '../errors/errors.ts';
import { FixedBuffer } from './libc.ts';
import { BpfObject } from './object.ts';

const isRoot = process.geteuid?.() === 0;
const skip = !isRoot && 'needs root to load eBPF programs';
const skipCompile =
  skip || (spawnSync('clang-14', ['--version']).status !== 0 && 'clang-14 is not installed');

/** Compiles eBPF C without any header. */
function compile(source: string): Buffer {
  const directory = mkdtempSync(join(tmpdir(), 'rampart-object-'));
  try {
    const object = join(directory, 'test.bpf.o');
    const clang = spawnSync(
      'clang-14',
      ['-target', 'bpf', '-mcpu=v3', '-O2', '-g', '-x', 'c', '-', '-c', '-o', object],
      { input: source, encoding: 'utf8' },
    );
    assert.equal(clang.status, 0, clang.stderr);
    return readFileSync(object);
  } finally {
    rmSync(directory, { recursive: true });
  }
}

const PRELUDE = `
#define SEC(name) __attribute__((section(name), used))
char LICENSE[] SEC("license") = "GPL";
static long (*bpf_ktime_get_ns)(void) = (void *)5;
`;
const COUNTING = `${PRELUDE}
struct { unsigned long calls, seen; } state;
const volatile unsigned long step;
struct {
  int (*type)[1]; /* BPF_MAP_TYPE_HASH */
  int (*max_entries)[2];
  unsigned int *key;
  unsigned long *value;
} table SEC(".maps");
SEC("raw_tp") int count(unsigned long *context) {
  state.calls += step;
  state.seen = context[0];
  return 7;
}
`;
const REFUSED = `${PRELUDE}
SEC("raw_tp") int refused(void *context) {
  return *(volatile int *)bpf_ktime_get_ns();
}
`;

const withCode =
  (code: string, ...patterns: readonly RegExp[]) =>
  (error: unknown): boolean => {
    assert.ok(error instanceof RampartError, String(error));
    assert.equal(error.code, code);
    for (const pattern of patterns) assert.match(error.message, pattern);
    return true;
  };

suite('refuses bytes that are not an eBPF object', () => {
  for (const [what, bytes] of [
    ['text', Buffer.from('#!/bin/sh\necho no object\n'.repeat(50))],
    [
      'an ELF header and nothing behind it',
      Buffer.concat([Buffer.from('\u007fELF\u0002\u0001\u0001'), Buffer.alloc(57)]),
    ],
    ['a program for another machine', readFileSync('/proc/self/exe').subarray(0, 1 << 20)],
    ['zeros', Buffer.alloc(4096)],
  ] as const) {
    test(`${what}: EBPF, with what libbpf said`, () => {
      assert.throws(
        () => BpfObject.open(bytes, 'broken'),
        withCode('RAMPART_EBPF', /cannot open eBPF object broken/, /libbpf:/),
      );
    });
  }

  test('no bytes at all: EBPF; libbpf has no words for it', () => {
    assert.throws(
      () => BpfObject.open(Buffer.alloc(0), 'empty'),
      withCode('RAMPART_EBPF', /object empty: EINVAL/),
    );
  });
});

suite('an object before it is loaded', { skip: skipCompile }, () => {
  test('has its programs by name; an unknown name is an error', () => {
    using object = BpfObject.open(compile(COUNTING), 'counting');
    assert.deepEqual(
      object.programs().map(({ name }) => name),
      ['count'],
    );
    assert.throws(() => object.program('other'), withCode('RAMPART_EBPF', /counting has no program other/));
    assert.throws(() => object.map('other'), withCode('RAMPART_EBPF', /counting has no map other/));
    assert.throws(() => object.initialValue('other'), withCode('RAMPART_EBPF', /counting has no map other/));
    assert.equal(object.map('table').fd < 0, true);
  });

  test('after disposal everything is DISPOSED, and disposing again does nothing', () => {
    const object = BpfObject.open(compile(COUNTING), 'counting');
    const program = object.program('count');
    const [listed] = object.programs();
    const map = object.map('table');
    assert.equal(map.maxEntries, 2);
    assert.ok(program.fd < 0);
    object[Symbol.dispose]();
    object[Symbol.dispose]();
    const isDisposed = withCode('RAMPART_DISPOSED', /counting is closed/);
    assert.throws(() => object.load(), isDisposed);
    assert.throws(() => object.programs(), isDisposed);
    assert.throws(() => object.program('count'), isDisposed);
    assert.throws(() => object.map('table'), isDisposed);
    assert.throws(() => object.initialValue('.rodata'), isDisposed);
    // libbpf has freed what these stand for: touching it would be worse than an error.
    assert.throws(() => program.attach(), isDisposed);
    assert.throws(() => listed?.fd, isDisposed);
    assert.throws(() => map.lookup(new Uint8Array(4)), isDisposed);
    assert.throws(() => [...map.keys()], isDisposed);
  });
});

suite('an object in the kernel', { skip: skipCompile }, () => {
  test('its data maps are live memory: what the program writes is read, what is written it reads', () => {
    using object = BpfObject.open(compile(COUNTING), 'counting');
    const rodata = object.initialValue('.rodata');
    new DataView(rodata.buffer, rodata.byteOffset).setBigUint64(0, 5n, true);
    object.load();
    using memory = object.map('.bss').mapMemory();
    const context = new Uint8Array(new BigUint64Array([0x1234n]).buffer);
    const program = object.program('count');
    assert.equal(program.testRun(context), 7);
    assert.equal(program.testRun(context), 7);
    assert.equal(memory.view.getBigUint64(0, true), 10n);
    assert.equal(memory.view.getBigUint64(8, true), 0x1234n);
    memory.view.setBigUint64(0, 100n, true);
    program.testRun(context);
    assert.equal(memory.view.getBigUint64(0, true), 105n);
    assert.equal(program.recursionMisses, 0n);
    memory[Symbol.dispose]();
    assert.throws(() => memory.view, withCode('RAMPART_DISPOSED'));
  });

  test('a prepared run reads its context at each call, reports its refusal, and ends with the object', () => {
    const object = BpfObject.open(compile(COUNTING), 'counting');
    object.load();
    const memory = object.map('.bss').mapMemory();
    const context = new FixedBuffer(8);
    const run = object.program('count').prepareRun(context);
    for (const given of [1n, 2n ** 63n]) {
      context.bytes.writeBigUInt64LE(given);
      assert.equal(run(), 7);
      assert.equal(memory.view.getBigUint64(8, true), given);
    }
    // A raw tracepoint has twelve arguments at most.
    assert.throws(object.program('count').prepareRun(new FixedBuffer(13 * 8)), (error: unknown) =>
      /cannot run eBPF program count: EINVAL/.test(String(error)),
    );
    memory[Symbol.dispose]();
    object[Symbol.dispose]();
    assert.throws(run, withCode('RAMPART_DISPOSED'));
  });

  test('a map: set, read, take, delete, walk, and LIMIT naming the capacity when it is full', () => {
    using object = BpfObject.open(compile(COUNTING), 'counting');
    object.load();
    const map = object.map('table');
    assert.deepEqual([map.keySizeBytes, map.valueSizeBytes, map.maxEntries], [4, 8, 2]);
    const key = (value: number): Uint8Array => new Uint8Array(new Uint32Array([value]).buffer);
    const value = (number: bigint): Uint8Array => new Uint8Array(new BigUint64Array([number]).buffer);
    map.set(key(1), value(11n));
    map.set(key(2), value(22n));
    assert.throws(
      () => map.set(key(3), value(33n)),
      withCode('RAMPART_LIMIT', /map table is full/, /has 2 entries/),
    );
    map.set(key(2), value(23n));
    assert.deepEqual(new Set([...map.keys()].map((bytes) => bytes[0])), new Set([1, 2]));
    assert.deepEqual(map.lookup(key(2)), value(23n));
    assert.deepEqual(map.take(key(2)), value(23n));
    assert.equal(map.take(key(2)), undefined);
    assert.equal(map.lookup(key(2)), undefined);
    assert.equal(map.delete(key(1)), true);
    assert.equal(map.delete(key(1)), false);
    assert.deepEqual([...map.keys()], []);
  });

  test('the size of a map can be chosen before loading only', () => {
    using object = BpfObject.open(compile(COUNTING), 'counting');
    const map = object.map('table');
    map.maxEntries = 9;
    assert.equal(map.maxEntries, 9);
    object.load();
    assert.equal(map.maxEntries, 9);
    assert.throws(
      () => {
        map.maxEntries = 10;
      },
      withCode('RAMPART_EBPF', /cannot resize eBPF map table/, /EBUSY/),
    );
  });

  test('a program the verifier refuses: EBPF with its last lines', () => {
    using object = BpfObject.open(compile(REFUSED), 'refused');
    assert.throws(
      () => object.load(),
      withCode(
        'RAMPART_EBPF',
        /cannot load eBPF object refused: EACCES/,
        /R0 invalid mem access 'scalar'/,
        /prog 'refused': failed to load/,
      ),
    );
  });

  test('a program left out of loading stays out', () => {
    using object = BpfObject.open(compile(REFUSED), 'refused');
    object.program('refused').autoload = false;
    object.load();
    assert.ok(object.program('refused').fd < 0);
  });

  test('a tracepoint that does not exist: EBPF naming program and tracepoint', () => {
    using object = BpfObject.open(compile(COUNTING), 'counting');
    object.load();
    assert.throws(
      () => object.program('count').attachRawTracepoint('no_such_tracepoint'),
      withCode('RAMPART_EBPF', /program count to raw tracepoint no_such_tracepoint: ENOENT/),
    );
  });

  test('a link runs the program until it is disposed', () => {
    using object = BpfObject.open(compile(COUNTING), 'counting');
    const rodata = object.initialValue('.rodata');
    new DataView(rodata.buffer, rodata.byteOffset).setBigUint64(0, 1n, true);
    object.load();
    using memory = object.map('.bss').mapMemory();
    const calls = (): bigint => memory.view.getBigUint64(0, true);
    const link = object.program('count').attachRawTracepoint('sched_process_exec');
    const before = calls();
    spawnSync('true');
    assert.ok(calls() > before);
    link[Symbol.dispose]();
    link[Symbol.dispose]();
    const after = calls();
    spawnSync('true');
    assert.equal(calls(), after);
  });
});
