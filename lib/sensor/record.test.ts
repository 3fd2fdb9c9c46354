import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { assertReached, scaled } from '../testing/depth.fixture.ts';
import { RampartError } from '../errors/errors.ts';
import * as fc from '../testing/fast-check.fixture.ts';
import { may, type Access } from './access.ts';
import { WallClock } from './clock.ts';
import { commSizeBytes, record as at, recordFlags, verdicts } from './layout.ts';
import { AccessRecord } from './record.ts';
import { snapshotOf } from './snapshot.fixture.ts';

/** A record as the kernel would make it, field by field. */
interface Parts {
  readonly timeNs: bigint;
  readonly inode: bigint;
  readonly cgroupId: bigint;
  readonly bucketBornNs: bigint;
  readonly device: number;
  readonly mask: number;
  readonly targetId: number;
  readonly foldedTotal: number;
  readonly tid: number;
  readonly pid: number;
  readonly ppid: number;
  readonly uid: number;
  readonly gid: number;
  readonly pidNamespace: number;
  readonly mountNamespace: number;
  readonly executableInode: bigint;
  readonly executableDevice: number;
  readonly executableGeneration: number;
  readonly verdict: number;
  readonly flags: number;
  readonly comm: Buffer;
  /** Leaf first, as the walk finds them. */
  readonly executable: readonly Buffer[];
  readonly cwd: readonly Buffer[];
  readonly argv: Buffer;
  readonly cgroup: readonly Buffer[];
  readonly from: readonly Buffer[];
  readonly to: readonly Buffer[];
}

const example: Parts = {
  timeNs: 1n,
  inode: 2n,
  cgroupId: 3n,
  bucketBornNs: 4n,
  device: 5,
  mask: 36,
  targetId: 7,
  foldedTotal: 8,
  tid: 9,
  pid: 10,
  ppid: 11,
  uid: 12,
  gid: 13,
  pidNamespace: 14,
  mountNamespace: 15,
  executableInode: 16n,
  executableDevice: 17,
  executableGeneration: 18,
  verdict: 1,
  flags: 0,
  comm: Buffer.from('cat'),
  executable: [Buffer.from('cat'), Buffer.from('bin'), Buffer.from('usr')],
  cwd: [],
  argv: Buffer.from('cat\0/etc/shadow\0'),
  cgroup: [Buffer.from('cron.service'), Buffer.from('system.slice')],
  from: [],
  to: [],
};

const NUL = Buffer.alloc(1);
const ended = (names: readonly Buffer[]): Buffer => Buffer.concat(names.flatMap((name) => [name, NUL]));

function encode(parts: Parts): Buffer {
  const head = Buffer.alloc(at.sizeBytes);
  for (const field of ['timeNs', 'inode', 'cgroupId', 'bucketBornNs', 'executableInode'] as const) {
    head.writeBigUInt64LE(parts[field], at[field]);
  }
  for (const field of [
    'device',
    'mask',
    'targetId',
    'foldedTotal',
    'tid',
    'pid',
    'ppid',
    'uid',
    'gid',
    'pidNamespace',
    'mountNamespace',
    'executableDevice',
    'executableGeneration',
  ] as const) {
    head.writeUInt32LE(parts[field], at[field]);
  }
  head[at.verdict] = parts.verdict;
  head[at.flags] = parts.flags;
  const executable = ended(parts.executable);
  const cwd = ended(parts.cwd);
  head.writeUInt16LE(executable.length, at.executableBytes);
  head.writeUInt16LE(cwd.length, at.cwdBytes);
  head.writeUInt16LE(parts.argv.length, at.argumentBytes);
  const cgroup = ended(parts.cgroup);
  head.writeUInt16LE(cgroup.length, at.cgroupBytes);
  const from = ended(parts.from);
  const to = ended(parts.to);
  head.writeUInt16LE(from.length, at.fromBytes);
  head.writeUInt16LE(to.length, at.toBytes);
  parts.comm.copy(head, at.comm, 0, commSizeBytes);
  return Buffer.concat([head, executable, cwd, parts.argv, cgroup, from, to]);
}

const clock = new WallClock();

/** A window on the first of these records; records lie one behind the other. */
function windowOn(...records: readonly Buffer[]): AccessRecord {
  const window = new AccessRecord(clock);
  window.setMemory(Buffer.concat(records));
  window.moveTo(0, records[0]?.length ?? 0);
  return window;
}

const decode = (parts: Partial<Parts>): Access => snapshotOf(windowOn(encode({ ...example, ...parts })));
const names = (...texts: readonly string[]): Buffer[] => texts.map((text) => Buffer.from(text));

