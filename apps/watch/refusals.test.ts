// Bad input: one clear line on stderr, exit code 2, and nothing changed.
import assert from 'node:assert/strict';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { once } from 'node:events';
import { after, suite, test } from 'node:test';

import { run } from '../../lib/sensor/file-systems.fixture.ts';
import { asNobody, publicPath } from '../../lib/testing/public-checkout.fixture.ts';
import type { Ended } from '../../lib/testing/running.fixture.ts';
import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';
import { sensorSkip } from '../../lib/sensor/sensor.fixture.ts';
import { Commands } from '../commands.fixture.ts';
import { rampart, refused, Watching } from './watch.fixture.ts';
import { deepTest } from '../../lib/testing/depth.fixture.ts';

/** One line that says what and, behind it, what to do; nothing on stdout. */
function isRefusal(ended: Ended, pattern: RegExp): void {
  assert.deepEqual(
    { code: ended.code, signal: ended.signal, stdout: ended.stdout },
    { code: 2, signal: null, stdout: '' },
    ended.stderr,
  );
  assert.match(ended.stderr, /^rampart: [^\n]+\n$/);
  assert.match(ended.stderr, pattern);
}

/** A directory with a watched file, something of every bad kind, and a path that `--create` could make. */
class Files extends TemporaryDirectory {
  readonly file: string = this.at('file');
  readonly absent: string = this.at('absent');

  constructor() {
    super();
    writeFileSync(this.file, 'content\n');
    mkdirSync(this.at('directory'));
    symlinkSync('loop', this.at('loop'));
  }

  list(): string[] {
    return readdirSync(this.path).toSorted((a, b) => a.localeCompare(b));
  }
}

suite('rampart watch refuses, and changes nothing:', { skip: sensorSkip }, () => {
  const commands = new Commands();
  after(() => commands[Symbol.asyncDispose]());

  for (const [what, args, pattern] of [
    ['no path', [], /missing required argument 'path'.*--help/],
    [
      'a directory',
      ['DIR/directory'],
      /cannot watch \S+\/directory: it is a directory\. Write '\S+\/directory\/\*'/,
    ],
    ['the files of a file', ['DIR/file/*'], /cannot watch \S+\/file\/\*: \S+\/file is not a directory/],
    ['another pattern', ['DIR/*.txt'], /cannot watch \S+\.txt: a \* stands for files only at the end/],
    [
      'creation of all files',
      ['--create', 'DIR/directory/**'],
      /cannot create \S+\*\*: the path is for all files/,
    ],
    ['a path through a file', ['DIR/file/x'], /cannot watch \S+\/file\/x: .*ENOTDIR/],
    ['a loop of links', ['DIR/loop'], /cannot watch \S+\/loop: .*ELOOP/],
    ['a path that is too long', [`/${'x'.repeat(5000)}`], /ENAMETOOLONG/],
    ['an unknown access', ['--access', 'read,reed', 'DIR/file'], /"reed" is not an access.*read, write/],
    ['no access', ['--access', ',', 'DIR/file'], /no access is named/],
    ['an unknown mode', ['--mode', 'magic', 'DIR/file'], /'magic' is invalid.*fentry, kprobe/],
    ['an unknown format', ['--format', 'xml', 'DIR/file'], /'xml' is invalid.*pretty, json, yaml/],
    ['an unknown option', ['--bogus', 'DIR/file'], /unknown option '--bogus'/],
    ['a mode that is not octal', ['--file-mode', '0888', 'DIR/file'], /0888.*[Oo]ctal/],
    ['a rate that is no number', ['--rate', '-1', 'DIR/file'], /'-1' is invalid.*an integer/],
    ['a capacity of nothing', ['--capacity', '0', 'DIR/file'], /capacity 0: .*from 1 to/],
    [
      'more paths than the capacity',
      ['--capacity', '2', 'DIR/file', 'DIR/a', 'DIR/b'],
      /5 paths: the limit is 2 files/,
    ],
    ['a root that is not there', ['--root', 'DIR/nowhere', '/file'], /\/nowhere as the root: .*ENOENT/],
    ['a root that is a file', ['--root', 'DIR/file', '/file'], /\/file as the root: .*ENOTDIR/],
    ['a bad address', ['--metrics', 'nowhere', 'DIR/file'], /"nowhere" is not an address/],
    [
      'a directory to create in that is not there',
      ['DIR/no/file'],
      /cannot create \S+\/no\/file: its directory .*ENOENT/,
    ],
  ] as const) {
    test(what, async () => {
      using files = new Files();
      const before = files.list();
      // Each with a path that would be created, in front and behind: the bad one must stop that.
      const given = args.map((arg) => arg.replace('DIR', files.path));
      const create = args.length === 0 ? [] : ['--create', files.absent, ...given, `${files.absent}2`];
      isRefusal(await commands.run(['watch', ...create]), pattern);
      assert.deepEqual(files.list(), before);
      assert.equal(readFileSync(files.file, 'utf8'), 'content\n');
    });
  }

  test('an address that is taken', async () => {
    using files = new Files();
    const server = createServer().listen(0, '127.0.0.1');
    try {
      await once(server, 'listening');
      const { port } = server.address() as AddressInfo;
      const ended = refused(['--create', '--metrics', String(port), files.absent]);
      assert.notEqual(ended.code, 0);
      assert.match(ended.stderr, /^rampart: cannot serve metrics on 127.0.0.1:\d+: .*EADDRINUSE.*\n$/);
      assert.ok(!existsSync(files.absent));
    } finally {
      server.close();
    }
  });

  test('a user who is not root', () => {
    using files = new Files();
    chmodSync(files.path, 0o755);
    const byNobody = refused(['--create', files.file, files.absent], asNobody, publicPath(rampart));
    isRefusal(byNobody, /requires root.*sudo/);
    assert.deepEqual(files.list().includes('absent'), false);
  });

  test('a kernel without BTF', () => {
    using files = new Files();
    using empty = new TemporaryDirectory();
    const script = 'mount --bind "$0" /sys/kernel/btf && exec "$@"';
    const wrap = ['unshare', '--mount', 'sh', '-c', script, empty.path];
    isRefusal(
      refused(['--create', files.file, files.absent], wrap),
      /this kernel has no BTF: \/sys\/kernel\/btf\/vmlinux is missing/,
    );
    assert.deepEqual(files.list().includes('absent'), false);
  });
});

