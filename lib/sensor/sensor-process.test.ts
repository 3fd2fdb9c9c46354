// An access's facts about its process. Every process here has ended by the time its access is read.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { after, suite, test } from 'node:test';

import type { Access, FileIdentity } from './access.ts';
import { Mounted, run, tmpfs } from './file-systems.fixture.ts';
import { TemporaryDirectory } from '../testing/temporary-directory.fixture.ts';
import { openTestSensor, sensorSkip, type TestSensor } from './sensor.fixture.ts';

/** One for all tests: opening costs more than everything else here. */
let shared: TestSensor | undefined;
after(() => shared?.[Symbol.dispose]());

/** The sensor's identity of a file. */
function identify(path: string): FileIdentity {
  return (shared ??= openTestSensor()).identify(path);
}

/** One access: by `act`, to a fresh file that it gets the path of. */
function accessBy(act: (file: string, directory: TemporaryDirectory) => void): Access {
  using directory = new TemporaryDirectory();
  chmodSync(directory.path, 0o755);
  const file = directory.at('file');
  writeFileSync(file, 'content\n');
  const sensor = (shared ??= openTestSensor());
  using _watched = sensor.watchFile(file);
  act(file, directory);
  const accesses = sensor.take();
  assert.equal(accesses.length, 1, JSON.stringify(accesses.map(({ comm, mask }) => ({ comm, mask }))));
  return accesses[0] as Access;
}

const CAT = readlinkSync('/bin') === 'usr/bin' ? '/usr/bin/cat' : '/bin/cat';
const python = '/usr/bin/python3';
const skipPython = sensorSkip || (spawnSync(python, ['-c', '']).status !== 0 && `${python} is not installed`);
/** Whether this process's own numbers are those of the first pid namespace. */
const inFirstPidNamespace = readlinkSync('/proc/self/ns/pid') === 'pid:[4026531836]';
/** proc_cgroups(5): the second column is 0 for controllers of version 2. */
const skipPids = !/^pids\t[1-9]/m.test(readFileSync('/proc/cgroups', 'utf8')) && 'pids are in version 2 here';
const inode = (namespace: string): number => Number(/\[(\d+)\]/.exec(namespace)?.[1]);