const u64 = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });
const u32 = fc.integer({ min: 0, max: 0xffff_ffff });
/** Bytes without the ones that end a name; most are no UTF-8. */
const bytesWithout = (forbidden: readonly number[], maxLength: number, minLength = 0): fc.Arbitrary<Buffer> =>
  fc
    .oneof(
      fc.uint8Array({ minLength, maxLength }).map((bytes) => Buffer.from(bytes)),
      fc
        .string({ unit: 'binary', minLength, maxLength: Math.ceil(maxLength / 4) })
        .map((text) => Buffer.from(text)),
    )
    .map((bytes) => Buffer.from(bytes.map((byte) => (forbidden.includes(byte) ? 0x5f : byte))));
const name = bytesWithout([0, 0x2f], 24, 1);
const wellFormed: fc.Arbitrary<Parts> = fc.record({
  timeNs: u64.map((ns) => ns / 4n),
  inode: u64,
  cgroupId: u64,
  bucketBornNs: u64,
  device: u32,
  mask: fc.oneof(fc.integer({ min: 0, max: 255 }), u32),
  targetId: u32,
  foldedTotal: u32,
  tid: u32,
  pid: u32,
  ppid: u32,
  uid: u32,
  gid: u32,
  pidNamespace: u32,
  mountNamespace: u32,
  executableInode: u64,
  executableDevice: u32,
  executableGeneration: u32,
  verdict: fc.integer({ min: 0, max: verdicts.length - 1 }),
  flags: fc.integer({ min: 0, max: 63 }),
  comm: bytesWithout([0], commSizeBytes),
  executable: fc.array(name, { maxLength: 8 }),
  cwd: fc.array(name, { maxLength: 8 }),
  argv: fc.oneof(
    fc.array(bytesWithout([0], 24), { maxLength: 8 }).map(ended),
    fc.uint8Array({ maxLength: 64 }).map((bytes) => Buffer.from(bytes)),
  ),
  cgroup: fc.array(name, { maxLength: 8 }),
  from: fc.array(name, { maxLength: 8 }),
  to: fc.array(name, { maxLength: 8 }),
});

const path = (components: readonly Buffer[]): string =>
  `/${components
    .map((component) => component.toString('utf8'))
    .reverse()
    .join('/')}`;

/** The expected record, computed from the parts instead of the bytes. */
function expected(parts: Parts): Access {
  const strings = parts.argv.toString('utf8').split('\0');
  // Each string of argv has its NUL, so behind the last one nothing is left; a cut argv ends anywhere.
  if (!(parts.flags & recordFlags.argumentsCut) && strings.at(-1) === '') strings.pop();
  return {
    timeNs: clock.wallNs(parts.timeNs),
    inode: parts.inode,
    device: parts.device,
    mask: parts.mask & ~may.NOT_BLOCK,
    verdict: verdicts[parts.verdict] ?? 'unknown',
    folded: 0,
    tid: parts.tid,
    pid: parts.pid,
    ppid: parts.ppid,
    uid: parts.uid,
    gid: parts.gid,
    comm: parts.comm.toString('utf8'),
    executable:
      (parts.executable.length === 0 ? '' : path(parts.executable)) +
      (parts.flags & recordFlags.executableDeleted ? ' (deleted)' : ''),
    executableFile:
      parts.executableInode === 0n
        ? undefined
        : {
            inode: parts.executableInode,
            device: parts.executableDevice,
            generation: parts.executableGeneration,
          },
    executableTruncated: (parts.flags & recordFlags.executableCut) !== 0,
    cwd: path(parts.cwd),
    cwdTruncated: (parts.flags & recordFlags.cwdCut) !== 0,
    arguments: strings.slice(1).join(' '),
    argumentsTruncated: (parts.flags & (recordFlags.argumentsCut | recordFlags.argumentsUnreadable)) !== 0,
    cgroupId: parts.cgroupId,
    cgroup: parts.flags & recordFlags.cgroupCut ? '' : path(parts.cgroup),
    from: parts.from.length === 0 ? '' : path(parts.from),
    to: parts.to.length === 0 ? '' : path(parts.to),
    namesOfFileSystem: (parts.flags & recordFlags.namesOfFileSystem) !== 0,
    pidNamespace: parts.pidNamespace,
    mountNamespace: parts.mountNamespace,
  };
}

