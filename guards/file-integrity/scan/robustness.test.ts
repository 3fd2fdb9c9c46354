/** Trees that are hostile to a scan: every case with real files. */
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { Fd, inotifyAddWatch, inotifyInit, readAvailable } from '../../../lib/ebpf/libc.ts';
import { asNobody, publicPath } from '../../../lib/testing/public-checkout.fixture.ts';
import { deepTest, isDeep, scaled } from '../../../lib/testing/depth.fixture.ts';
import { describeAttributes } from '../model/attributes.ts';
import type { Entry, ScanProblem } from '../model/entry.ts';
import { all, confOf, isEntry, isProblem, pathsOf, Scene } from './scan.fixture.ts';
import { Scanner } from './scanner.ts';

const needsRoot = process.geteuid?.() === 0 ? false : 'needs root';
const needsFuse = { skip: needsRoot || (fs.existsSync('/dev/fuse') ? false : 'needs /dev/fuse') };

/** Runs a script beside the test until it is disposed. */
class Beside implements AsyncDisposable {
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  /** Returns when it has begun its loop; `body` is what it does over and over. */
  static async run(body: string): Promise<Beside> {
    const script = `const fs = require('node:fs'); console.log('begun'); for (let i = 0; ; i++) { ${body} }`;
    const child = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
    await once(child.stdout, 'data');
    return new Beside(child);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.#child, 'close');
    this.#child.kill('SIGKILL');
    await ended;
  }
}

/** Up to when a scan must have ended that would else take minutes: nothing is measured. */
const longScan = { skip: needsRoot, timeout: 60_000 };

test('holes are not read, and the checksum is that of the content', async () => {
  await using scene = new Scene();
  const MiB = 2 ** 20;
  const shapes: Record<string, readonly (readonly [offset: number, text: string])[]> = {
    hole: [],
    start: [[0, 'x']],
    middle: [[5 * MiB + 12_345, 'middle']],
    several: [
      [0, 'a'],
      [65_536, 'b'],
      [3 * MiB - 1, 'cc'],
      [9 * MiB + 77, 'e'],
    ],
  };
  for (const [name, parts] of Object.entries(shapes)) {
    const file = fs.openSync(scene.path(name), 'w');
    for (const [offset, text] of parts) fs.writeSync(file, text, offset);
    fs.ftruncateSync(file, 10 * MiB + 4321);
    fs.closeSync(file);
  }
  const found = (await scene.scan('/ f s+sha256+sha512')).filter(isEntry);
  assert.equal(found.length, 4);
  for (const { path, sha256, sha512 } of found) {
    const content = fs.readFileSync(scene.path(path));
    assert.equal(
      Buffer.from(sha256).toString('hex'),
      createHash('sha256').update(content).digest('hex'),
      path,
    );
    assert.equal(
      Buffer.from(sha512).toString('hex'),
      createHash('sha512').update(content).digest('hex'),
      path,
    );
  }
});

deepTest('a file of terabytes of holes, with a byte somewhere', longScan, async () => {
  await using scene = new Scene();
  const sums = new Set<string>();
  for (const at of [undefined, 0, 5e9, 12e12]) {
    fs.rmSync(scene.path('file'), { force: true });
    const file = fs.openSync(scene.path('file'), 'w');
    fs.ftruncateSync(file, 12e12 + 1);
    if (at !== undefined) fs.writeSync(file, 'x', at);
    fs.closeSync(file);
    const found = await scene.scan('/ f s+sha256');
    assert.deepEqual(pathsOf(found), ['/file']);
    const [entry] = found.filter(isEntry);
    assert.equal(entry?.sizeBytes, 12e12 + 1);
    sums.add(Buffer.from(entry.sha256).toString('hex'));
  }
  // Also where the byte is beyond 4 GiB.
  assert.equal(sums.size, 4);
});