suite('the process of an access that is gone when it is read', { skip: sensorSkip }, () => {
  test('executable, arguments, cwd, comm, pid, ppid, namespaces', () => {
    let pid = 0;
    let where = '';
    const access = accessBy((file, directory) => {
      where = directory.path;
      pid = spawnSync('cat', ['-A', '--', file], { cwd: where }).pid;
    });
    assert.equal(access.executable, CAT);
    assert.equal(access.arguments, `-A -- ${where}/file`);
    assert.equal(access.cwd, where);
    assert.equal(access.comm, 'cat');
    assert.equal(access.uid, process.getuid?.());
    assert.equal(access.gid, process.getgid?.());
    assert.equal(access.verdict, 'allowed');
    assert.equal(access.pidNamespace, inode(readlinkSync('/proc/self/ns/pid')));
    assert.equal(access.mountNamespace, inode(readlinkSync('/proc/self/ns/mnt')));
    assert.deepEqual(
      [access.executableTruncated, access.cwdTruncated, access.argumentsTruncated],
      [false, false, false],
    );
    assert.equal(access.tid, access.pid);
    if (inFirstPidNamespace) assert.deepEqual([access.pid, access.ppid], [pid, process.pid]);
  });

  test('the identity of the file', () => {
    let expected = 0n;
    const access = accessBy((file) => {
      expected = statSync(file, { bigint: true }).ino;
      run('cat', [file]);
    });
    assert.equal(access.inode, expected);
  });

  test('the file that it runs: by whichever name, and not another one that is called so', () => {
    using directory = new TemporaryDirectory();
    const [kitten, link, copy] = [directory.at('kitten'), directory.at('link'), directory.at('copy')];
    copyFileSync(CAT, kitten);
    copyFileSync(CAT, copy);
    for (const path of [kitten, copy]) chmodSync(path, 0o755);
    symlinkSync(kitten, link);
    const by = (...command: readonly [string, ...string[]]): Access =>
      accessBy((file) => run(command[0], [...command.slice(1), file]));
    assert.deepEqual(by(kitten).executableFile, identify(kitten));
    assert.deepEqual(by(link).executableFile, identify(kitten));
    const elsewhere = by(
      'unshare',
      '-m',
      'sh',
      '-c',
      `mount --bind ${copy} ${kitten} && exec ${kitten} "$0"`,
    );
    assert.equal(elsewhere.executable, kitten);
    assert.deepEqual(elsewhere.executableFile, identify(copy));
    const replaced = by('sh', '-c', `exec ${kitten} "$0"`);
    assert.deepEqual(replaced.executableFile, identify(kitten));
    renameSync(copy, kitten);
    assert.notDeepEqual(identify(kitten), replaced.executableFile);
  });

  test('its executable on overlay is the file of the overlay, copied up or not', () => {
    using mounts = tmpfs();
    for (const name of ['lower', 'upper', 'work', 'merged', 'other']) mkdirSync(mounts.at(name));
    copyFileSync(CAT, mounts.at('lower/kitten'));
    chmodSync(mounts.at('lower/kitten'), 0o755);
    const layers = `lowerdir=${mounts.at('lower')},upperdir=${mounts.at('upper')},workdir=${mounts.at('work')}`;
    run('mount', ['-t', 'overlay', 'rampart-test', '-o', layers, mounts.at('merged')]);
    try {
      const kitten = mounts.at('merged/kitten');
      const read = (): Access => accessBy((file) => run(kitten, [file]));
      assert.deepEqual(read().executableFile, identify(kitten));
      assert.notDeepEqual(read().executableFile, identify(mounts.at('lower/kitten')));
      chmodSync(kitten, 0o711);
      assert.deepEqual(read().executableFile, identify(kitten));
    } finally {
      run('umount', [mounts.at('merged')]);
    }
  });

  test('wall clock, in nanoseconds', () => {
    let beforeMs = 0;
    let afterMs = 0;
    const access = accessBy((file) => {
      beforeMs = Date.now();
      run('cat', [file]);
      afterMs = Date.now();
    });
    const ms = Number(access.timeNs / 1_000_000n);
    assert.ok(beforeMs - 1 <= ms && ms <= afterMs + 1, `${beforeMs} ${ms} ${afterMs}`);
    assert.notEqual(access.timeNs % 1_000_000n, 0n);
  });

  test('another user', () => {
    const access = accessBy((file) => spawnSync('cat', [file], { uid: 12_345, gid: 54_321 }));
    assert.deepEqual([access.uid, access.gid], [12_345, 54_321]);
  });

  test('a thread that is not the leader: its own tid, the pid of its process', { skip: skipPython }, () => {
    let said: readonly number[] = [];
    const script = `
import os, sys, threading
def touch():
    open(sys.argv[1]).close()
    print(os.getpid(), threading.get_native_id())
t = threading.Thread(target=touch); t.start(); t.join()`;
    const access = accessBy((file) => {
      said = run(python, ['-c', script, file]).trim().split(' ').map(Number);
    });
    assert.notEqual(access.tid, access.pid);
    if (inFirstPidNamespace) assert.deepEqual([access.pid, access.tid], said);
  });

  test('its pid and mount namespaces, and numbers of the first one', () => {
    let said: readonly string[] = [];
    const access = accessBy((file) => {
      const script = 'readlink /proc/self/ns/pid /proc/self/ns/mnt; echo $$; exec cat "$0"';
      said = run('unshare', ['--pid', '--fork', '--mount-proc', 'sh', '-c', script, file]).split('\n');
    });
    const [pidNamespace = '', mountNamespace = '', pidInside] = said;
    assert.equal(access.pidNamespace, inode(pidNamespace));
    assert.equal(access.mountNamespace, inode(mountNamespace));
    assert.notEqual(access.pidNamespace, inode(readlinkSync('/proc/self/ns/pid')));
    assert.equal(pidInside, '1');
    assert.ok(access.pid > 1, `pid ${access.pid}`);
  });

  test('its cgroup, as the inode number of the cgroup directory', () => {
    using cgroups = new Mounted('-t', 'cgroup2', 'rampart-test');
    const cgroup = cgroups.at(`rampart-test-${process.pid}`);
    mkdirSync(cgroup);
    try {
      const access = accessBy((file) => {
        run('sh', ['-c', 'echo $$ > "$0"/cgroup.procs && exec cat "$1"', cgroup, file]);
      });
      assert.equal(access.cgroupId, statSync(cgroup, { bigint: true }).ino);
    } finally {
      run('rmdir', [cgroup]);
    }
  });

  suite('the path of its cgroup, which is gone by then', () => {
    const inNew = (cgroups: Mounted, ...names: readonly string[]): string => {
      const [top = ''] = names;
      const leaf = cgroups.at(names.join('/'));
      mkdirSync(leaf, { recursive: true });
      try {
        return accessBy((file) => {
          run('sh', ['-c', 'echo $$ > "$0"/cgroup.procs && exec cat "$1"', leaf, file]);
          run('find', [cgroups.at(top), '-depth', '-type', 'd', '-delete']);
        }).cgroup;
      } finally {
        spawnSync('find', [cgroups.at(top), '-depth', '-type', 'd', '-delete']);
      }
    };
    const ours = `rampart-test-${process.pid}.slice`;

    test('version 2', () => {
      using cgroups = new Mounted('-t', 'cgroup2', 'rampart-test');
      assert.equal(inNew(cgroups, ours, 'x.service', 'main'), `/${ours}/x.service/main`);
    });

    // A runtime need not make one in version 2 where the controllers are in version 1.
    test('version 1, where processes are limited there', { skip: skipPids }, () => {
      using cgroups = new Mounted('-t', 'cgroup', '-o', 'pids', 'rampart-test');
      assert.equal(inNew(cgroups, ours, 'x.service'), `/${ours}/x.service`);
    });

    test('none, rather than one without its beginning', () => {
      using cgroups = new Mounted('-t', 'cgroup2', 'rampart-test');
      const deep = Array.from({ length: 20 }, (_, at) => `c${at}`);
      assert.equal(inNew(cgroups, ours, ...deep), '');
    });
  });
});

