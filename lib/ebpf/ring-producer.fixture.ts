/**
 * A real producer for tests and benchmarks of the ring buffer: small raw tracepoint programs, put
 * together by hand and run on demand through BPF_PROG_TEST_RUN, so that nothing is attached.
 * Numbers are those of include/uapi/linux/bpf.h.
 */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';

import { addressOf, errno, libc, syscallNumbers } from './ffi.ts';
import { SystemCallError } from './libc.ts';

const command = { MAP_CREATE: 0, PROG_LOAD: 5, PROG_TEST_RUN: 10 } as const;
export const mapType = { ARRAY: 2, RINGBUF: 27 } as const;
const BPF_PROG_TYPE_RAW_TRACEPOINT = 17;
const helper = {
  mapLookup: 1,
  mapUpdate: 2,
  ringbufOutput: 130,
  ringbufReserve: 131,
  ringbufSubmit: 132,
  ringbufDiscard: 133,
} as const;

/**
 * - `output`: bpf_ringbuf_output of `recordSizeBytes` bytes.
 * - `discard-odd`: reserve, then submit even sequence numbers and discard odd ones.
 * - `slow`: submits one record, so that the reader wakes, reserves the next and submits that one only
 *   after copying 4 MiB `count` times.
 */
export type ProducerKind = 'output' | 'discard-odd' | 'slow';

/** The most records of one {@link RingProducer.run}: the verifier wants a bound. */
const maxRunRecords = 1000;

/** A field of union bpf_attr: its offset, its size and its value, bytes for a pointer to them. */
type Field = readonly [offset: number, sizeBytes: 4 | 8, value: number | Uint8Array];

/** Buffers of the running call. Without this reference, they may be collected before C reads them. */
const pointedTo: Field[] = [];

function bpf(number: number, fields: readonly Field[]): { readonly result: number; readonly attr: DataView } {
  const bytes = new Uint8Array(128);
  const attr = new DataView(bytes.buffer);
  pointedTo.push(...fields);
  for (const [offset, size, value] of fields) {
    if (typeof value !== 'number') attr.setBigUint64(offset, BigInt(addressOf(value)), true);
    else if (size === 4) attr.setUint32(offset, value, true);
    else attr.setBigUint64(offset, BigInt(value), true);
  }
  const result = libc.bpf(syscallNumbers.bpf, number, bytes, bytes.byteLength);
  pointedTo.length = 0;
  if (result < 0) throw new SystemCallError(`bpf command ${number} failed`, errno());
  return { result, attr };
}

/** @throws {RampartError} `SYSTEM`. The descriptor is the caller's to close. */
export function createRingMap(sizeBytes: number): number {
  return createMap(mapType.RINGBUF, 0, 0, sizeBytes);
}

/** @throws {RampartError} `SYSTEM`. The descriptor is the caller's to close. */
export function createMap(type: number, keyBytes: number, valueBytes: number, entries: number): number {
  return bpf(command.MAP_CREATE, [
    [0, 4, type],
    [4, 4, keyBytes],
    [8, 4, valueBytes],
    [12, 4, entries],
  ]).result;
}

/** A line of a program: a label, or struct bpf_insn with a label instead of a jump offset. */
type Line = string | { code: number; dst?: number; src?: number; off?: number; imm?: number; to?: string };