for (const how of ['removed', 'cut'] as const) {
  test(`a large file that is ${how} ends its read`, longScan, async () => {
    const sizeBytes = 64 * 2 ** 20;
    // Slow enough that it is not read when it is gone.
    await using scene = new Scene({ readBytesPerSecond: sizeBytes / 2 });
    fs.writeFileSync(scene.path('large'), Buffer.alloc(sizeBytes, 'x'));
    let isStarted = false;
    let readBytes = 0;
    const [stream] = scene.scanner.scan([confOf('/ f s+sha256')], {
      signal: new AbortController().signal,
      onProgress: ({ bytes }) => {
        readBytes = bytes;
        if (bytes === 0 || isStarted) return;
        isStarted = true;
        if (how === 'removed') fs.rmSync(scene.path('large'));
        else fs.truncateSync(scene.path('large'), 1);
      },
    });
    const found = await all(stream ?? []);
    assert.deepEqual(pathsOf(found), how === 'removed' ? [] : ['/large']);
    assert.ok(readBytes < sizeBytes, `${readBytes} bytes were read`);
  });
}

test('FIFOs, sockets and devices are seen and never opened', { skip: needsRoot }, async () => {
  await using scene = new Scene();
  execFileSync('mkfifo', [scene.path('fifo')]);
  execFileSync('mknod', [scene.path('null'), 'c', '1', '3']);
  execFileSync('mknod', [scene.path('loop'), 'b', '7', '200']);
  fs.writeFileSync(scene.path('file'), 'x');
  using inotify = inotifyInit();
  const IN_OPEN = 0x20;
  const watched = new Map<number, string>();
  for (const name of ['fifo', 'null', 'loop', 'file']) {
    const number = fs.openSync(scene.path(name), 0o10000000 /* O_PATH */);
    using fd = new Fd(number);
    watched.set(inotifyAddWatch(inotify, fd, IN_OPEN, name), name);
  }
  const found = await scene.scan('/ ftype+p+acl+xattrs+caps+e2fsattrs+sha256+sha512');
  assert.deepEqual(
    found.filter(isEntry).map(({ path, type }) => `${type} ${path}`),
    ['d /', 'p /fifo', 'f /file', 'b /loop', 'c /null'],
  );
  const events = Buffer.alloc(4096);
  const opened: (string | undefined)[] = [];
  const length = readAvailable(inotify, events);
  for (let at = 0; at < length; at += 16 + events.readUInt32LE(at + 12))
    opened.push(watched.get(events.readInt32LE(at)));
  assert.deepEqual(opened, ['file']);
});

const swapped = { skip: needsRoot, timeout: 120_000 };
test('a name that is swapped for a FIFO or a link while it is looked at', swapped, async () => {
  await using scene = new Scene();
  await using outside = new Scene();
  fs.writeFileSync(outside.path('secret'), 'secret');
  const secret = createHash('sha256').update('secret').digest('hex');
  execFileSync('mkfifo', [scene.path('fifo')]);
  fs.writeFileSync(scene.path('content'), 'content');
  const root = JSON.stringify(`${scene.root}/`);
  await using swapping = await Beside.run(`
    const r = ${root}, to = r + 'name', other = r + 'other';
    fs.rmSync(other, { force: true });
    if (i % 3 === 0) fs.linkSync(r + 'fifo', other);
    if (i % 3 === 1) fs.symlinkSync(${JSON.stringify(outside.path('secret'))}, other);
    if (i % 3 === 2) fs.writeFileSync(other, 'content');
    fs.renameSync(other, to);`);
  assert.ok(swapping);
  const types = new Set<string>();
  // On a busy machine a few scans may be over before it is swapped.
  for (let i = 0; i < scaled(200) || types.size < 2; i++) {
    for (const item of await scene.scan('/ p+ftype+sha256')) {
      if (isProblem(item)) continue;
      if (item.path === '/name') types.add(item.type);
      const sum = Buffer.from(item.sha256).toString('hex');
      assert.notEqual(sum, secret, 'what a link leads to was read');
      assert.ok(item.type === 'f' || sum === '');
    }
  }
});

