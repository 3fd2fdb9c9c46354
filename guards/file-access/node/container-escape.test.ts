// A container that plants whatever it can to lead the agent to the host's files: it never does.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { suite, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';

import { scaled } from '../../../lib/testing/depth.fixture.ts';
import { FollowedFiles, inodeOf } from './container-files.fixture.ts';

const needsRoot = process.geteuid?.() !== 0 && 'needs root';

/** All files below a directory, with their size and mode: what changes when anything reaches them. */
function picture(directory: string): string[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .map((entry) => `${entry.parentPath}/${entry.name}`)
    .map((path) => {
      const { ino, size, mode, mtimeMs } = statSync(path);
      return `${path} ${ino} ${size} ${mode} ${mtimeMs}`;
    })
    .sort();
}

interface Planted {
  /** Plants it; `root` is the container's, `outside` the host's directory with `secret` in it. */
  readonly plant: (root: string, outside: string) => void;
  readonly path: string;
}

const to = (target: (outside: string) => string, name: string) => (root: string, outside: string) =>
  symlinkSync(target(outside), `${root}/${name}`);

const planted: Readonly<Record<string, Planted>> = {
  'an absolute link to the file': { plant: to((o) => `${o}/secret`, 'x'), path: '/x' },
  'an absolute link to a file that is not there': { plant: to((o) => `${o}/new`, 'x'), path: '/x' },
  'a relative link to the file': { plant: to(() => '../outside/secret', 'x'), path: '/x' },
  'a relative link to a file that is not there': { plant: to(() => '../outside/new', 'x'), path: '/x' },
  'a link with more .. than there are directories': {
    plant: to((o) => `${'../../'.repeat(40)}${o.slice(1)}/secret`, 'x'),
    path: '/x',
  },
  'an absolute link as parent': { plant: to((o) => o, 'd'), path: '/d/secret' },
  'an absolute link as parent of a new file': { plant: to((o) => o, 'd'), path: '/d/new' },
  'a relative link as parent': { plant: to(() => '../outside', 'd'), path: '/d/secret' },
  'a relative link as parent of a new file': { plant: to(() => '../outside', 'd'), path: '/d/new' },
  'a link to the root of the host as parent': { plant: to(() => '/..', 'd'), path: '/d/outside/new' },
  'a chain of links': {
    plant: (root, outside) => {
      symlinkSync(outside, `${root}/a`);
      symlinkSync('a', `${root}/b`);
      symlinkSync('/b/secret', `${root}/x`);
    },
    path: '/x',
  },
  'a link through a directory and back': {
    plant: (root) => {
      mkdirSync(`${root}/a/b`, { recursive: true });
      symlinkSync('a/b/../../../outside/new', `${root}/x`);
    },
    path: '/x',
  },
  '.. in the path itself': { plant: () => undefined, path: '/../outside/new' },
  '.. behind a link in the path': { plant: to(() => '/', 'd'), path: '/d/../../outside/new' },
  'a magic link to the root of the process': { plant: to(() => '/proc/self/root', 'd'), path: '/d/new' },
  'a magic link to the root of process 1': { plant: to(() => '/proc/1/root', 'd'), path: '/d/new' },
  'a magic link to the working directory': { plant: to(() => '/proc/self/cwd', 'd'), path: '/d/new' },
  'a magic link to a descriptor': { plant: to(() => '/proc/self/fd/0', 'x'), path: '/x' },
  'the descriptors of a thread': { plant: to(() => '/proc/thread-self/fd', 'd'), path: '/d/0' },
  'a link to itself as parent': { plant: to(() => 'd', 'd'), path: '/d/new' },
  'an empty name in a link': { plant: to((o) => `//${o}//new`, 'x'), path: '/x' },
};

