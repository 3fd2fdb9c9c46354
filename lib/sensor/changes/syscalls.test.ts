import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { suite, test } from 'node:test';

import { syscallTableLength } from '../layout.ts';
import { changeCalls, type ChangeCall } from './layout.ts';
import { changeTable, changeTablesOf } from './syscalls.ts';

/** By their names: the independent side of the comparison. */
const calls: Readonly<Record<Exclude<ChangeCall, 'unknown'>, RegExp>> = {
  content: /^(write|pwrite64|writev|pwritev2?|f?truncate(64)?|fallocate)$/,
  names:
    /^(open|creat|openat2?|link(at)?|unlink(at)?|rename(at2?)?|mkdir(at)?|rmdir|symlink(at)?|mknod(at)?)$/,
  attributes:
    /^(f?chmod|fchmodat2?|[lf]?chown(32)?|fchownat|utimes?|futimesat|utimensat(_time64)?|[lf]?(set|remove)xattr(at)?|ioctl)$/,
};

/** Newer than the headers here may be: fchmodat2 (6.6), setxattrat and removexattrat (6.13). */
const NEWER = new Set([452, 463, 466]);

function checkAgainst(header: string, table: Uint8Array, isNative: boolean): void {
  const define = /^#define __NR(?:3264)?_(\w+)\s+\(?(?:__X32_SYSCALL_BIT \+ )?(\d+)\)?\s*$/gm;
  const known = new Map<number, string>();
  for (const [, name = '', number] of readFileSync(header, 'utf8').matchAll(define))
    known.set(Number(number), name);
  for (const [number, index] of table.entries()) {
    const name = known.get(number);
    // The 32-bit gates have calls of their own for longer times.
    const isForeign = isNative && name?.endsWith('_time64');
    if (name === undefined || isForeign || NEWER.has(number) || (isNative && number >= 512)) continue;
    const expected = Object.entries(calls).find(([, names]) => names.test(name))?.[0] ?? 'unknown';
    assert.equal(changeCalls[index], expected, `${name} (${number})`);
  }
}

suite('system calls that change files', () => {
  for (const [name, header] of [
    ['x64', '/usr/include/x86_64-linux-gnu/asm/unistd_64.h'],
    ['ia32', '/usr/include/x86_64-linux-gnu/asm/unistd_32.h'],
    ['arm64', '/usr/include/asm-generic/unistd.h'],
  ] as const) {
    test(name, { skip: !existsSync(header) && `${header} is not installed` }, () =>
      checkAgainst(header, changeTable(name), name !== 'ia32'),
    );
  }

  test('both tables have the length that the programs know', () => {
    for (const architecture of ['x64', 'arm64']) {
      const { native, compat } = changeTablesOf(architecture);
      assert.deepEqual([native.length, compat.length], [syscallTableLength, syscallTableLength]);
    }
    assert.throws(() => changeTablesOf('mips'), /mips/);
  });
});
