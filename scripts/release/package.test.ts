// The packages as built. Their use by dpkg, systemd and npm: package.deep.test.ts.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  globSync,
  mkdirSync,
  readFileSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { suite, test } from 'node:test';

import { guards } from '../../apps/guards.ts';
import { deepTest } from '../../lib/testing/depth.fixture.ts';
import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';
import { writePackages } from './package.ts';
import { writeDeb, writeTarball } from './archives.ts';
import { settle } from './stage.ts';

const debian = join(import.meta.dirname, '../../deploy/debian');
const read = (name: string): string => readFileSync(join(debian, name), 'utf8');
const has = (program: string): boolean =>
  spawnSync(program, ['--version'], { stdio: 'ignore' }).error === undefined;

function withUmask(mask: number): Disposable {
  const before = process.umask(mask);
  return { [Symbol.dispose]: () => void process.umask(before) };
}

suite('the Debian package', () => {
  test('scripts are valid, and fail where a command fails', () => {
    for (const name of ['postinst', 'prerm', 'postrm', 'install.sh']) {
      assert.equal(spawnSync('sh', ['-n', join(debian, name)]).status, 0, name);
      assert.match(read(name), /^#!\/bin\/sh\n[^]*^set -eu?$/m);
    }
  });

  for (const name of ['prerm', 'install.sh']) {
    test(`removal by ${name} cleans up after all guards, with the other options of the service`, () => {
      const script = read(name);
      const named = /--guards (\w\S+)/.exec(script)?.[1]?.split(',');
      assert.deepEqual(
        named,
        guards.map((guard) => guard.name),
      );
      const reading = /options="\$\((.*)\)"$/m.exec(script)?.[1] ?? '';
      using directory = new TemporaryDirectory();
      const conf = directory.at('rampart.conf');
      for (const [text, options] of [
        [read('rampart.conf'), ''],
        ['RAMPART_OPTIONS=--bpffs /a --guards file-access\n', '--bpffs /a --guards file-access'],
        [
          'RAMPART_OPTIONS="--bpffs /a"\n# RAMPART_OPTIONS="--no"\nRAMPART_OPTIONS=\'--bpffs /b\'',
          '--bpffs /b',
        ],
        ['OTHER=1\n', ''],
      ] as const) {
        writeFileSync(conf, text);
        const run = spawnSync('sh', ['-euc', reading.replace('/etc/rampart/rampart.conf', conf)], {
          encoding: 'utf8',
        });
        assert.deepEqual([run.status, run.stderr, run.stdout.trim()], [0, '', options]);
      }
    });
  }

  test('the service has the capabilities that the guards name, and two more', () => {
    const allowed = /^CapabilityBoundingSet=(.*)$/m.exec(read('rampart.service'))?.[1]?.split(' ');
    const wanted = guards.flatMap(({ pod }) => pod?.capabilities ?? []).map(({ name }) => `CAP_${name}`);
    assert.deepEqual(allowed, [...new Set([...wanted, 'CAP_NET_RAW', 'CAP_SYS_RESOURCE'])].toSorted());
  });

  const noSystemd = !has('systemd-analyze') && 'systemd is not installed';
  test('systemd takes the unit, and finds it restricted', { skip: noSystemd }, () => {
    using directory = new TemporaryDirectory();
    const path = directory.at('rampart.service');
    writeFileSync(path, read('rampart.service').replace('/usr/bin/rampart', process.execPath));
    const env = { ...process.env, SYSTEMD_LOG_LEVEL: 'warning' };
    const verified = spawnSync('systemd-analyze', ['verify', '--recursive-errors=no', path], {
      encoding: 'utf8',
      env,
    });
    assert.deepEqual([verified.status, verified.stderr], [0, '']);
    // In tenths; docs/install.md says the figure.
    const rated = spawnSync(
      'systemd-analyze',
      ['security', '--offline=yes', '--threshold=54', '--no-pager', path],
      { encoding: 'utf8', env },
    );
    assert.equal(rated.status, 0, rated.stdout.slice(-200) + rated.stderr);
  });

  test(
    'logrotate takes its configuration',
    { skip: !has('logrotate') && 'logrotate is not installed' },
    () => {
      using directory = new TemporaryDirectory();
      const path = directory.at('rampart');
      copyFileSync(join(debian, 'logrotate'), path);
      chmodSync(path, 0o644);
      const { stderr } = spawnSync('logrotate', ['--debug', '--state', directory.at('state'), path], {
        encoding: 'utf8',
      });
      assert.doesNotMatch(stderr, /error/);
      assert.match(stderr, /rotating pattern: \/var\/log\/rampart\/findings\.jsonl\s+weekly \(8 rotations\)/);
    },
  );

  test('the same files give the same bytes, owned by root, whatever the builder’s clock and umask', () => {
    using directory = new TemporaryDirectory();
    const written = { epoch: 1_700_000_000, level: 0, version: '1.2.3', architecture: 'amd64' };
    const build = (name: string, mode: number, names: readonly string[]) => {
      using _ = withUmask(0o666 & ~mode);
      const root = directory.at(name, 'rampart-1.2.3');
      for (const path of names) {
        mkdirSync(dirname(join(root, path)), { recursive: true });
        writeFileSync(join(root, path), path, { mode });
        utimesSync(join(root, path), mode, mode);
      }
      settle(root, written.epoch);
      const [deb, tarball] = [directory.at(`${name}.deb`), directory.at(`${name}.tar.gz`)];
      writeTarball(root, tarball, written);
      writeDeb(root, deb, debian, written);
      return { deb, tarball };
    };
    const names = ['usr/lib/rampart/bin/rampart', 'etc/rampart/rampart.conf', 'etc/logrotate.d/rampart'];
    const [one, other] = [build('a', 0o600, names), build('b', 0o664, names.toReversed())];
    for (const kind of ['deb', 'tarball'] as const)
      assert.ok(readFileSync(one[kind]).equals(readFileSync(other[kind])), kind);
    const contents = execFileSync('dpkg-deb', ['--contents', one.deb], { encoding: 'utf8' });
    assert.match(
      contents,
      /^-rwxr-xr-x root\/root +\d+ 2023-11-14 \S+ \.\/usr\/lib\/rampart\/bin\/rampart$/m,
    );
    assert.match(contents, /^-rw-r--r-- root\/root +\d+ 2023-11-14 \S+ \.\/etc\/rampart\/rampart\.conf$/m);
    const field = (name: string): string =>
      execFileSync('dpkg-deb', ['--field', one.deb, name], { encoding: 'utf8' }).trim();
    assert.deepEqual(['Package', 'Version', 'Architecture', 'Depends'].map(field), [
      'rampart',
      '1.2.3',
      'amd64',
      'libc6 (>= 2.36), libstdc++6, libbpf1, libnftables1',
    ]);
    const control = directory.at('control');
    execFileSync('dpkg-deb', ['--control', one.deb, control]);
    assert.equal(
      readFileSync(join(control, 'conffiles'), 'utf8'),
      '/etc/rampart/rampart.conf\n/etc/logrotate.d/rampart\n',
    );
    assert.equal(readFileSync(join(control, 'md5sums'), 'utf8').trim().split('\n').length, names.length);
  });

  deepTest(
    'two builds of the same sources have the same bytes, run where they were unpacked, and have nothing else',
    () => {
      using directory = new TemporaryDirectory();
      const [first, second] = ['a', 'b'].map((name) => writePackages(directory.at(name), { level: 0 }));
      assert.ok(first && second);
      for (const kind of ['deb', 'tarball', 'npm'] as const)
        assert.ok(readFileSync(first[kind]).equals(readFileSync(second[kind])), kind);
      const root = directory.at('root');
      execFileSync('dpkg-deb', ['-x', first.deb, root]);
      const version = execFileSync(join(root, 'usr/bin/rampart'), ['--version'], { encoding: 'utf8' });
      assert.equal(execFileSync('dpkg-deb', ['-f', first.deb, 'Version'], { encoding: 'utf8' }), version);
      const unwanted = ['**/*.{h,hh,c,cc}', '**/*.d.ts', '**/*.map', '**/*.test.js', '**/*.fixture.js'];
      // But the source of the example, which is there to be read.
      assert.deepEqual(globSync(unwanted, { cwd: root }), ['usr/share/doc/rampart/examples/count.bpf.c']);
    },
  );
});