const movReg = (dst: number, src: number): Line => ({ code: 0xbf, dst, src });
const movImm = (dst: number, imm: number): Line => ({ code: 0xb7, dst, imm });
const addImm = (dst: number, imm: number): Line => ({ code: 0x07, dst, imm });
const loadU64 = (dst: number, src: number, off: number): Line => ({ code: 0x79, dst, src, off });
const storeU64 = (dst: number, off: number, src: number): Line => ({ code: 0x7b, dst, off, src });
const storeImmU64 = (dst: number, off: number, imm: number): Line => ({ code: 0x7a, dst, off, imm });
const call = (imm: number): Line => ({ code: 0x85, imm });
const jump = (to: string): Line => ({ code: 0x05, to });
const ifEqual = (dst: number, imm: number, to: string): Line => ({ code: 0x15, dst, imm, to });
const ifBitsSet = (dst: number, imm: number, to: string): Line => ({ code: 0x45, dst, imm, to });
const ifAtLeast = (dst: number, imm: number, to: string): Line => ({ code: 0x35, dst, imm, to });
const ifAtLeastReg = (dst: number, src: number, to: string): Line => ({ code: 0x3d, dst, src, to });
const exit: Line = { code: 0x95 };
/** A map's address, BPF_PSEUDO_MAP_FD: takes two instructions. */
const loadMap = (dst: number, fd: number): Line[] => [{ code: 0x18, dst, src: 1, imm: fd }, { code: 0 }];
const stackAddress = (dst: number, off: number): Line[] => [movReg(dst, FP), addImm(dst, off)];
const [R0, R1, R2, R3, R4, R6, R7, R8, R9, FP] = [0, 1, 2, 3, 4, 6, 7, 8, 9, 10] as const;

function assemble(lines: readonly Line[]): Uint8Array {
  const labels = new Map<string, number>();
  const instructions = lines.filter((line) => typeof line !== 'string');
  let at = 0;
  for (const line of lines) {
    if (typeof line === 'string') labels.set(line, at);
    else at++;
  }
  const view = new DataView(new ArrayBuffer(8 * instructions.length));
  for (const [i, { code, dst = 0, src = 0, off = 0, imm = 0, to }] of instructions.entries()) {
    view.setUint8(8 * i, code);
    view.setUint8(8 * i + 1, (src << 4) | dst);
    view.setInt16(8 * i + 2, to === undefined ? off : (labels.get(to) ?? Number.NaN) - (i + 1), true);
    view.setInt32(8 * i + 4, imm, true);
  }
  return new Uint8Array(view.buffer);
}

/** The body r7 times, and at most {@link maxRunRecords} times. */
function loop(body: readonly Line[]): Line[] {
  return [
    movImm(R8, 0),
    'next',
    ifAtLeast(R8, maxRunRecords, 'done'),
    ifAtLeastReg(R8, R7, 'done'),
    ...body,
    addImm(R8, 1),
    jump('next'),
    'done',
  ];
}

/** r6: the record's sequence number, its first 8 bytes. r7: count. r9: refused records, the result. */
function program(kind: ProducerKind, ringFd: number, copyFd: number, recordSizeBytes: number): Line[] {
  const start = [loadU64(R6, R1, 0), loadU64(R7, R1, 8), movImm(R9, 0)];
  const finish = [movReg(R0, R9), exit];
  const reserve = [
    ...loadMap(R1, ringFd),
    movImm(R2, recordSizeBytes),
    movImm(R3, 0),
    call(helper.ringbufReserve),
  ];
  const settle = (record: number): Line[] => [movReg(R1, record), movImm(R2, 0)];
  // A refused record does not use up its number: what arrives has no gaps.
  const count = [addImm(R6, 1), jump('counted'), 'refused', addImm(R9, 1), 'counted'];
  switch (kind) {
    case 'output': {
      const body = [
        storeU64(FP, -recordSizeBytes, R6),
        ...loadMap(R1, ringFd),
        ...stackAddress(R2, -recordSizeBytes),
        movImm(R3, recordSizeBytes),
        movImm(R4, 0),
        call(helper.ringbufOutput),
        { code: 0x55, dst: R0, imm: 0, to: 'refused' },
        ...count,
      ];
      const words = Array.from({ length: recordSizeBytes / 8 }, (_, i) => storeImmU64(FP, -8 * (i + 1), 0));
      return [...start, ...words, ...loop(body), ...finish];
    }
    case 'discard-odd': {
      const body = [
        ...reserve,
        ifEqual(R0, 0, 'refused'),
        storeU64(R0, 0, R6),
        // Read back, so that the verifier knows nothing of it and does not follow both parities apart.
        loadU64(R3, R0, 0),
        ...settle(R0),
        ifBitsSet(R3, 1, 'odd'),
        call(helper.ringbufSubmit),
        jump('settled'),
        'odd',
        call(helper.ringbufDiscard),
        'settled',
        ...count,
      ];
      return [...start, ...loop(body), ...finish];
    }
    case 'slow': {
      const copy = [
        storeImmU64(FP, -8, 1),
        ...loadMap(R1, copyFd),
        ...stackAddress(R2, -8),
        loadU64(R3, FP, -16),
        movImm(R4, 0),
        call(helper.mapUpdate),
      ];
      return [
        ...start,
        storeImmU64(FP, -8, 0),
        ...loadMap(R1, copyFd),
        ...stackAddress(R2, -8),
        call(helper.mapLookup),
        ifEqual(R0, 0, 'refused'),
        storeU64(FP, -16, R0),
        ...reserve,
        ifEqual(R0, 0, 'refused'),
        storeU64(R0, 0, R6),
        ...settle(R0),
        call(helper.ringbufSubmit),
        addImm(R6, 1),
        ...reserve,
        ifEqual(R0, 0, 'refused'),
        storeU64(R0, 0, R6),
        movReg(R9, R0),
        ...loop(copy),
        ...settle(R9),
        call(helper.ringbufSubmit),
        movImm(R0, 0),
        exit,
        'refused',
        movImm(R0, 1),
        exit,
      ];
    }
  }
}

