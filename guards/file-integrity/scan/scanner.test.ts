import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import { test } from 'node:test';

import { describeAttributes } from '../model/attributes.ts';
import { all, confOf, isEntry, isProblem, pathsOf, Scene } from './scan.fixture.ts';
import { Scanner } from './scanner.ts';

test('entries come in the order of the bytes of their paths, with what was asked for', async () => {
  await using scene = new Scene();
  fs.mkdirSync(scene.path('a/x'), { recursive: true });
  for (const name of ['a.b', 'a-', 'a0', 'a/y', 'a/x/z', 'b']) fs.writeFileSync(scene.path(name), name);
  fs.symlinkSync('nowhere', scene.path('a/link'));
  fs.chmodSync(scene.path('b'), 0o4750);
  const found = await scene.scan('/ p+l+s+sha256');
  assert.deepEqual(pathsOf(found), [
    ...['/', '/a', '/a-', '/a.b', '/a/link', '/a/x', '/a/x/z', '/a/y', '/a0', '/b'],
  ]);
  const entries = found.filter(isEntry);
  const [b, link] = [entries.at(-1), entries[4]];
  assert.equal(describeAttributes(b?.attributes ?? 0), 'p+s+sha256');
  assert.equal(b?.permissions, 0o4750);
  assert.equal(b?.sizeBytes, 1);
  assert.deepEqual(Buffer.from(b.sha256), createHash('sha256').update('b').digest());
  assert.equal(describeAttributes(link?.attributes ?? 0), 'l+p+s');
  assert.equal(link?.linkTarget, 'nowhere');
  assert.equal(link?.type, 'l');
});

test('several configurations share one scan, each gets what it selects', async () => {
  await using scene = new Scene();
  for (const name of ['a', 'b']) fs.writeFileSync(scene.path(name), name);
  const confs = [confOf('/a p+sha256'), confOf('/ sha512\n!/a'), confOf('/none p')];
  const { signal } = new AbortController();
  const streams = await Promise.all(scene.scanner.scan(confs, { signal }).map((stream) => all(stream)));
  assert.deepEqual(
    streams.map((items) =>
      items.map((item) => `${item.path} ${isProblem(item) ? '' : describeAttributes(item.attributes)}`),
    ),
    [['/a p+sha256'], ['/ ', '/b sha512'], []],
  );
});

test('look sees what a scan would see', async () => {
  await using scene = new Scene();
  fs.mkdirSync(scene.path('d/e'), { recursive: true });
  for (const name of ['a', 'd/b', 'd/e/c', 'd.x']) fs.writeFileSync(scene.path(name), name);
  const conf = confOf('/ p+sha256\n!/d/b');
  const options = { signal: new AbortController().signal };
  const look = async (...paths: readonly (readonly [string, boolean])[]) =>
    pathsOf(
      await all(
        scene.scanner.look(
          conf,
          paths.map(([path, below]) => ({ path, below })),
          options,
        ),
      ),
    );
  assert.deepEqual(await look(['/a', false], ['/d', false], ['/gone', true]), ['/a', '/d']);
  assert.deepEqual(await look(['/d', true], ['/d.x', false], ['/d/e', false]), [
    '/d',
    '/d.x',
    '/d/e',
    '/d/e/c',
  ]);
  assert.deepEqual(await look(['/d/b', false]), []);
  assert.deepEqual(await look(['/', false]), ['/']);
  assert.equal(scene.scanner.runningThreads, 0, 'it did that without a thread');
  assert.deepEqual(await look(['/', true]), ['/', '/a', '/d', '/d.x', '/d/e', '/d/e/c']);
  fs.writeFileSync(scene.path('a'), Buffer.alloc(1 << 20));
  const [large] = await all(scene.scanner.look(conf, [{ path: '/a', below: false }], options));
  assert.ok(large !== undefined && !isProblem(large));
  assert.deepEqual(
    Buffer.from(large.sha256),
    createHash('sha256')
      .update(Buffer.alloc(1 << 20))
      .digest(),
  );
  assert.ok(scene.scanner.runningThreads > 0);
});

test('paths have the prefix of the root, and rules are without root_prefix', async () => {
  await using scene = new Scene();
  fs.mkdirSync(scene.path('etc'));
  fs.writeFileSync(scene.path('etc/passwd'), 'x');
  await using scanner = new Scanner({
    root: { directory: scene.root, prefix: '/hostroot' },
  });
  const { signal } = new AbortController();
  const streams = scanner.scan([confOf('/hostroot/etc p'), confOf('root_prefix=/hostroot\n/ p')], { signal });
  const [plain, stripped] = await Promise.all(streams.map((stream) => all(stream)));
  assert.deepEqual(pathsOf(plain ?? []), ['/hostroot/etc', '/hostroot/etc/passwd']);
  assert.deepEqual(pathsOf(stripped ?? []), ['/hostroot', '/hostroot/etc', '/hostroot/etc/passwd']);
});

test('the start of a file has its checksums', async () => {
  await using scene = new Scene();
  fs.writeFileSync(scene.path('log'), 'one\ntwo\n');
  const [, entry] = await scene.scan('/ i+sha256+growing+s');
  assert.ok(entry !== undefined && !isProblem(entry));
  const { signal } = new AbortController();
  const start = await scene.scanner.digestStart(entry, 4, signal);
  assert.deepEqual(Buffer.from(start?.sha512 ?? []), createHash('sha512').update('one\n').digest());
  assert.equal(await scene.scanner.digestStart(entry, 9, signal), undefined);
  assert.equal(await scene.scanner.digestStart({ ...entry, path: '/gone' }, 1, signal), undefined);
});

test('a root that is not there is an error', async () => {
  await using scene = new Scene();
  fs.rmdirSync(scene.root);
  await assert.rejects(scene.scan('/ p'), { code: 'RAMPART_NOT_FOUND' });
  const { signal } = new AbortController();
  await assert.rejects(all(scene.scanner.look(confOf('/ p'), [{ path: '/', below: false }], { signal })), {
    code: 'RAMPART_NOT_FOUND',
  });
});