suite('nothing outside of the root is found or made', () => {
  for (const [name, { plant, path }] of Object.entries(planted)) {
    for (const create of [false, true]) {
      test(`${name}${create ? ', with create' : ''}`, async () => {
        using followed = new FollowedFiles();
        const [root, outside] = [followed.at('root'), followed.at('outside')];
        writeFileSync(`${outside}/secret`, 'of the host');
        plant(root, outside);
        const before = picture(outside);
        const file = followed.add(path, { create });
        for (let i = 0; i < 3; i++) await turn();
        // Not readdirSync, which follows links to directories.
        const inside = spawnSync('find', [root, '-type', 'f'], { encoding: 'utf8' })
          .stdout.trim()
          .split('\n');
        if (file.state.kind === 'watched') {
          const { inode } = file.state.identity;
          assert.ok(
            [...inside].some((one) => existsSync(one) && statSync(one, { bigint: true }).ino === inode),
          );
          assert.notEqual(inode, statSync(`${outside}/secret`, { bigint: true }).ino);
        }
        assert.deepEqual(picture(outside), before);
        assert.deepEqual(readdirSync(followed.path).sort(), ['outside', 'root']);
      });
    }
  }

  test('a container with procfs: its magic links lead nowhere', { skip: needsRoot }, async () => {
    using followed = new FollowedFiles();
    writeFileSync(followed.at('outside', 'secret'), '');
    mkdirSync(followed.at('root', 'proc'));
    assert.equal(spawnSync('mount', ['-t', 'proc', 'proc', followed.at('root', 'proc')]).status, 0);
    try {
      const links = [
        'self/root',
        '1/root',
        `${process.pid}/root`,
        `${process.pid}/cwd`,
        'self/fd/0',
        'thread-self/root',
      ];
      for (const link of links) {
        const below = `/proc/${link}${followed.at('outside')}`;
        for (const path of [`${below}/secret`, `${below}/new`, `/proc/${link}`]) {
          using file = followed.add(path, { create: true });
          assert.notEqual(file.state.kind, 'watched', path);
        }
      }
      await turn();
      assert.deepEqual(readdirSync(followed.at('outside')), ['secret']);
    } finally {
      spawnSync('umount', ['--lazy', followed.at('root', 'proc')]);
    }
  });

  test('a directory that is exchanged for a link again and again while files are created', async () => {
    using followed = new FollowedFiles();
    const [root, outside] = [followed.at('root'), followed.at('outside')];
    mkdirSync(`${root}/real`);
    // renameat2(RENAME_EXCHANGE) is not at hand; two renames leave a moment without either, which is one more race.
    const script = `
      const fs = require('node:fs');
      const [root, outside] = process.argv.slice(1);
      process.stdout.write('x');
      for (;;) {
        try {
          fs.symlinkSync(outside, root + '/link');
          fs.renameSync(root + '/real', root + '/away');
          fs.renameSync(root + '/link', root + '/real');
          fs.rmSync(root + '/real');
          fs.renameSync(root + '/away', root + '/real');
        } catch {}
      }`;
    const racer = spawn(process.execPath, ['-e', script, root, outside], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const ended = new Promise((resolve) => racer.once('exit', resolve));
    await new Promise((resolve) => racer.stdout.once('data', resolve));
    for (let attempts = 0; attempts < scaled(1500, 150); attempts++) {
      using _file = followed.add(`/real/new-${attempts}`, { create: true });
      await turn();
    }
    racer.kill('SIGKILL');
    await ended;
    assert.deepEqual(readdirSync(outside), []);
  });

  test('a bind mount and a hard link are the container’s own view, and followed', { skip: needsRoot }, () => {
    using followed = new FollowedFiles();
    writeFileSync(followed.at('outside', 'shared'), '');
    mkdirSync(followed.at('root', 'volume'));
    linkSync(followed.at('outside', 'shared'), followed.at('root', 'hard'));
    const shared = statSync(followed.at('outside', 'shared'), { bigint: true }).ino;
    assert.equal(
      spawnSync('mount', ['--bind', followed.at('outside'), followed.at('root', 'volume')]).status,
      0,
    );
    try {
      assert.equal(inodeOf(followed.add('/volume/shared')), shared);
      assert.equal(inodeOf(followed.add('/hard')), shared);
      // `..` at a mount leads to the parent in the container, never beside what is mounted.
      assert.equal(followed.add('/volume/../shared').state.kind, 'waiting');
    } finally {
      spawnSync('umount', ['--lazy', followed.at('root', 'volume')]);
    }
  });
});

suite('does not create files that loaders, shells and logins use, by any link', () => {
  function refused(followed: FollowedFiles, path: string): void {
    const { state } = followed.add(path, { create: true, modeBits: 0o666 });
    assert.equal(state.kind, 'waiting', path);
    assert.match('why' in state ? state.why : '', /it was not created because \S+ is used by/, path);
  }
  const fileNames = (at: string): string[] => readdirSync(at, { recursive: true, encoding: 'utf8' });

  for (const [what, plant, path] of [
    ['the path itself', () => undefined, '/etc/ld.so.preload'],
    ['a link to /etc', (root) => symlinkSync('/etc', `${root}/x`), '/x/ld.so.preload'],
    ['a relative link', (root) => symlinkSync('../../../etc', `${root}/srv/x`), '/srv/x/ld.so.preload'],
    [
      'a chain of links',
      (root) => {
        symlinkSync('/srv/../etc', `${root}/y`);
        symlinkSync('y', `${root}/x`);
      },
      '/x/profile',
    ],
    ['a link from the protected directory', (root) => symlinkSync('/srv', `${root}/etc/cron.d`), '/srv/job'],
    [
      'below a link from the protected directory',
      (root) => {
        mkdirSync(`${root}/srv/python3`);
        symlinkSync('srv', `${root}/lib`);
      },
      '/srv/python3/x.py',
    ],
    ['.. behind a link', (root) => symlinkSync('/srv', `${root}/x`), '/x/../etc/passwd'],
    ['a name in another case', (root) => mkdirSync(`${root}/ETC`), '/ETC/LD.SO.PRELOAD'],
  ] as const satisfies (readonly [string, (root: string) => void, string])[]) {
    test(what, () => {
      using followed = new FollowedFiles();
      const root = followed.at('root');
      mkdirSync(`${root}/etc`);
      mkdirSync(`${root}/srv`);
      plant(root);
      const before = fileNames(root);
      refused(followed, path);
      assert.deepEqual(fileNames(root), before);
    });
  }

  test('a volume that is mounted there, and somewhere else', { skip: needsRoot }, () => {
    using followed = new FollowedFiles();
    const [volume, etc] = [followed.at('outside'), followed.at('root', 'etc', 'profile.d')];
    const other = followed.at('root', 'data');
    for (const directory of [etc, other, `${volume}/deep`]) mkdirSync(directory, { recursive: true });
    try {
      for (const at of [etc, other]) assert.equal(spawnSync('mount', ['--bind', volume, at]).status, 0);
      refused(followed, '/data/x.sh');
      refused(followed, '/data/deep/x.sh');
      assert.deepEqual(fileNames(volume), ['deep']);
    } finally {
      for (const at of [other, etc]) spawnSync('umount', ['--lazy', at]);
    }
  });

  test('a file that is there is watched, and one elsewhere is created', async () => {
    using followed = new FollowedFiles();
    mkdirSync(followed.at('root', 'etc'));
    writeFileSync(followed.at('root', 'etc', 'passwd'), 'root');
    assert.equal(followed.add('/etc/passwd', { create: true }).state.kind, 'watched');
    const decoy = followed.add('/etc/secret', { create: true });
    await followed.until(() => decoy.state.kind === 'watched');
  });

  test('a link that leads elsewhere later: the file is created there', async () => {
    using followed = new FollowedFiles();
    for (const name of ['etc', 'data']) mkdirSync(followed.at('root', name));
    symlinkSync('/etc', followed.at('root', 'x'));
    const file = followed.add('/x/profile', { create: true });
    assert.equal(file.state.kind, 'waiting');
    symlinkSync('/data', followed.at('root', 'y'));
    renameSync(followed.at('root', 'y'), followed.at('root', 'x'));
    await followed.until(() => file.state.kind === 'watched');
    assert.deepEqual(
      fileNames(followed.at('root')).filter((name) => name.endsWith('profile')),
      ['data/profile'],
    );
  });
});

const isStatic = spawnSync('ldd', ['/bin/busybox']).status !== 0 && existsSync('/bin/busybox');

suite('a process as root', { skip: needsRoot || (!isStatic && 'needs a static busybox') }, () => {
  const shell = ['/bin/busybox', 'sh', '-c', 'echo; read x'];
  const isRoot = (root: string): string[] => ['chroot', root, ...shell];
  /** As a runtime does it: `root` becomes the root of a mount namespace. */
  const isMountedAtRoot = (root: string): string[] => {
    const enter =
      'mount --bind "$0" "$0" && cd "$0" && mkdir -p old && pivot_root . old && exec /bin/busybox sh -c "/bin/busybox umount -l /old; echo; read x"';
    return ['sh', '-c', enter, root];
  };

  /** A process whose root is `root`, as a container's. */
  function start(root: string, command: (root: string) => string[] = isRoot) {
    mkdirSync(`${root}/bin`, { recursive: true });
    if (!existsSync(`${root}/bin/busybox`)) cpSync('/bin/busybox', `${root}/bin/busybox`);
    const child = spawn('unshare', ['--mount', ...command(root)], { stdio: ['pipe', 'pipe', 'inherit'] });
    const ended = new Promise((resolve) => child.once('exit', resolve));
    return {
      root: `/proc/${child.pid}/root`,
      ready: new Promise((resolve) => child.stdout.once('data', resolve)),
      [Symbol.asyncDispose]: async (): Promise<void> => {
        child.stdin.end();
        await ended;
      },
    };
  }

  test("absolute links start at the container's root", async () => {
    using followed = new FollowedFiles();
    const process1 = start(followed.at('root'));
    await process1.ready;
    symlinkSync('/bin/busybox', followed.at('root', 'x'));
    const file = followed.add('/x', { root: process1.root });
    mkdirSync(followed.at('root', 'data'));
    const created = followed.add('/data/new', { root: process1.root, create: true });
    assert.equal(inodeOf(file), statSync(followed.at('root', 'bin', 'busybox'), { bigint: true }).ino);
    await followed.until(() => created.state.kind === 'watched');
    assert.ok(existsSync(followed.at('root', 'data', 'new')));
    assert.ok(!existsSync('/data/new'));
    await process1[Symbol.asyncDispose]();
    await followed.until(() => file.state.kind === 'refused' && created.state.kind === 'refused');
    assert.equal(followed.add('/data/new', { root: process1.root }).state.kind, 'refused');
  });

  for (const [how, command] of Object.entries({ chroot: isRoot, pivot_root: isMountedAtRoot })) {
    test(`nothing is created where its loader and shells look, by its own view of its root: ${how}`, async () => {
      using followed = new FollowedFiles();
      const root = followed.at('root');
      for (const name of ['etc', 'data']) mkdirSync(`${root}/${name}`);
      symlinkSync('/etc', `${root}/x`);
      await using process1 = start(root, command);
      await process1.ready;
      for (const path of ['/x/ld.so.preload', '/etc/profile']) {
        const { state } = followed.add(path, { root: process1.root, create: true, modeBits: 0o666 });
        assert.match('why' in state ? state.why : '', /it was not created because \/etc\/\S+ is used by/);
      }
      const decoy = followed.add('/data/profile', { root: process1.root, create: true });
      await followed.until(() => decoy.state.kind === 'watched');
      assert.deepEqual(readdirSync(`${root}/etc`), []);
      assert.deepEqual(readdirSync(`${root}/data`), ['profile']);
    });
  }

  test('a process that is not of the container is refused, and nothing is created in its root', async () => {
    using followed = new FollowedFiles();
    await using process1 = start(followed.at('root'));
    await process1.ready;
    const { state } = followed.add('/new', {
      root: process1.root,
      containerId: `containerd://${'a'.repeat(64)}`,
      create: true,
    });
    assert.equal(state.kind, 'refused');
    assert.match('why' in state ? state.why : '', /is not in container aaaa/);
    assert.ok(!existsSync(followed.at('root', 'new')));
  });

  test('a root that another container has now is taken over', async () => {
    using followed = new FollowedFiles();
    await using process1 = start(followed.at('root'));
    await process1.ready;
    const old = followed.add('/bin/busybox', { root: process1.root });
    assert.equal(old.state.kind, 'watched');
    const other = followed.add('/bin/busybox', { root: process1.root, containerId: 'x' });
    assert.equal(old.state.kind, 'refused');
    assert.equal(other.state.kind, 'refused');
    assert.equal(followed.files.stats.paths, 0);
  });

  test('its directory may be gone while it runs', async () => {
    using followed = new FollowedFiles();
    await using process1 = start(followed.at('root'));
    await process1.ready;
    const file = followed.add('/secret', { root: process1.root, create: true });
    await followed.until(() => file.state.kind === 'watched');
    renameSync(followed.at('root'), followed.at('moved'));
    rmSync(followed.at('moved', 'secret'));
    await followed.until(() => file.state.kind === 'waiting');
  });
});