suite('paths of a process', { skip: sensorSkip }, () => {
  test('lead through mounts', () => {
    using outer = tmpfs();
    mkdirSync(outer.at('a/inner'), { recursive: true });
    run('mount', ['-t', 'tmpfs', 'rampart-test', outer.at('a/inner')]);
    mkdirSync(outer.at('a/inner/bin'));
    copyFileSync(CAT, outer.at('a/inner/bin/kitten'));
    chmodSync(outer.at('a/inner/bin/kitten'), 0o755);
    const access = accessBy((file) =>
      run(outer.at('a/inner/bin/kitten'), [file], { cwd: outer.at('a/inner/bin') }),
    );
    assert.equal(access.executable, outer.at('a/inner/bin/kitten'));
    assert.equal(access.cwd, outer.at('a/inner/bin'));
    assert.equal(access.comm, 'kitten');
  });

  test('are as the process sees them in its own root', (t) => {
    const busybox = '/bin/busybox';
    const description = spawnSync('file', ['-L', busybox], { encoding: 'utf8' });
    if (description.status !== 0 || !description.stdout.includes('statically')) {
      t.skip('busybox-static or file is not installed');
      return;
    }
    const access = accessBy((file, directory) => {
      copyFileSync(busybox, directory.at('busybox'));
      mkdirSync(directory.at('in'));
      const script = 'cd /in && exec /busybox cat /file';
      run('chroot', [directory.path, '/busybox', 'sh', '-c', script]);
      assert.ok(file);
    });
    assert.deepEqual([access.executable, access.cwd, access.arguments], ['/busybox', '/in', 'cat /file']);
  });

  for (const [what, names, keptAtLeast] of [
    ['more than 64 components', Array.from({ length: 90 }, (_, index) => `d${index}`), 60],
    ['more than 1,024 bytes', Array.from({ length: 7 }, (_, index) => String(index).repeat(255)), 4],
  ] as const) {
    test(`with ${what} are cut at the beginning, and marked`, () => {
      let cwd = '';
      let exe = '';
      const access = accessBy((file, directory) => {
        // Step by step: as one path it may be longer than the kernel takes.
        cwd = directory.at(...names);
        mkdirSync(cwd, { recursive: true });
        exe = `${cwd}/cat`;
        copyFileSync(CAT, exe);
        run(exe, [file], { cwd });
      });
      for (const [path, whole, truncated] of [
        [access.cwd, cwd, access.cwdTruncated],
        [access.executable, exe, access.executableTruncated],
      ] as const) {
        assert.ok(truncated);
        assert.ok(whole.endsWith(path) && path.length < whole.length, path);
        assert.ok(path.split('/').length > keptAtLeast, path);
      }
    });
  }

  test('that just fit are whole: a name of 255 bytes', () => {
    const name = 'n'.repeat(255);
    let cwd = '';
    const access = accessBy((file, directory) => {
      cwd = directory.at(name);
      mkdirSync(cwd);
      run('cat', [file], { cwd });
    });
    assert.equal(access.cwd, cwd);
    assert.equal(access.cwdTruncated, false);
  });

  test('the path of an executable that was deleted while it ran', () => {
    let shell = '';
    const access = accessBy((file, directory) => {
      shell = directory.at('shell');
      copyFileSync('/bin/dash', shell);
      run(shell, ['-c', 'rm "$0" && read line < "$1"', shell, file]);
    });
    assert.equal(access.executable, `${shell} (deleted)`);
  });

  test('the path of an executable that never had a name', { skip: skipPython }, () => {
    const script = `
import os, sys
fd = os.memfd_create('rampart-test')
os.write(fd, open('/bin/cat', 'rb').read())
os.execve(f'/proc/self/fd/{fd}', ['kitten', sys.argv[1]], {})`;
    const access = accessBy((file) => run(python, ['-c', script, file]));
    assert.equal(access.executable, '/memfd:rampart-test (deleted)');
    assert.match(access.arguments, /^\S+\/file$/);
  });
});