suite('a record of the kernel', () => {
  test('any well-formed one is read back field by field', () => {
    fc.assert(
      fc.property(wellFormed, (parts) => {
        const window = windowOn(encode(parts));
        assert.deepEqual(snapshotOf(window), expected(parts));
        assert.equal(window.targetId, parts.targetId);
        assert.equal(window.foldedTotal, parts.foldedTotal);
        assert.equal(window.bucketBornNs, parts.bucketBornNs);
        assert.equal(window.monotonicNs, parts.timeNs);
      }),
      { numRuns: 2000 },
    );
  });

  test('a batch is read in any order, each record as if it were alone', () => {
    fc.assert(
      fc.property(
        fc.array(wellFormed, { minLength: 1, maxLength: 6 }),
        fc.infiniteStream(fc.nat()),
        (all, order) => {
          const encoded = all.map(encode);
          const window = new AccessRecord(clock);
          window.setMemory(Buffer.concat(encoded));
          for (let step = 0; step < 12; step++) {
            const index = Number(order.next().value) % all.length;
            const offset = encoded.slice(0, index).reduce((sum, bytes) => sum + bytes.length, 0);
            window.moveTo(offset, encoded[index]?.length ?? 0);
            assert.deepEqual(snapshotOf(window), expected(all[index] ?? example));
          }
        },
      ),
    );
  });

  test('a snapshot is unchanged when the memory is reused', () => {
    const bytes = encode(example);
    const window = windowOn(bytes);
    const before = snapshotOf(window);
    window.setMemory(Buffer.concat([encode({ ...example, inode: 99n, comm: Buffer.from('other') })]));
    window.moveTo(0, encode({ ...example, comm: Buffer.from('other') }).length);
    assert.deepEqual(before, expected(example));
    assert.equal(window.comm, 'other');
    assert.equal(window.inode, 99n);
  });

  test('folded accesses belong to one record, not to the next', () => {
    const bytes = encode(example);
    const window = windowOn(bytes, bytes);
    window.folded = 5;
    assert.equal(snapshotOf(window).folded, 5);
    window.moveTo(bytes.length, bytes.length);
    assert.equal(window.folded, 0);
  });
});

suite('texts of a record', () => {
  test('components come leaf first; none is the root', () => {
    assert.equal(decode({ cwd: names('c', 'b', 'a') }).cwd, '/a/b/c');
    assert.equal(decode({ cwd: [] }).cwd, '/');
  });

  test('a process without an executable has an empty path, not "/", and no file', () => {
    assert.equal(decode({ executableInode: 0n }).executableFile, undefined);
    assert.equal(decode({ executable: [] }).executable, '');
  });

  test('names that are not UTF-8 show as U+FFFD and take nothing of their neighbours', () => {
    const broken = Buffer.from([0xe2, 0x82]); // a euro sign without its last byte
    assert.equal(decode({ cwd: [Buffer.from('leaf'), broken, Buffer.from('top')] }).cwd, '/top/\ufffd/leaf');
  });

  test('a deleted executable is called so, as /proc/PID/exe does', () => {
    assert.equal(decode({ flags: recordFlags.executableDeleted }).executable, '/usr/bin/cat (deleted)');
  });

  test('a comm of all 16 bytes has no NUL and ends there', () => {
    assert.equal(decode({ comm: Buffer.from('0123456789abcdef') }).comm, '0123456789abcdef');
  });

  for (const [what, argv, flags, text, truncated] of [
    ['no strings', '', 0, '', false],
    ['only the name', 'cat\0', 0, '', false],
    ['three', 'cat\0-n\0file\0', 0, '-n file', false],
    ['empty ones between and at the end', 'cat\0\0x\0\0', 0, ' x ', false],
    ['cut in the middle of a string', 'cat\0-n\0fi', recordFlags.argumentsCut, '-n fi', true],
    ['cut within the name', 'ca', recordFlags.argumentsCut, '', true],
    ['a title that a daemon wrote over it', 'nginx: worker', 0, '', false],
    ['not readable', '', recordFlags.argumentsUnreadable, '', true],
  ] as const) {
    test(`arguments: ${what}`, () => {
      const access = decode({ argv: Buffer.from(argv), flags });
      assert.equal(access.arguments, text);
      assert.equal(access.argumentsTruncated, truncated);
    });
  }

  test('records that differ in one byte, or only in where a text ends, never share their texts', () => {
    const variants: Partial<Parts>[] = [
      {},
      { comm: Buffer.from('cau') },
      { flags: recordFlags.executableDeleted },
      { flags: recordFlags.argumentsCut },
      // The same bytes behind the head, divided differently.
      { executable: names('a', 'b'), cwd: names('c'), argv: Buffer.from('d\0') },
      { executable: names('a'), cwd: names('b', 'c'), argv: Buffer.from('d\0') },
      { executable: names('a'), cwd: names('b'), argv: Buffer.from('c\0d\0') },
      // latin1 0xe9 and the UTF-8 of the same letter
      { argv: Buffer.from([0x61, 0, 0xe9, 0]) },
      { argv: Buffer.from('a\0é\0') },
    ];
    const all = variants.map((variant) => ({ ...example, ...variant }));
    const encoded = all.map(encode);
    const window = new AccessRecord(clock);
    window.setMemory(Buffer.concat(encoded));
    for (let round = 0; round < 2; round++) {
      let offset = 0;
      for (const [index, bytes] of encoded.entries()) {
        window.moveTo(offset, bytes.length);
        assert.deepEqual(snapshotOf(window), expected(all[index] ?? example), `variant ${index}`);
        offset += bytes.length;
      }
    }
  });

  test('the texts stay right when more different ones come than are remembered', () => {
    const window = new AccessRecord(clock);
    for (let round = 0; round < 2; round++) {
      for (let i = 0; i < 5000; i++) {
        const bytes = encode({ ...example, argv: Buffer.from(`cat\0${i}\0`) });
        window.setMemory(bytes);
        window.moveTo(0, bytes.length);
        assert.equal(window.arguments, String(i));
      }
    }
  });
});

