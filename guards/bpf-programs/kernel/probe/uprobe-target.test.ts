import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test, type TestContext } from 'node:test';

import { AT_FDCWD, type Fd, openat2, openFlags } from '../../../../lib/ebpf/libc.ts';
import { librariesOf, openTarget, probeOffset } from './uprobe-target.ts';

/** A root with these files; a text that begins with `->` is a symbolic link. */
function root(t: TestContext, files: Readonly<Record<string, string>>): { fd: Fd; path: string } {
  const path = mkdtempSync(join(tmpdir(), 'rampart-root-'));
  for (const [name, text] of Object.entries(files)) {
    const file = join(path, name);
    mkdirSync(dirname(file), { recursive: true });
    if (text.startsWith('->')) symlinkSync(text.slice(2), file);
    else writeFileSync(file, text);
  }
  const fd = openat2(AT_FDCWD, path, { flags: openFlags.PATH | openFlags.DIRECTORY });
  t.after(() => {
    fd[Symbol.dispose]();
    rmSync(path, { recursive: true });
  });
  return { fd, path };
}

function found(at: Fd, target: string, maps = ''): string {
  const { file, path } = openTarget(at, target, maps);
  using held = file;
  return `${path}: ${readFileSync(held.number, 'utf8')}`;
}

test('a link leads to a file of the container, also an absolute one and one that climbs', (t) => {
  const { fd } = root(t, {
    'opt/real': 'inside',
    'lib/libabsolute.so.1': '->/opt/real',
    'lib/libclimbs.so.1': '->../../../../../opt/real',
    'lib/libloop.so.1': '->libloop.so.1',
  });
  assert.equal(found(fd, '/lib/libabsolute.so.1'), '/lib/libabsolute.so.1: inside');
  assert.equal(found(fd, '/lib/libclimbs.so.1'), '/lib/libclimbs.so.1: inside');
  assert.equal(found(fd, '/../../opt/real'), '/../../opt/real: inside');
  assert.throws(() => found(fd, '/lib/libloop.so.1'), /ELOOP/);
  assert.throws(() => found(fd, '/etc/passwd'), /There is no \/etc\/passwd to probe: ENOENT/);
  assert.throws(() => found(fd, ''), /does not name a file/);
});

test('a bare name is looked for in the maps of the process and the usual directories', (t) => {
  const { fd, path } = root(t, {
    'lib/libc.musl-x86_64.so.1': '\x7fELF musl',
    'lib/libc.so': 'GROUP ( /lib/libc.so.6 )',
    'usr/lib/libssl.so.3': '\x7fELF ssl',
    'usr/lib/libssl-other.so.3': '\x7fELF other',
    'usr/lib/libz-1.2.so': '\x7fELF versioned',
    'usr/lib/libscript.so': 'INPUT ( libz.so )',
    'opt/app/libown.so': '\x7fELF own',
  });
  assert.equal(found(fd, 'libc'), '/lib/libc.musl-x86_64.so.1: \x7fELF musl');
  assert.equal(found(fd, 'libssl'), '/usr/lib/libssl.so.3: \x7fELF ssl');
  assert.equal(found(fd, 'libssl.so.3'), '/usr/lib/libssl.so.3: \x7fELF ssl');
  assert.equal(found(fd, 'libz'), '/usr/lib/libz-1.2.so: \x7fELF versioned');
  assert.throws(() => found(fd, 'libss'), /no library of that name/);
  assert.throws(() => found(fd, 'libscript'), /no library of that name/);
  const maps = '7f00-7f01 r-xp 00000000 08:01 12  /opt/app/libown.so\n';
  assert.equal(found(fd, 'libown', maps), '/opt/app/libown.so: \x7fELF own');
  execFileSync('mkfifo', [join(path, 'usr/lib/libpipe.so')]);
  assert.throws(() => found(fd, '/usr/lib/libpipe.so'), /not a regular file/);
});

test('a function of libc lies where nm says, and a text file has none', (t) => {
  const cache = librariesOf(readFileSync('/etc/ld.so.cache'));
  const libc = cache.find(({ name }) => name === 'libc.so.6');
  assert.ok(libc);
  const { fd, path } = root(t, { text: 'x'.repeat(100) });
  copyFileSync(libc.path, join(path, 'libc.so.6'));
  const target = openTarget(fd, '/libc.so.6', '');
  using file = target.file;
  const nm = execFileSync('nm', ['-D', '--defined-only', libc.path], { encoding: 'latin1' });
  const address = BigInt(`0x${/^([0-9a-f]+) \w malloc@@/m.exec(nm)?.[1]}`);
  // The first segment of libc begins at 0 in both.
  assert.equal(probeOffset(target, 'malloc', 0n), address);
  assert.equal(probeOffset(target, 'malloc', 4n), address + 4n);
  assert.equal(probeOffset(target, undefined, 123n), 123n);
  assert.throws(() => probeOffset(target, 'no_such', 0n), /has no function no_such/);
  assert.ok(file.number > 0);
  const text = openTarget(fd, '/text', '');
  using _text = text.file;
  assert.throws(() => probeOffset(text, 'malloc', 0n), /not a 64-bit little-endian ELF file/);
});

test('a malformed ld.so.cache has no libraries', () => {
  assert.deepEqual(librariesOf(Buffer.alloc(0)), []);
  assert.deepEqual(librariesOf(Buffer.from('glibc-ld.so.cache1.1')), []);
  const header = Buffer.alloc(48);
  header.write('glibc-ld.so.cache1.1');
  header.writeUInt32LE(2 ** 31, 20);
  assert.deepEqual(librariesOf(header), []);
});