suite('arguments', { skip: sensorSkip }, () => {
  const LIMIT = 1024;

  /** cat with arguments that fill argv up to `sizeBytes`, the end of the last string included. */
  function withArguments(sizeBytes: number): { readonly access: Access; readonly argv: string } {
    let argv = '';
    const access = accessBy((file) => {
      const head = `cat\0${file}\0`;
      const filler = 'y'.repeat(sizeBytes - head.length - 1);
      argv = `${head}${filler}\0`;
      spawnSync('cat', [file, filler]); // there is no such file; the first was read
    });
    assert.equal(argv.length, sizeBytes);
    return { access, argv };
  }
  const shown = (argv: string): string => argv.split('\0').slice(1).join(' ');

  test('that just fit are whole', () => {
    const { access, argv } = withArguments(LIMIT);
    assert.equal(access.arguments, shown(argv.slice(0, -1)));
    assert.equal(access.argumentsTruncated, false);
  });

  for (const sizeBytes of [LIMIT + 1, 100_000]) {
    test(`arguments of ${sizeBytes} bytes are cut and marked`, () => {
      const { access, argv } = withArguments(sizeBytes);
      assert.equal(access.arguments, shown(argv.slice(0, LIMIT)));
      assert.equal(access.argumentsTruncated, true);
    });
  }

  test('arguments with every possible byte', { skip: skipPython }, () => {
    const script = `import os, sys; os.execv('/bin/cat', [b'cat', os.fsencode(sys.argv[1]), bytes(range(1, 256)), b'', b'end'])`;
    const access = accessBy((file) => spawnSync(python, ['-c', script, file]));
    const middle = Buffer.from(Array.from({ length: 255 }, (_, index) => index + 1)).toString('utf8');
    assert.ok(access.arguments.endsWith(`/file ${middle}  end`), access.arguments);
  });
});

test('the executable of cat has its real path', { skip: sensorSkip }, () => {
  // The expectations of CAT in the suites above, from the kernel itself.
  const exe = run('sh', ['-c', 'exec readlink /proc/self/exe']);
  assert.equal(exe.trim().replace(/readlink$/, 'cat'), CAT);
  assert.ok(readFileSync(CAT).length > 0);
});
