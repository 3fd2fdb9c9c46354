/** Random entries; apart from the other fixtures because fast-check takes its time to load. */
import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import { attributes } from '../model/attributes.ts';
import { type Entry, fileTypes } from '../model/entry.ts';

const byteString = (maxLength: number): fc.Arbitrary<string> =>
  fc
    .uint8Array({ minLength: 1, maxLength })
    .map((bytes) => Buffer.from(bytes.map((byte) => byte || 1)).toString('latin1'));
const name = byteString(12).map((text) => text.replaceAll('/', '_'));
const anyPath = fc.array(name, { maxLength: 5 }).map((names) => `/${names.join('/')}`);
const time = fc.oneof(
  fc.integer({ min: -1_000_000, max: 2 ** 40 }),
  fc.constantFrom(0, 2 ** 50, 2 ** 62, -(2 ** 63)),
);
const size = fc.oneof(fc.nat(), fc.maxSafeNat(), fc.constantFrom(0, 2 ** 53 - 1, 2 ** 53, 2 ** 63));
const sha = (length: number): fc.Arbitrary<Uint8Array> =>
  fc.oneof(fc.constant(new Uint8Array(0)), fc.uint8Array({ minLength: length, maxLength: length }));

export const anyEntry: fc.Arbitrary<Entry> = fc.record({
  path: anyPath,
  type: fc.constantFrom(...fileTypes),
  attributes: fc.integer({ min: 0, max: 2 ** attributes.length - 1 }),
  permissions: fc.integer({ min: 0, max: 0o7777 }),
  uid: fc.integer({ min: 0, max: 2 ** 32 - 1 }),
  gid: fc.constantFrom(0, 1000),
  linkCount: fc.integer({ min: 0, max: 70_000 }),
  inode: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  sizeBytes: size,
  blockCount: size,
  accessTimeS: time,
  modifyTimeS: time,
  changeTimeS: time,
  linkTarget: byteString(100),
  acl: fc.constantFrom('', 'user::rw-\ngroup::r--\nother::r--\n'),
  defaultAcl: fc.constantFrom('', 'user::rwx\n'),
  selinux: fc.constantFrom('', 'system_u:object_r:etc_t:s0'),
  xattrs: fc.array(fc.tuple(byteString(20), fc.uint8Array({ maxLength: 300 })), { maxLength: 3 }),
  e2fsAttributes: fc.integer({ min: 0, max: 2 ** 32 - 1 }),
  capabilities: fc.constantFrom('', 'cap_net_raw=ep'),
  sha256: sha(32),
  sha512: sha(64),
});

/** Sorted, no path twice. */
export const anyEntries: fc.Arbitrary<Entry[]> = fc
  .uniqueArray(anyEntry, { selector: (entry) => entry.path, maxLength: 30 })
  .map((entries) => entries.toSorted((a, b) => (a.path < b.path ? -1 : 1)));
