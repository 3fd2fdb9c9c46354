/**
 * What each mode sees, operation by operation: really runs every line of `operations` in modes.ts.
 * RAMPART_SENSOR_MODE forces a mode; the kernel suite runs this file once for each.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  linkSync,
  mkdtempSync,
  openSync,
  closeSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  statfsSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { release, tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';

import { ANY_OPERATION, everyAccess, operationBits, type Access } from './access.ts';
import { operations, type SensorModeName } from './modes.ts';
import {
  asNobody,
  descriptorCalls,
  Holder,
  openCalls,
  perl,
  uringOpen,
  writeCompatOpener,
} from './operations.fixture.ts';
import { Sensor } from './sensor.ts';
import { snapshotOf } from './snapshot.fixture.ts';

const mode = (process.env['RAMPART_SENSOR_MODE'] ?? 'auto') as SensorModeName | 'auto';
const skip = process.geteuid?.() === 0 ? false : 'needs root';
const TMPFS_MAGIC = 0x01021994;
const PROTECTED_HARDLINKS = '/proc/sys/fs/protected_hardlinks';

describe('operations that the sensor sees', { skip }, () => {
  const watcher = { filter: everyAccess };
  let sensor: Sensor<typeof watcher>;
  let directory: string;
  let collected: Access[] = [];
  let files = 0;

  before(() => {
    // Everyone may enter, because some accesses are tried by an unprivileged user.
    directory = mkdtempSync(join(tmpdir(), 'rampart-operations-'));
    chmodSync(directory, 0o777);
    sensor = Sensor.open({
      mode,
      ratePerSecond: 0,
      onAccess: (access) => collected.push(snapshotOf(access)),
      onProblem: (problem) => assert.fail(String(problem)),
    });
  });

  after(() => {
    sensor?.[Symbol.dispose]();
    rmSync(directory, { recursive: true, force: true });
  });

  function newFile(mode_ = 0o644, content = 'some bytes\n'): string {
    files += 1;
    const path = join(directory, `file-${files}`);
    writeFileSync(path, content);
    chmodSync(path, mode_);
    return path;
  }

  function watch(path: string): void {
    const fd = openSync(path, 'r');
    sensor.targets.add(sensor.identify(fd), watcher);
    closeSync(fd);
  }

  /** All that is seen while something is done: a hook runs before its system call returns, so a drain is enough. */
  function seenDuring(act: () => void): Access[] {
    sensor.drain();
    collected = [];
    act();
    sensor.drain();
    return collected;
  }

  const masks = (accesses: readonly Access[]): number[] => accesses.map((access) => access.mask);

  function expected(name: string): number[] {
    const one = operations.find((candidate) => candidate.name === name);
    assert.ok(one, `modes.ts describes ${name}`);
    const mask = one.seen[sensor.mode];
    return mask === undefined ? [] : [mask];
  }

  const done = new Set<string>();
  /** One line of the table: `act` gets a watched file. */
  function operation(name: string, act: (path: string) => void, options: { mode?: number } = {}): void {
    done.add(name);
    test(name, () => {
      const path = newFile(options.mode);
      watch(path);
      assert.deepEqual(masks(seenDuring(() => act(path))), expected(name));
    });
  }

  operation('read', (path) => execFileSync('cat', [path]));
  operation('write', (path) => execFileSync('sh', ['-c', 'echo x > "$1"', 'sh', path]));
  operation('read-write', (path) => perl('sysopen(my $h, $ARGV[0], O_RDWR) or die', path));
  operation('append', (path) => execFileSync('sh', ['-c', 'echo x >> "$1"', 'sh', path]));
  done.add('truncate');
  test('truncate', (t) => {
    // The tracepoints of the change time came with 6.13; before, tmpfs gives no sign of a truncation.
    const [major = 0, minor = 0] = release().split('.').map(Number);
    const old = major < 6 || (major === 6 && minor < 13);
    if (sensor.mode === 'raw_tracepoint' && old && statfsSync(directory).type === TMPFS_MAGIC) {
      return t.skip('this mode cannot see it on tmpfs before kernel 6.13');
    }
    const path = newFile();
    watch(path);
    const seen = seenDuring(() => perl('truncate($ARGV[0], 1) or die', path));
    assert.deepEqual(masks(seen), expected('truncate'));
  });

  operation('denied', (path) => asNobody('cat', path), { mode: 0o600 });
  operation('check', (path) => perl('use filetest "access"; exit(-r $ARGV[0] ? 0 : 1)', path));
  operation('hard-link', (path) => {
    linkSync(path, `${path}.hard`);
    execFileSync('cat', [`${path}.hard`]);
  });
  operation('symlink', (path) => {
    symlinkSync(path, `${path}.soft`);
    execFileSync('cat', [`${path}.soft`]);
  });
  operation('metadata', (path) => {
    execFileSync('stat', [path]);
    statSync(path);
  });

  /** The tracepoints of the change time came with 6.13. */
  const [major = 0, minor = 0] = release().split('.').map(Number);
  const beforeChangeTime = major < 6 || (major === 6 && minor < 13);

  /** The names of an operation; where /tmp is a file system of its own, they begin there. */
  function namesIn({ from, to, namesOfFileSystem }: Access): { from: string; to: string } {
    if (!namesOfFileSystem) return { from, to };
    return { from: from && `${mountOf(directory)}${from}`, to: to && `${mountOf(directory)}${to}` };
  }

  const operationsDuring = (act: () => void): Access[] =>
    seenDuring(act).filter(({ mask }) => mask & ANY_OPERATION);

  /** An operation on names or attributes; `names` says what its record has of them. */
  function change(
    name: string,
    act: (path: string) => void,
    names: (path: string) => Partial<Pick<Access, 'from' | 'to'>> = () => ({}),
  ): void {
    done.add(name);
    test(name, (t) => {
      if (sensor.mode === 'raw_tracepoint' && beforeChangeTime) {
        return t.skip('this mode cannot see it before kernel 6.13');
      }
      const path = newFile();
      watch(path);
      const seen = operationsDuring(() => act(path));
      assert.deepEqual(masks(seen), expected(name));
      for (const access of seen) assert.deepEqual(namesIn(access), { from: '', to: '', ...names(path) });
    });
  }

  change(
    'delete',
    (path) => execFileSync('rm', ['-f', path]),
    (path) => ({ from: path }),
  );
  change(
    'rename',
    (path) => execFileSync('mv', [path, `${path}.renamed`]),
    (path) => ({ from: path, to: `${path}.renamed` }),
  );
  change(
    'replace',
    (path) => {
      writeFileSync(`${path}.other`, 'other');
      execFileSync('mv', ['-f', `${path}.other`, path]);
    },
    (path) => ({ from: path }),
  );
  change('chmod', (path) => execFileSync('chmod', ['600', path]));
  change('chown', (path) => execFileSync('chown', ['1:1', path]));
  change('utime', (path) => execFileSync('touch', ['-c', '-d', '@0', path]));
  change('setxattr', (path) =>
    // setxattr(path, name, value, size, flags)
    perl('my ($n, $v) = ("trusted.x", "1"); syscall(188, $ARGV[0], $n, $v, 1, 0) == 0 or die $!', path),
  );

  test('ln -sf over the file is a replacement', (t) => {
    if (sensor.mode === 'raw_tracepoint' && beforeChangeTime) {
      return t.skip('this mode cannot see it before kernel 6.13');
    }
    const path = newFile();
    watch(path);
    const seen = operationsDuring(() => execFileSync('ln', ['-sf', '/dev/null', path]));
    assert.deepEqual(masks(seen), [operationBits.replace]);
  });

  test('both files of a rename over each other, and of an exchange', (t) => {
    if (sensor.mode === 'raw_tracepoint' && beforeChangeTime) {
      return t.skip('this mode cannot see it before kernel 6.13');
    }
    const [one, other, third] = [newFile(), newFile(), newFile()];
    for (const path of [one, other, third]) watch(path);
    const over = seenDuring(() => renameSync(one, other));
    assert.deepEqual(masks(over), []); // the agent's own
    const seen = operationsDuring(() => execFileSync('mv', ['-f', other, third]));
    assert.deepEqual(
      seen.map((access) => ({ mask: access.mask, ...namesIn(access) })).toSorted((a, b) => a.mask - b.mask),
      [
        { mask: operationBits.rename, from: other, to: third },
        { mask: operationBits.replace, from: third, to: '' },
      ],
    );
    // renameat2(AT_FDCWD, third, AT_FDCWD, fourth, RENAME_EXCHANGE)
    const fourth = newFile();
    watch(fourth);
    const exchanged = operationsDuring(() =>
      perl('syscall(316, -100, $ARGV[0], -100, $ARGV[1], 2) == 0 or die $!', third, fourth),
    );
    assert.ok(exchanged.every(({ mask }) => mask === operationBits.rename));
    assert.ok(exchanged.map(namesIn).some(({ from, to }) => from === third && to === fourth));
  });

  done.add('denied-operation');
  test('denied-operation', () => {
    const path = newFile();
    chmodSync(directory, 0o755);
    try {
      watch(path);
      const seen = operationsDuring(() => asNobody('rm', '-f', path));
      assert.deepEqual(masks(seen), expected('denied-operation'));
      assert.ok(seen.every(({ verdict }) => verdict === 'denied'));
    } finally {
      chmodSync(directory, 0o777);
    }
  });

  done.add('execute');
  test('execute', () => {
    const path = join(directory, 'program');
    copyFileSync('/bin/true', path);
    chmodSync(path, 0o755);
    watch(path);
    const seen = seenDuring(() => execFileSync(path));
    assert.deepEqual(masks(seen), expected('execute'));
  });

  done.add('script');
  test('script', () => {
    const path = newFile(0o755, '#!/bin/sh\n:\n');
    watch(path);
    // The interpreter's own open of the script follows in every mode.
    assert.deepEqual(masks(seenDuring(() => execFileSync(path))), [...expected('script'), 36]);
  });

  done.add('link');
  test('link', () => {
    const path = newFile(0o666);
    const setting = readFileSync(PROTECTED_HARDLINKS, 'utf8');
    writeFileSync(PROTECTED_HARDLINKS, '1');
    try {
      watch(path);
      assert.deepEqual(masks(seenDuring(() => asNobody('ln', path, `${path}.by-nobody`))), expected('link'));
    } finally {
      writeFileSync(PROTECTED_HARDLINKS, setting);
    }
  });

  done.add('io_uring-open');
  test('io_uring-open', (t) => {
    if (process.arch !== 'x64') return t.skip('written with the numbers of x86_64');
    const path = newFile();
    watch(path);
    let refused = '';
    const seen = seenDuring(() => {
      refused = perl(uringOpen, path);
    });
    if (refused !== '') return t.skip(`io_uring: ${refused}`);
    assert.deepEqual(masks(seen), expected('io_uring-open'));
  });

  test('the verdict of what is refused and of what is let through', () => {
    const path = newFile(0o600);
    watch(path);
    const seen = seenDuring(() => {
      asNobody('cat', path);
      execFileSync('cat', [path]);
    });
    const verdicts = seen.map((access) => access.verdict);
    assert.deepEqual(verdicts, sensor.mode === 'raw_tracepoint' ? ['allowed'] : ['denied', 'allowed']);
  });

  test('O_RDONLY with O_TRUNC is a write', () => {
    const path = newFile();
    watch(path);
    const seen = seenDuring(() => perl('sysopen(my $h, $ARGV[0], O_RDONLY | O_TRUNC) or die', path));
    assert.deepEqual(masks(seen), [38]);
  });

  test('an O_PATH descriptor touches nothing', () => {
    const path = newFile();
    watch(path);
    const seen = seenDuring(() => perl('sysopen(my $h, $ARGV[0], 010000000) or die', path));
    assert.deepEqual(masks(seen), []);
  });

  test('a 32-bit program', { skip: process.arch !== 'x64' && 'x86_64 only' }, (t) => {
    const path = newFile();
    const program = join(directory, 'open32');
    writeCompatOpener(program, path);
    // A kernel without them refuses with ENOEXEC, upon which execvp(3) has a shell read the file; without the gate, int 0x80 faults.
    if (spawnSync(program).status !== 0) return t.skip('this machine runs no 32-bit programs');
    watch(path);
    const seen = seenDuring(() => execFileSync(program));
    assert.deepEqual(masks(seen), [36]);
  });

  for (const [name, program] of Object.entries(openCalls)) {
    test(`open by ${name}`, { skip: process.arch !== 'x64' && 'numbers of x86_64' }, () => {
      const path = newFile();
      watch(path);
      // A handle is opened without a walk to it, and inode_permission is asked like for any open.
      assert.deepEqual(masks(seenDuring(() => perl(program, path))), [36]);
    });
  }

  test('creat truncates: a write', () => {
    const path = newFile();
    watch(path);
    assert.deepEqual(masks(seenDuring(() => perl('syscall(85, $ARGV[0], 0600) >= 0 or die', path))), [34]);
  });

  for (const call of descriptorCalls) {
    const name = call.mask.includes(2) ? 'open-descriptor-write' : 'open-descriptor-read';
    done.add(name);
    test(
      `${call.name} through a descriptor opened before the watch`,
      { skip: process.arch !== 'x64' },
      async () => {
        const path = newFile();
        await using holder = await Holder.open(path, call.program);
        watch(path);
        sensor.drain();
        collected = [];
        await holder.act();
        await holder.act();
        sensor.drain();
        // The first of each kind by each process; the second time nothing is new.
        assert.deepEqual(masks(collected), sensor.mode === 'raw_tracepoint' ? [...call.mask] : []);
      },
    );
  }

  test('reading through a descriptor opened during the watch is one access: its open', () => {
    const path = newFile();
    watch(path);
    const seen = seenDuring(() =>
      perl(
        'sysopen(my $h, $ARGV[0], O_RDWR) or die; my $b; sysread($h, $b, 4); syswrite($h, "abc"); sysread($h, $b, 4)',
        path,
      ),
    );
    assert.deepEqual(masks(seen), [38]);
  });

  test('every operation that modes.ts describes was tried', () => {
    assert.deepEqual(
      operations.map((one) => one.name).filter((name) => !done.has(name)),
      [],
    );
  });
});

/** Where the file system of a path is mounted. */
function mountOf(path: string): string {
  return execFileSync('stat', ['-c', '%m', path], { encoding: 'utf8' }).trim().replace(/\/$/, '');
}