suite('bytes that are not a record', () => {
  const isDecode = (error: unknown): boolean =>
    error instanceof RampartError && error.code === 'RAMPART_DECODE' && !error.message.includes('\n');

  /** Reads everything available; an error is a fault. */
  function readAll(window: AccessRecord): void {
    const access = snapshotOf(window);
    for (const text of [access.comm, access.executable, access.cwd, access.arguments]) {
      assert.equal(typeof text, 'string');
    }
    assert.ok(access.executable.length + access.cwd.length + access.arguments.length <= 3 * 65_536 + 32);
    for (const key of ['targetId', 'foldedTotal', 'bucketBornNs', 'monotonicNs'] as const) {
      assert.ok(window[key] >= 0);
    }
  }

  function readOrRefuse(bytes: Uint8Array, offset: number, length: number): boolean {
    const window = new AccessRecord(clock);
    window.setMemory(bytes);
    try {
      window.moveTo(offset, length);
    } catch (error) {
      assert.ok(isDecode(error), String(error));
      return false;
    }
    readAll(window);
    return true;
  }

  test('anything: a DECODE error or a readable access, never a read out of range', () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 400 }),
        fc.integer({ min: -8, max: 420 }),
        fc.integer({ min: -8, max: 420 }),
        (bytes, offset, length) => {
          readOrRefuse(bytes, offset, length);
        },
      ),
      { numRuns: 5000 },
    );
  });

  test('a record with some bytes changed, in a window of the memory around it', () => {
    let readable = 0;
    fc.assert(
      fc.property(
        wellFormed,
        fc.array(fc.tuple(fc.nat(), fc.integer({ min: 0, max: 255 })), { maxLength: 6 }),
        fc.nat({ max: 16 }),
        fc.integer({ min: -2, max: 2 }),
        (parts, changes, before, lengthError) => {
          const bytes = encode(parts);
          for (const [position, value] of changes) bytes[position % bytes.length] = value;
          const memory = Buffer.concat([Buffer.alloc(before, 0xff), bytes, Buffer.alloc(16, 0xff)]);
          if (readOrRefuse(memory, before, bytes.length + lengthError)) readable += 1;
        },
      ),
      { numRuns: 5000 },
    );
    assertReached(readable > scaled(500), `only ${readable} were readable: the test looks at too little`);
  });

  for (const [what, change, pattern] of [
    ['shorter than the fixed part', (bytes: Buffer) => bytes.subarray(0, at.sizeBytes - 1), /127 bytes at 0/],
    ['with text missing', (bytes: Buffer) => bytes.subarray(0, -1), /declares \d+ bytes of text/],
    [
      'with bytes behind the text',
      (bytes: Buffer) => Buffer.concat([bytes, NUL]),
      /declares \d+ bytes of text/,
    ],
    [
      'with an unknown verdict',
      (bytes: Buffer) => {
        bytes[at.verdict] = verdicts.length;
        return bytes;
      },
      /verdict 3/,
    ],
  ] as const) {
    test(`a record ${what} is refused, saying what is wrong`, () => {
      const bytes = change(encode(example));
      const window = new AccessRecord(clock);
      window.setMemory(bytes);
      assert.throws(() => window.moveTo(0, bytes.length), pattern);
    });
  }
});
