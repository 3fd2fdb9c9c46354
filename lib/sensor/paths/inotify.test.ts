import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';

import { AT_FDCWD, openat2, openFlags, type Fd } from '../../ebpf/libc.ts';
import { RampartError } from '../../errors/errors.ts';
import * as fc from '../../testing/fast-check.fixture.ts';
import {
  decodeInotify,
  DirectoryWatches,
  fromByteString,
  toByteString,
  type InotifyEvent,
  type Listener,
} from './inotify.ts';
import { anonymousFds } from './path-tracker.fixture.ts';
import { TemporaryDirectory } from '../../testing/temporary-directory.fixture.ts';

/** The kernel's own form: the name ends in NUL and is padded to a multiple of the header's size. */
function encode(events: readonly InotifyEvent[]): Uint8Array {
  const parts = events.map((event) => {
    const name = Buffer.from(event.name, 'latin1');
    const room = name.length === 0 ? 0 : 16 * Math.ceil((name.length + 1) / 16);
    const bytes = Buffer.alloc(16 + room);
    bytes.writeInt32LE(event.wd, 0);
    bytes.writeUInt32LE(event.mask, 4);
    bytes.writeUInt32LE(event.cookie, 8);
    bytes.writeUInt32LE(room, 12);
    name.copy(bytes, 16);
    return bytes;
  });
  return Buffer.concat(parts);
}

const anyName = fc
  .uint8Array({ maxLength: 255 })
  .map((bytes) => Buffer.from(bytes.filter((byte) => byte !== 0 && byte !== 47)).toString('latin1'));
const anyEvent: fc.Arbitrary<InotifyEvent> = fc.record(
  {
    wd: fc.integer({ min: -1, max: 0x7fffffff }),
    mask: fc.nat(0xffffffff),
    cookie: fc.nat(0xffffffff),
    name: anyName,
  },
  { noNullPrototype: true },
);

test('events of the kernel are decoded', () => {
  fc.assert(
    fc.property(fc.array(anyEvent, { maxLength: 20 }), fc.nat(7), (events, shift) => {
      const bytes = encode(events);
      // The bytes need not start where their buffer does.
      const shifted = new Uint8Array(bytes.byteLength + shift);
      shifted.set(bytes, shift);
      assert.deepEqual(decodeInotify(shifted.subarray(shift)), events);
    }),
  );
});

test('arbitrary bytes are decoded within their bounds or refused', () => {
  const header = fc
    .record({ length: fc.oneof(fc.nat(64), fc.nat(0xffffffff)), rest: fc.uint8Array({ maxLength: 80 }) })
    .map(({ length, rest }) => {
      const bytes = Buffer.alloc(16 + rest.length);
      bytes.writeUInt32LE(length, 12);
      bytes.set(rest, 16);
      return new Uint8Array(bytes);
    });
  fc.assert(
    fc.property(fc.oneof(fc.uint8Array({ maxLength: 200 }), header), (bytes) => {
      let events: InotifyEvent[];
      try {
        events = decodeInotify(bytes);
      } catch (error) {
        assert.ok(error instanceof RampartError && error.code === 'RAMPART_DECODE');
        return;
      }
      const sizeBytes = events.reduce((sum, event) => sum + 16 + event.name.length, 0);
      assert.ok(sizeBytes <= bytes.byteLength);
    }),
    { numRuns: 2000 },
  );
});

test('an event cut anywhere is refused, never guessed', () => {
  const bytes = encode([{ wd: 1, mask: 0x100, cookie: 0, name: 'shadow' }]);
  for (let length = 1; length < bytes.byteLength; length++) {
    assert.throws(() => decodeInotify(bytes.subarray(0, length)), { code: 'RAMPART_DECODE' });
  }
});

test('names keep their bytes', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), (text) => fromByteString(toByteString(text)) === text),
  );
});

/** A listener that resolves at its first touch. */
function listener(): Listener & { readonly touched: Promise<void>; count: number } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return {
    touched: promise,
    count: 0,
    touch() {
      this.count += 1;
      resolve();
    },
  };
}

function open(path: string): Fd {
  return openat2(AT_FDCWD, path, { flags: openFlags.PATH | openFlags.DIRECTORY });
}

const quiet = {
  onBatch: () => undefined,
  onOverflow: () => undefined,
  onError: (error: RampartError) => assert.fail(error),
};

test('a directory is watched once, until its last interest ends', async () => {
  using temporary = new TemporaryDirectory();
  const before = anonymousFds('inotify');
  {
    using watches = new DirectoryWatches(quiet);
    using fd = open(temporary.path);
    using again = open(temporary.path);
    const one = listener();
    const two = listener();
    const first = { directory: watches.watch(fd, '/'), name: 'name' };
    watches.addInterest(first, one);
    const second = { directory: watches.watch(again, '/'), name: 'name' };
    watches.addInterest(second, two);
    watches.addInterest(second, two);
    assert.equal(first.directory, second.directory);
    assert.equal(watches.size, 1);
    watches.removeInterest(first, two);
    assert.equal(watches.size, 1);
    writeFileSync(temporary.at('nobody asked for this'), '');
    writeFileSync(temporary.at('name'), '');
    await one.touched;
    assert.equal(one.count, 1);
    assert.equal(two.count, 0);
    watches.removeInterest(first, one);
    assert.equal(watches.size, 0);
    // The number of an ended watch is no obstacle to a new one of the same directory.
    const third = { directory: watches.watch(fd, '/'), name: 'other' };
    watches.addInterest(third, two);
    watches.removeInterest(first, one);
    assert.equal(watches.size, 1);
    writeFileSync(temporary.at('other'), '');
    await two.touched;
  }
  assert.equal(anonymousFds('inotify'), before);
});

test('the end of a directory touches who listens to it', async () => {
  using temporary = new TemporaryDirectory();
  mkdirSync(temporary.at('gone'));
  using watches = new DirectoryWatches(quiet);
  const self = listener();
  {
    using fd = open(temporary.at('gone'));
    watches.addInterest({ directory: watches.watch(fd, '/gone'), name: '' }, self);
  }
  temporary[Symbol.dispose]();
  await self.touched;
  assert.equal(watches.size, 0);
});