suite('rampart watch --create', { skip: sensorSkip }, () => {
  test('creates a missing file with the mode, and does not change an existing one', async () => {
    using files = new Files();
    chmodSync(files.file, 0o751);
    const before = statSync(files.file, { bigint: true });
    await using watching = await Watching.start('--create', '--file-mode', '0464', files.file, files.absent);
    assert.equal(statSync(files.absent).mode & 0o7777, 0o464);
    assert.equal(statSync(files.absent).size, 0);
    const now = statSync(files.file, { bigint: true });
    assert.equal(readFileSync(files.file, 'utf8'), 'content\n');
    assert.deepEqual(
      [now.mode, now.ino, now.mtimeNs, now.ctimeNs],
      [before.mode, before.ino, before.mtimeNs, before.ctimeNs],
    );
    assert.match(watching.stderr, /created \S+\/absent with mode 0464/);
    assert.doesNotMatch(watching.stderr, /created \S+\/file/);
    run('cat', [files.absent]);
    // The first was this test's own look at the other file.
    const [, alert] = await watching.untilAlerts(2);
    assert.equal(alert?.metadata.path, files.absent);
  });

  deepTest('stays inside --root', async () => {
    using root = new TemporaryDirectory();
    mkdirSync(root.at('inside'));
    symlinkSync('/inside', root.at('link'));
    await using watching = await Watching.start('--root', root.path, '--create', '/link/rampart-test-file');
    assert.ok(existsSync(root.at('inside/rampart-test-file')));
    assert.ok(!existsSync('/inside'));
    run('cat', [root.at('inside/rampart-test-file')]);
    await watching.untilAlerts(1);
  });

  deepTest(
    'makes it readable for its owner only when no mode is given; follows no link that leads nowhere',
    async () => {
      using files = new Files();
      symlinkSync(files.at('target'), files.at('dangling'));
      await using watching = await Watching.start('--create', files.absent, files.at('dangling'));
      assert.equal(statSync(files.absent).mode & 0o7777, 0o400);
      assert.ok(!existsSync(files.at('target')));
      assert.match(watching.stderr, /dangling does not exist/);
    },
  );
});
