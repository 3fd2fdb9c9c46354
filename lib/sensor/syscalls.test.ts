import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { suite, test, type TestContext } from 'node:test';

import { RampartError } from '../errors/errors.ts';
import { syscallTableLength } from './layout.ts';
import { syscallKinds, syscallTable, syscallTablesOf, type SyscallKind } from './syscalls.ts';

/** Which calls are of which kind, by their names: the independent side of the comparison. */
const kinds: Readonly<Record<SyscallKind, readonly string[]>> = {
  open: ['open', 'creat'],
  openat: ['openat', 'open_by_handle_at'],
  openat2: ['openat2'],
  read: ['read', 'pread64', 'readv', 'preadv', 'preadv2'],
  write: ['write', 'pwrite64', 'writev', 'pwritev', 'pwritev2', 'ftruncate', 'ftruncate64', 'fallocate'],
  sendfile: ['sendfile', 'sendfile64'],
  copy: ['splice', 'copy_file_range'],
  // Where both are there, mmap takes its arguments in memory and mmap2 in registers.
  mmap: ['mmap', 'mmap2'],
  truncate: ['truncate', 'truncate64'],
  unlink: ['unlink', 'unlinkat'],
  rename: ['rename', 'renameat', 'renameat2'],
  mode: ['chmod', 'fchmod', 'fchmodat', 'fchmodat2'],
  owner: ['chown', 'chown32', 'lchown', 'lchown32', 'fchown', 'fchown32', 'fchownat'],
  times: ['utime', 'utimes', 'futimesat', 'utimensat', 'utimensat_time64'],
  extended: ['', 'l', 'f']
    .flatMap((kind) => [`${kind}setxattr`, `${kind}removexattr`])
    .concat('setxattrat', 'removexattrat'),
};

/** The same for all architectures, and newer than the headers here may be. */
const newer = [
  ['fchmodat2', 452],
  ['setxattrat', 463],
  ['removexattrat', 466],
] as const;

type Numbers = ReadonlyMap<string, number>;

/** `#define __NR_name number` of a header, with the spellings of asm-generic and of the x32 gate. */
function numbersOf(header: string): Numbers {
  const define = /^#define __NR(?:3264)?_(\w+)\s+\(?(?:__X32_SYSCALL_BIT \+ )?(\d+)\)?\s*$/gm;
  return new Map(
    [...readFileSync(header, 'utf8').matchAll(define)].map(([, name = '', number]) => [name, Number(number)]),
  );
}

function expectedTable(...sources: readonly Numbers[]): Map<number, SyscallKind> {
  const expected = new Map<number, SyscallKind>();
  for (const numbers of [...sources, new Map<string, number>(newer)]) {
    for (const [kind, names] of Object.entries(kinds) as [SyscallKind, readonly string[]][]) {
      for (const name of names) {
        const number = numbers.get(name);
        if (number === undefined || (name === 'mmap' && numbers.has('mmap2'))) continue;
        expected.set(number, kind);
      }
    }
  }
  return expected;
}

function kindsIn(table: Uint8Array): Map<number, SyscallKind> {
  const found = new Map<number, SyscallKind>();
  for (const [number, index] of table.entries()) {
    const kind = syscallKinds[index];
    assert.ok(kind, `kind ${index} of system call ${number}`);
    if (kind !== 'none') found.set(number, kind);
  }
  return found;
}

const sorted = (table: Map<number, SyscallKind>): [number, SyscallKind][] =>
  [...table].toSorted(([a], [b]) => a - b);

/** The headers, or a skip that names the missing one. */
function headers(t: TestContext, ...paths: readonly string[]): readonly Numbers[] | undefined {
  const missing = paths.find((path) => !existsSync(path));
  if (missing !== undefined) {
    t.skip(`${missing} is missing (linux-libc-dev of that architecture)`);
    return undefined;
  }
  return paths.map(numbersOf);
}

suite('system call numbers are the ones of the kernel headers', () => {
  const x86 = '/usr/include/x86_64-linux-gnu/asm';

  test('x86_64, with the calls that only the x32 gate has', (t) => {
    const found = headers(t, `${x86}/unistd_64.h`, `${x86}/unistd_x32.h`);
    if (found) assert.deepEqual(sorted(kindsIn(syscallTable('x64'))), sorted(expectedTable(...found)));
  });

  test('the 32-bit gate of x86_64', (t) => {
    const found = headers(t, `${x86}/unistd_32.h`);
    if (found) assert.deepEqual(sorted(kindsIn(syscallTable('ia32'))), sorted(expectedTable(...found)));
  });

  test('arm64', (t) => {
    const found = headers(t, '/usr/include/asm-generic/unistd.h');
    if (found) {
      const [numbers = new Map<string, number>()] = found;
      // Only 32-bit gates have calls of their own for longer times.
      const own = new Map([...numbers].filter(([name]) => !name.endsWith('_time64')));
      assert.deepEqual(sorted(kindsIn(syscallTable('arm64'))), sorted(expectedTable(own)));
    }
  });

  test('32-bit arm, as libseccomp knows it', (t) => {
    const names = Object.values(kinds).flat();
    const numbers = new Map<string, number>();
    for (const name of names) {
      const { status, stdout } = spawnSync('scmp_sys_resolver', ['-a', 'arm', name], { encoding: 'utf8' });
      if (status === null) {
        t.skip('scmp_sys_resolver is not installed (Debian: seccomp)');
        return;
      }
      // A name the architecture does not have gets a negative number.
      if (/^\d+$/.test(stdout.trim())) numbers.set(name, Number(stdout));
    }
    assert.deepEqual(sorted(kindsIn(syscallTable('arm'))), sorted(expectedTable(numbers)));
  });
});

suite('system call tables', () => {
  test('have the length the programs expect, with no number beyond it', () => {
    for (const name of ['x64', 'ia32', 'arm64', 'arm'] as const) {
      const table = syscallTable(name);
      assert.equal(table.length, syscallTableLength);
      // Written out of range a Uint8Array drops the byte: count what arrived.
      assert.ok(kindsIn(table).size >= 20, name);
    }
  });

  test('the system calls of a machine: its own gate and the 32-bit one', () => {
    assert.deepEqual(syscallTablesOf('x64'), { native: syscallTable('x64'), compat: syscallTable('ia32') });
    assert.deepEqual(syscallTablesOf('arm64'), {
      native: syscallTable('arm64'),
      compat: syscallTable('arm'),
    });
  });

  test('an unknown architecture: UNSUPPORTED, naming it and the known ones', () => {
    assert.throws(
      () => syscallTablesOf('riscv64'),
      (error: unknown) =>
        error instanceof RampartError &&
        error.code === 'RAMPART_UNSUPPORTED' &&
        /riscv64.*x64 and arm64/.test(error.message),
    );
  });
});