/** A loaded producer; dispose it to unload the program. */
export class RingProducer implements Disposable {
  readonly fd: number;

  /**
   * @param recordSizeBytes a multiple of 8, at least 8; for `output`, which keeps it on the stack, at most 480.
   * @throws {RampartError} `SYSTEM` when the kernel refuses the program.
   */
  constructor(ringFd: number, kind: ProducerKind, recordSizeBytes: number) {
    const copyFd = kind === 'slow' ? createMap(mapType.ARRAY, 4, 2 ** 22, 2) : -1;
    try {
      const code = assemble(program(kind, ringFd, copyFd, recordSizeBytes));
      const license = new TextEncoder().encode('Dual MIT/GPL\0');
      this.fd = bpf(command.PROG_LOAD, [
        [0, 4, BPF_PROG_TYPE_RAW_TRACEPOINT],
        [4, 4, code.byteLength / 8],
        [8, 8, code],
        [16, 8, license],
      ]).result;
    } finally {
      // The program holds the map from here on.
      if (copyFd !== -1) libc.close(copyFd);
    }
  }

  /** Runs the program synchronously and returns how many records the full ring refused. */
  run(firstSequence: number, count: number): number {
    return runProducer(this.fd, firstSequence, count);
  }

  [Symbol.dispose](): void {
    libc.close(this.fd);
  }
}

/** {@link RingProducer.run} by the program's descriptor, for a thread that did not load it. */
export function runProducer(programFd: number, firstSequence: number, count: number): number {
  const context = new BigUint64Array([BigInt(firstSequence), BigInt(count)]);
  const bytes = new Uint8Array(context.buffer);
  const { attr } = bpf(command.PROG_TEST_RUN, [
    [0, 4, programFd],
    [40, 4, bytes.byteLength],
    [48, 8, bytes],
  ]);
  return attr.getUint32(4, true);
}

/** Runs a producer on a thread of its own until `total` records are in; resolves to the refused ones. */
export async function produceInThread(programFd: number, total: number, perRun: number): Promise<number> {
  const code = `
    const { workerData: { module, programFd, total, perRun }, parentPort } = require('node:worker_threads');
    import(module).then(({ runProducer }) => {
      let refused = 0;
      for (let sequence = 0; sequence < total; ) {
        const missing = runProducer(programFd, sequence, perRun);
        refused += missing;
        sequence += perRun - missing;
      }
      parentPort.postMessage(refused);
    });`;
  const workerData = { module: import.meta.url, programFd, total, perRun };
  const [refused] = await once(new Worker(code, { eval: true, workerData }), 'message');
  return Number(refused);
}
