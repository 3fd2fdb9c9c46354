/** Extended attributes of any number and size: every case with real files. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { fileCalls } from '../../../lib/ebpf/ffi.ts';
import { FixedBuffer } from '../../../lib/ebpf/libc.ts';
import { describeAttributes } from '../model/attributes.ts';
import { onlyEntries } from '../database/entry-block.ts';
import { openBaseline } from '../database/read-baseline.ts';
import { writeBaseline } from '../database/write-baseline.ts';
import { all, confOf, isEntry, pathsOf, Scene } from './scan.fixture.ts';

const needsRoot = process.geteuid?.() === 0 ? false : 'needs root';

test(
  'a baseline of more extended attributes than a frame of it has room for',
  { skip: needsRoot },
  async () => {
    await using scene = new Scene();
    // As much as ext4 has room for beside an inode (ext4(5)): 1,200 of them are more than the longest frame.
    const value = new FixedBuffer(3900);
    value.bytes.fill(7);
    const [path, name] = [new FixedBuffer(4096), new FixedBuffer(16)];
    name.writeText('user.large');
    fs.mkdirSync(scene.path('directory'));
    for (let at = 0; at < 1200; at++) {
      const file = scene.path(`directory/${at}`);
      fs.writeFileSync(file, 'x');
      path.writeText(file);
      assert.equal(fileCalls.lsetxattr(path.address, name.address, value.address, value.bytes.length, 0), 0);
    }
    await using beside = new Scene();
    const [into, key] = [
      beside.path('baseline'),
      { scheme: 'hmac-sha256', secret: Buffer.alloc(32, 7) } as const,
    ];
    const [stream = []] = scene.scanner.scan([confOf('/ ftype+xattrs')], {
      signal: new AbortController().signal,
    });
    const header = { rampartVersion: '0.1.0', madeAtMs: 0, configDigest: '' };
    const entries = onlyEntries(stream, ({ path: unread }) => assert.fail(unread));
    await writeBaseline({ path: into, key, header, entries });
    await using baseline = await openBaseline(into, key);
    const read = await all(baseline.entries());
    assert.equal(read.length, 1202);
    for (const entry of read.slice(2))
      assert.deepEqual(
        entry.xattrs.map((xattr) => xattr[1].length),
        [3900],
      );
  },
);

test('a file with 12 MB of extended attributes: each change of them is seen', async () => {
  // A file system that sets no limit.
  await using scene = new Scene({}, '/dev/shm');
  const file = scene.path('file');
  fs.writeFileSync(file, 'x');
  const [path, name, value] = [new FixedBuffer(4096), new FixedBuffer(32), new FixedBuffer(60_000)];
  path.writeText(file);
  value.bytes.fill(7);
  const set = (which: string, bytes: number): void => {
    name.writeText(which);
    assert.equal(fileCalls.lsetxattr(path.address, name.address, value.address, bytes, 0), 0);
  };
  const scan = async (): Promise<ReadonlyMap<string, string>> => {
    const [entry] = await scene.scan('/file xattrs');
    assert.ok(entry !== undefined && isEntry(entry));
    return new Map(entry.xattrs.map(([of, bytes]) => [of, Buffer.from(bytes).toString('latin1')]));
  };
  set('user.000', 60_000);
  assert.equal((await scan()).get('user.000')?.length, 60_000);
  for (let at = 1; at < 200; at++) set(`user.${String(at).padStart(3, '0')}`, at === 100 ? 5 : 60_000);
  const before = await scan();
  assert.equal(before.size, 200);
  assert.ok([...before.values()].every((text) => text.length < 200));
  assert.equal(before.get('user.100'), '\x07'.repeat(5));
  value.bytes[59_999] = 8;
  set('user.007', 60_000);
  set('user.199', 60_000);
  const after = await scan();
  const changed = [...after].filter(([of, text]) => before.get(of) !== text).map(([of]) => of);
  assert.deepEqual(changed, ['user.007', 'user.199']);
});

test(
  'more names of extended attributes than can be listed hide no capability',
  { skip: needsRoot },
  async () => {
    // A file system that sets no limit.
    await using scene = new Scene({}, '/dev/shm');
    const file = scene.path('file');
    fs.writeFileSync(file, 'x');
    const [path, name, value] = [new FixedBuffer(4096), new FixedBuffer(256), new FixedBuffer(1)];
    path.writeText(file);
    // 75,000 bytes; listxattr(2) gives 65,536.
    for (let at = 0; at < 300; at++) {
      name.writeText(`user.${String(at).padStart(244, '0')}`);
      assert.equal(fileCalls.lsetxattr(path.address, name.address, value.address, 1, 0), 0);
    }
    // cap_setuid+ep, linux/capability.h: the second version of vfs_cap_data, with the effective bit.
    const [capability, data] = [new FixedBuffer(32), new FixedBuffer(20)];
    capability.writeText('security.capability');
    for (const [at, word] of [0x0200_0001, 1 << 7].entries()) data.bytes.writeUInt32LE(word, at * 4);
    assert.equal(fileCalls.lsetxattr(path.address, capability.address, data.address, 20, 0), 0);
    const found = await scene.scan('/file acl+xattrs+caps+sha256');
    assert.deepEqual(pathsOf(found), ['/file', '/file E2BIG']);
    const [entry] = found.filter(isEntry);
    assert.equal(entry?.capabilities, 'cap_setuid=ep');
    assert.match(entry.acl, /^user::rw-\n/);
    assert.equal(describeAttributes(entry.attributes), 'acl+caps+sha256');
    // Without its other attributes everything of it is known.
    assert.deepEqual(pathsOf(await scene.scan('/file acl+caps+sha256')), ['/file']);
  },
);

test('without /proc what has extended attributes is unread, not unchanged', { skip: needsRoot }, async () => {
  await using scene = new Scene();
  fs.mkdirSync(scene.path('directory'));
  fs.mkdirSync(scene.path('no-proc'));
  fs.writeFileSync(scene.path('file'), 'x');
  const script = `
    import { Scanner } from ${JSON.stringify(join(import.meta.dirname, 'scanner.ts'))};
    import { all, confOf, pathsOf } from ${JSON.stringify(join(import.meta.dirname, 'scan.fixture.ts'))};
    await using scanner = new Scanner({ root: { directory: ${JSON.stringify(scene.root)}, prefix: '' } });
    const [stream] = scanner.scan([confOf('!/no-proc\\n/ xattrs+sha256')], { signal: new AbortController().signal });
    console.log(JSON.stringify(pathsOf(await all(stream))));`;
  const hidden = 'mount --bind "$1" /proc; shift; exec "$@"';
  const { stdout, stderr } = spawnSync(
    'unshare',
    [
      ...['-m', 'sh', '-c', hidden, 'sh', scene.path('no-proc')],
      ...[process.execPath, '--input-type=module', '-e', script],
    ],
    { encoding: 'utf8', env: {} },
  );
  assert.notEqual(stdout, '', stderr);
  assert.deepEqual(JSON.parse(stdout), ['/', '/directory', '/directory ENOENT', '/file']);
});