test(
  'a directory that is swapped for a link does not lead out of the root',
  { skip: needsRoot },
  async () => {
    await using scene = new Scene();
    await using outside = new Scene();
    fs.writeFileSync(outside.path('secret'), 'secret');
    fs.mkdirSync(scene.path('a/d/e'), { recursive: true });
    fs.writeFileSync(scene.path('a/d/e/inside'), 'inside');
    fs.mkdirSync(outside.path('e'));
    fs.writeFileSync(outside.path('e/secret'), 'secret');
    await using swapping = await Beside.run(`
    const r = ${JSON.stringify(`${scene.root}/a/`)};
    try {
      fs.renameSync(r + 'd', r + 'aside'); fs.symlinkSync(${JSON.stringify(outside.root)}, r + 'd');
      fs.unlinkSync(r + 'd'); fs.renameSync(r + 'aside', r + 'd');
    } catch {}`);
    assert.ok(swapping);
    const conf = confOf('/ p+sha256');
    const { signal } = new AbortController();
    for (let i = 0; i < scaled(300); i++) {
      const found = await scene.scan('/ p+sha256');
      const looked = await all(
        scene.scanner.look(
          conf,
          ['/a/d/e/secret', '/a/d/secret', '/a/d'].map((path) => ({ path, below: true })),
          { signal },
        ),
      );
      for (const { path } of [...found, ...looked]) assert.doesNotMatch(path, /secret/);
    }
  },
);

test('an unreadable file is a problem, and the rest is scanned', { skip: needsRoot }, async () => {
  await using scene = new Scene();
  fs.chmodSync(scene.root, 0o755);
  for (const name of ['closed', 'closed.d', 'open']) {
    fs.mkdirSync(scene.path(name));
    fs.writeFileSync(scene.path(`${name}/file`), 'x');
  }
  fs.chmodSync(scene.path('closed'), 0o700);
  fs.chmodSync(scene.path('open/file'), 0o600);
  const publicModule = (name: string) => JSON.stringify(publicPath(join(import.meta.dirname, name)));
  const script = `
    import { Scanner } from ${publicModule('scanner.ts')};
    import { all, confOf, pathsOf } from ${publicModule('scan.fixture.ts')};
    await using scanner = new Scanner({ root: { directory: ${JSON.stringify(scene.root)}, prefix: '' } });
    const signal = new AbortController().signal;
    const [stream] = scanner.scan([confOf('/ p+sha256')], { signal });
    const found = await all(stream);
    const looked = await all(scanner.look(confOf('/ p+sha256'), [{ path: '/closed', below: true }], { signal }));
    console.log(JSON.stringify([pathsOf(found), pathsOf(looked)]));`;
  const command = [...asNobody, publicPath(process.execPath), '--input-type=module', '-e', script];
  const { stdout, stderr } = spawnSync('env', command, { encoding: 'utf8' });
  assert.notEqual(stdout, '', stderr);
  assert.deepEqual(JSON.parse(stdout), [
    // The problem has the place of its path, not that of what would be below it.
    [
      ...['/', '/closed', '/closed EACCES', '/closed.d', '/closed.d/file', '/open', '/open/file'],
      '/open/file EACCES',
    ],
    ['/closed', '/closed EACCES'],
  ]);
});

/** Mounts a file system whose server has gone, until it is disposed. */
function deadMount(path: string): Disposable {
  const server = fs.openSync('/dev/fuse', 'r+');
  const options = `fd=${server},rootmode=40000,user_id=0,group_id=0`;
  const stdio = [...Array.from({ length: server }, () => 'ignore' as const), server];
  execFileSync('mount', ['-i', '-t', 'fuse', '-o', options, 'nobody', path], { stdio });
  fs.closeSync(server);
  return { [Symbol.dispose]: () => void execFileSync('umount', [path]) };
}

