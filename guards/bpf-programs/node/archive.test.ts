import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { gzipSync, zstdCompressSync } from 'node:zlib';

import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import { paxRecord, tar, tarGzip, type TarEntry } from './archive.fixture.ts';
import { type ArchiveLimits, readArchive } from './archive.ts';

async function read(bytes: Uint8Array, limits?: ArchiveLimits): Promise<Record<string, string>> {
  const files = await readArchive(bytes, 'the layer', limits);
  return Object.fromEntries(files.map((file) => [file.path, Buffer.from(file.bytes).toString()]));
}

const refusedWith =
  (code: string, message: RegExp) =>
  (error: unknown): boolean => {
    assert.ok(error instanceof RampartError, String(error));
    assert.equal(error.code, code, error.message);
    assert.match(error.message, message);
    return true;
  };

suite('archives of layers', () => {
  const entries: readonly TarEntry[] = [
    { name: './', type: '5' },
    { name: './bytecode/', type: '5' },
    { name: './bytecode/pass.o', content: 'ELF' },
    { name: 'empty' },
  ];

  test('regular files, plain and compressed', async () => {
    const wanted = { 'bytecode/pass.o': 'ELF', empty: '' };
    for (const bytes of [tar(entries), tarGzip(entries), zstdCompressSync(tar(entries))]) {
      assert.deepEqual(await read(bytes), wanted);
    }
  });

  test('long names, as POSIX and as GNU write them', async () => {
    const long = `${'d'.repeat(120)}/${'f'.repeat(120)}`;
    const pax = {
      name: 'PaxHeader',
      type: 'x',
      content: paxRecord('mtime', '1.5') + paxRecord('path', long),
    };
    const gnu = { name: '././@LongLink', type: 'L', content: `${long}\0` };
    for (const header of [pax, gnu]) {
      assert.deepEqual(await read(tar([header, { name: 'short', content: 'x' }])), { [long]: 'x' });
    }
    const comment = { name: 'pax_global_header', type: 'g', content: paxRecord('comment', 'abc') };
    assert.deepEqual(await read(tar([comment, { name: 'a', content: 'x' }])), { a: 'x' });
  });

  test("reads archives of the machine's tar", async () => {
    const directory = mkdtempSync(join(tmpdir(), 'rampart-tar-'));
    try {
      mkdirSync(join(directory, 'n'.repeat(90), 'm'.repeat(90)), { recursive: true });
      writeFileSync(join(directory, 'n'.repeat(90), 'm'.repeat(90), 'deep.o'), 'deep');
      writeFileSync(join(directory, 'a.o'), 'a'.repeat(2000));
      for (const format of ['ustar', 'gnu', 'pax']) {
        const bytes = execFileSync('tar', [`--format=${format}`, '-C', directory, '-cz', '.']);
        const files = await read(bytes);
        assert.deepEqual(Object.keys(files).toSorted(), [
          'a.o',
          `${'n'.repeat(90)}/${'m'.repeat(90)}/deep.o`,
        ]);
      }
      symlinkSync('/etc/passwd', join(directory, 'link'));
      await assert.rejects(
        read(execFileSync('tar', ['-C', directory, '-c', '.'])),
        refusedWith(errorCodes.INPUT, /link is a symbolic link/),
      );
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  });

  const pass = { name: 'a', content: 'x' };
  const refused: readonly (readonly [string, () => Uint8Array, string, RegExp])[] = [
    [
      'a symbolic link',
      () => tar([pass, { name: 'l', type: '2', link: '/etc' }]),
      errorCodes.INPUT,
      /symbolic link/,
    ],
    ['a hard link', () => tar([{ name: 'l', type: '1', link: 'a' }]), errorCodes.INPUT, /hard link/],
    ['a device', () => tar([{ name: 'd', type: '3' }]), errorCodes.INPUT, /device/],
    ['a FIFO', () => tar([{ name: 'd', type: '6' }]), errorCodes.INPUT, /FIFO/],
    ['a name with ..', () => tar([{ name: 'a/../../b' }]), errorCodes.INPUT, /points outside/],
    ['an absolute name', () => tar([{ name: '/etc/passwd' }]), errorCodes.INPUT, /points outside/],
    [
      'a directory that leads out',
      () => tar([{ name: '../', type: '5' }]),
      errorCodes.INPUT,
      /points outside/,
    ],
    [
      'a name with .. in a pax header',
      () => tar([{ name: 'p', type: 'x', content: paxRecord('path', '../b') }, pass]),
      errorCodes.INPUT,
      /points outside/,
    ],
    ['a file without a name', () => tar([{ name: './' }]), errorCodes.INPUT, /no name/],
    ['one name twice', () => tar([pass, { name: './a', content: 'y' }]), errorCodes.INPUT, /twice/],
    [
      'a file that is a directory',
      () => tar([pass, { name: 'a/b' }]),
      errorCodes.INPUT,
      /a file and a directory/,
    ],
    [
      'a sparse file',
      () => tar([{ name: 'p', type: 'x', content: paxRecord('GNU.sparse.major', '1') }, pass]),
      errorCodes.INPUT,
      /sparse/,
    ],
    [
      'an archive that is cut off',
      () => tar([{ name: 'a', content: 'x'.repeat(600) }]).subarray(0, 1024),
      errorCodes.CORRUPT,
      /ends within/,
    ],
    [
      'an archive without an end',
      () => tar([pass]).subarray(0, 1024),
      errorCodes.CORRUPT,
      /without an end marker/,
    ],
    [
      'more behind the end',
      () => Buffer.concat([tar([pass]), tar([pass])]),
      errorCodes.CORRUPT,
      /after its end marker/,
    ],
    ['a size that lies', () => tar([{ ...pass, size: 8 ** 10 }]), errorCodes.LIMIT, /and the limit is/],
    ['a broken header', () => tar([pass]).fill('z', 0, 3), errorCodes.CORRUPT, /checksum/],
    [
      'a pax header that lies',
      () => tar([{ name: 'p', type: 'x', content: '99 path=b\n' }, pass]),
      errorCodes.CORRUPT,
      /pax/,
    ],
    ['broken gzip', () => tarGzip([pass]).subarray(0, 30), errorCodes.CORRUPT, /decompressed/],
    ['no archive at all', () => Buffer.from('not a tar'), errorCodes.CORRUPT, /without an end marker/],
    ['nothing', () => Buffer.alloc(0), errorCodes.CORRUPT, /without an end marker/],
  ];
  for (const [what, bytes, code, message] of refused) {
    test(`${what} is refused`, () => assert.rejects(read(bytes()), refusedWith(code, message)));
  }

  test('limits: of files, of a file, of all, of what a small layer grows to', async () => {
    const three = ['a', 'b', 'c'].map((name) => ({ name, content: 'x'.repeat(100) }));
    assert.equal(Object.keys(await read(tar(three), { files: 3, fileBytes: 100 })).length, 3);
    await assert.rejects(read(tar(three), { files: 2 }), refusedWith(errorCodes.LIMIT, /more than 2 files/));
    await assert.rejects(read(tar(three), { fileBytes: 99 }), refusedWith(errorCodes.LIMIT, /limit is 99/));
    await assert.rejects(
      read(tar(three), { totalBytes: 2000 }),
      refusedWith(errorCodes.LIMIT, /exceeds 2000/),
    );
    const bomb = gzipSync(Buffer.alloc(80 << 20));
    assert.ok(bomb.length < 100_000);
    await assert.rejects(read(bomb), refusedWith(errorCodes.LIMIT, /decompressed, it exceeds/));
    const directories = Array.from({ length: 2000 }, (_, index) => ({ name: `d${index}/`, type: '5' }));
    await assert.rejects(read(tar(directories)), refusedWith(errorCodes.LIMIT, /more than 1100 entries/));
  });

  test('any bytes give files within the limits, or an error of the catalogue', async () => {
    const base = tar([...entries, { name: 'p', type: 'x', content: paxRecord('path', 'q') }, pass]);
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.nat(base.length - 1), fc.nat(255)), { maxLength: 8 }),
        fc.nat(base.length),
        async (changes, length) => {
          const bytes = Buffer.from(base);
          for (const [at, value] of changes) bytes[at] = value;
          try {
            for (const path of Object.keys(await read(bytes.subarray(0, length)))) {
              assert.ok(!path.startsWith('/') && !path.split('/').includes('..'));
            }
          } catch (error) {
            assert.ok(error instanceof RampartError, String(error));
          }
        },
      ),
    );
  });
});