test(
  'a mount whose server is gone is a problem in its place, whatever lies beside it',
  needsFuse,
  async () => {
    await using scene = new Scene();
    for (const name of ['dead', 'dead.d', 'dead-1', 'last']) {
      fs.mkdirSync(scene.path(name));
      fs.writeFileSync(scene.path(`${name}/file`), 'x');
    }
    using dead = deadMount(scene.path('dead'));
    assert.ok(dead);
    const found = await scene.scan('/ p+xattrs+sha256');
    assert.deepEqual(pathsOf(found), [
      ...['/', '/dead ENOTCONN', '/dead-1', '/dead-1/file', '/dead.d', '/dead.d/file'],
      ...['/last', '/last/file'],
    ]);
    // Rules for its contents only, and for directories, get the report, too.
    for (const rule of ['/dead/file p', '=/dead$ d p', '/dead$ d p'])
      assert.deepEqual(pathsOf(await scene.scan(rule)), ['/dead ENOTCONN'], rule);
    assert.deepEqual(pathsOf(await scene.scan('=/dead$ f p')), []);
    // In its place, since it would be gone where the next name comes first.
    assert.deepEqual(pathsOf(await scene.scan('/ d p')), [
      ...['/', '/dead ENOTCONN', '/dead-1', '/dead.d', '/last'],
    ]);
    // A look does not know what it was.
    const { signal } = new AbortController();
    const look = scene.scanner.look(confOf('=/dead$ d p'), [{ path: '/dead', below: false }], { signal });
    assert.deepEqual(pathsOf(await all(look)), ['/dead ENOTCONN']);
  },
);

deepTest('a directory that can no longer be opened is reported once', needsFuse, async () => {
  await using scene = new Scene({ readBytesPerSecond: 100_000 });
  fs.mkdirSync(scene.path('above/many'), { recursive: true });
  // The first piece is soon there; the others, for which the directory is opened again, take their time.
  for (let at = 1000; at < 7000; at++)
    fs.writeFileSync(scene.path(`above/many/${at}`), at < 4000 ? '' : 'x'.repeat(100));
  const [stream = []] = scene.scanner.scan([confOf('/ sha256')], { signal: new AbortController().signal });
  const found: (Entry | ScanProblem)[] = [];
  using mounts = new DisposableStack();
  let isDead = false;
  for await (const batch of stream) {
    found.push(...batch);
    if (isDead || found.length < 1000) continue;
    mounts.use(deadMount(scene.path('above')));
    isDead = true;
  }
  assert.deepEqual(
    found.filter(isProblem).map(({ path, code }) => `${path} ${code}`),
    ['/above/many ENOTCONN'],
  );
});

test('a file that changes whenever it is read is a problem; one that may grow is not', async () => {
  // Slowly, so that whoever writes gets a CPU meanwhile.
  await using scene = new Scene({ readBytesPerSecond: 2 << 20 });
  for (const name of ['changes', 'grows']) fs.writeFileSync(scene.path(name), Buffer.alloc(1 << 20, 1));
  await using writing = await Beside.run(`
    const r = ${JSON.stringify(`${scene.root}/`)};
    for (const name of ['changes', 'grows']) fs.appendFileSync(r + name, 'x');
    if (i % 1000 === 999) { fs.truncateSync(r + 'changes', 1 << 20); }`);
  assert.ok(writing);
  const found = await scene.scan('/changes p+sha256\n/grows p+s+growing+sha256');
  assert.deepEqual(pathsOf(found), ['/changes', '/changes CHANGED', '/grows']);
  const [changes, grows] = found.filter(isEntry);
  assert.equal(describeAttributes(changes?.attributes ?? 0), 'p');
  const start = fs.readFileSync(scene.path('grows')).subarray(0, grows?.sizeBytes);
  assert.deepEqual(Buffer.from(grows?.sha256 ?? []), createHash('sha256').update(start).digest());
});

test('files that vanish are left out', async () => {
  await using scene = new Scene();
  for (let i = 0; i < 50; i++) fs.mkdirSync(scene.path(`d${i}`));
  await using removing = await Beside.run(`
    const at = ${JSON.stringify(`${scene.root}/d`)} + (i % 50);
    fs.rmSync(at, { recursive: true }); fs.mkdirSync(at); fs.writeFileSync(at + '/f', 'x');`);
  assert.ok(removing);
  for (let i = 0; i < scaled(100); i++) {
    const found = await scene.scan('/ p+acl+xattrs+l+e2fsattrs+sha256');
    assert.deepEqual(
      found.filter(isProblem).filter(({ code }) => code !== 'CHANGED'),
      [],
    );
  }
});

test('the files of /proc and /sys are seen, and never read', async () => {
  const { signal } = new AbortController();
  for (const [directory, text] of [
    ['/proc', '/kmsg$ p+sha256\n/kcore$ p+sha256\n/sys/kernel p+sha256\n/1/ p+l+sha256\n/self$ l'],
    ['/sys', `${isDeep ? '/kernel' : '/kernel/mm'} p+sha256+acl+xattrs+e2fsattrs\n/power p+sha256`],
  ] as const) {
    await using scanner = new Scanner({ root: { directory, prefix: '' } });
    const [stream = []] = scanner.scan([confOf(text)], { signal });
    const found = await all(stream);
    assert.ok(found.length > 20, directory);
    for (const entry of found.filter(isEntry)) assert.equal(entry.sha256.length, 0, entry.path);
  }
});

test('paths longer than PATH_MAX, more directories in each other than descriptors', async () => {
  await using scene = new Scene();
  const make = (name: string, levels: number): void => {
    const script = `const [fs, { chdir }] = [require('node:fs'), process];
      for (let i = 0; i < ${levels}; i++) { const n = ${JSON.stringify(name)}; fs.mkdirSync(n); chdir(n); }
      fs.writeFileSync('end', 'x');`;
    const { status, stderr } = spawnSync(process.execPath, ['-e', script], {
      cwd: scene.root,
      encoding: 'utf8',
    });
    assert.equal(status, 0, stderr);
  };
  make('x'.repeat(200), 40);
  make('d', 2000);
  try {
    const found = await scene.scan('/ p+xattrs+acl+sha256');
    assert.equal(found.length, 2043);
    assert.ok(found.every(isEntry));
    const longest = found.filter(isEntry).filter(({ path }) => path.endsWith('/end'));
    assert.deepEqual(
      longest.map(({ path, sha256 }) => [path.length, sha256.length]),
      [
        [4004, 32],
        [8044, 32],
      ],
    );
  } finally {
    // Node.js removes no such tree.
    execFileSync('rm', ['-rf', scene.path('d'), scene.path('x'.repeat(200))]);
  }
});

const many = scaled(40_000);
deepTest(`${many} files in one directory, and links that go in circles`, async () => {
  await using scene = new Scene();
  fs.mkdirSync(scene.path('many'));
  for (let i = 0; i < many; i++) fs.closeSync(fs.openSync(scene.path(`many/${i}`), 'w'));
  fs.symlinkSync('two', scene.path('one'));
  fs.symlinkSync('one', scene.path('two'));
  fs.symlinkSync('..', scene.path('many/up'));
  const paths = pathsOf(await scene.scan('/ p+l+sha256'));
  assert.equal(paths.length, many + 5);
  assert.deepEqual(paths, paths.toSorted());
});

test('names of every length, and those that look like . and ..', async () => {
  await using scene = new Scene();
  const bytes = Array.from({ length: 255 }, (_, at) => Buffer.alloc(at + 1, 0x61 + (at % 26)));
  bytes.push(
    ...['.a', '..a', '...', '.\x01', '..\x01', '\x01.', '\xff\xfe'].map((name) =>
      Buffer.from(name, 'latin1'),
    ),
  );
  bytes.push(Buffer.alloc(255, '.'), Buffer.from('\\0f'), Buffer.from('\x01?'));
  for (const [at, name] of bytes.entries()) {
    const path = Buffer.concat([Buffer.from(`${scene.root}/`), name]);
    if (at % 3 === 0) fs.symlinkSync('nowhere', path);
    else if (at % 3 === 1) fs.mkdirSync(path);
    else fs.writeFileSync(path, 'x');
  }
  const types = ['l', 'd', 'f'];
  const expected = bytes.map((name, at) => `/${name.toString('latin1')} ${types[at % 3]}`).toSorted();
  const found = (await scene.scan('/ ftype+sha256')).filter(isEntry);
  assert.deepEqual(
    found
      .slice(1)
      .map(({ path, type }) => `${path} ${type}`)
      .toSorted(),
    expected,
  );
});
