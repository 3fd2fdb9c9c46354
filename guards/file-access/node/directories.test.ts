// Traps for the files of a directory: found, watched, counted. The real sensor, the embedded API.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { renameSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import type { KiveTrap } from '../api.ts';
import { sensorSkip } from '../../../lib/sensor/sensor.fixture.ts';
import { deepTest } from '../../../lib/testing/depth.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { alertOf, readByCat, TestCluster, type TestNode } from './node.fixture.ts';

const onAll = (path: string, more: Partial<KiveTrap> = {}): KiveTrap => ({
  path,
  matchAny: [{ pod: 'web' }],
  ...more,
});

async function startNode(files: Readonly<Record<string, string>>) {
  const stack = new AsyncDisposableStack();
  const cluster = stack.use(await TestCluster.start());
  const node = await cluster.startNode('n1');
  const [container] = await cluster.createPod(node, { name: 'web', files });
  assert.ok(container);
  return {
    ...{ cluster, node, container },
    at: (path: string) => join(container.root, path),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

/** Reads until there is an alert of that file. */
function alertOfFile(node: TestNode, path: string, file: string) {
  return alertOf(node, path, ({ metadata }) => metadata.file === file);
}

/** The paths in the alerts for a trap, once each. */
function filesOf({ alerts }: TestNode, trap: string): string[] {
  const files = alerts
    .filter(({ metadata }) => metadata.path === trap)
    .map(({ metadata }) => metadata.file ?? '');
  return [...new Set(files)].toSorted();
}

suite('a trap for a directory', { skip: sensorSkip }, () => {
  test('alerts all of its files, by their own paths, with one KiveData', async () => {
    await using scene = await startNode({ '/data/a': '', '/data/deep/er/b': '', '/data.txt': '' });
    const { cluster, node, at } = scene;
    await cluster.createPolicy('p', onAll('/data/*'), onAll('/data/**'));
    await cluster.dataCount(2);
    await alertOfFile(node, at('/data/deep/er/b'), '/data/deep/er/b');
    const alert = await alertOfFile(node, at('/data/a'), '/data/a');
    assert.equal(alert.message.includes(' accessed /data/a in default/web/main '), true, alert.message);
    readByCat(at('/data.txt'));
    readByCat(at('/data/a'));
    await until(
      'both traps',
      () => filesOf(node, '/data/*').length > 0 && filesOf(node, '/data/**').length > 1,
    );
    assert.deepEqual(filesOf(node, '/data/*'), ['/data/a']);
    assert.deepEqual(filesOf(node, '/data/**'), ['/data/a', '/data/deep/er/b']);

    // Before that, one may say that not all files have been found yet.
    await until('a report of both without a problem', async () => {
      const [part] = await cluster.parts('p');
      return part?.watchedFiles === 2 && part.problemCount === 0;
    });
  });

  test('watches what is created, moved in and replaced, and drops what is gone', async () => {
    await using scene = await startNode({ '/data/a': '', '/tree/x/y': '' });
    const { cluster, node, at } = scene;
    await cluster.createPolicy('p', onAll('/data/**'));
    await alertOfFile(node, at('/data/a'), '/data/a');
    execFileSync('sh', ['-c', `echo x > ${at('/data/new')}`]);
    await alertOfFile(node, at('/data/new'), '/data/new');
    renameSync(at('/tree'), at('/data/tree'));
    await alertOfFile(node, at('/data/tree/x/y'), '/data/tree/x/y');
    writeFileSync(at('/other'), 'other');
    renameSync(at('/other'), at('/data/a'));
    const { ino } = statSync(at('/data/a'));
    await alertOf(
      node,
      at('/data/a'),
      ({ metadata }) => metadata.file === '/data/a' && metadata.inode === ino,
    );
    rmSync(at('/data'), { recursive: true });
    await until(
      'it is said',
      async () => (await cluster.parts('p'))[0]?.problems?.[0]?.message === '/data does not exist',
    );
  });

  test('follows links within the container only', async () => {
    await using scene = await startNode({ '/v/..1/token': '', '/elsewhere': '' });
    const { cluster, node, at } = scene;
    symlinkSync('..1', at('/v/..data'));
    symlinkSync('..data/token', at('/v/token'));
    symlinkSync('/etc/hostname', at('/v/out'));
    symlinkSync('/elsewhere', at('/v/in'));
    await cluster.createPolicy('p', onAll('/v/*'));
    await alertOfFile(node, at('/v/..1/token'), '/v/token');
    await alertOfFile(node, at('/elsewhere'), '/v/in');
    readByCat('/etc/hostname');
    readByCat(at('/elsewhere'));
    await alertOfFile(node, at('/elsewhere'), '/v/in');
    assert.deepEqual(filesOf(node, '/v/*'), ['/v/in', '/v/token']);
  });

  test('ends with its policy, and is another one when it is edited', async () => {
    await using scene = await startNode({ '/data/a': '', '/more/b': '' });
    const { cluster, node, at } = scene;
    await cluster.createPolicy('p', onAll('/data/*', { metadata: { version: 'one' } }));
    await alertOfFile(node, at('/data/a'), '/data/a');
    await cluster.setTraps('p', onAll('/data/*', { metadata: { version: 'two' } }));
    await alertOf(node, at('/data/a'), (alert) => alert['custom-metadata']['version'] === 'two');
    await cluster.setTraps('p', onAll('/more/*'));
    await alertOfFile(node, at('/more/b'), '/more/b');
    const before = node.alerts.length;
    readByCat(at('/data/a'));
    readByCat(at('/more/b'));
    await until('an alert', () => node.alerts.length > before);
    assert.deepEqual(
      node.alerts.slice(before).map(({ metadata }) => metadata.file),
      ['/more/b'],
    );
    await cluster.deletePolicy('p');
    await cluster.dataCount(0);
  });
});

suite('agents of one kernel', { skip: sensorSkip }, () => {
  test('watch the directories of their own nodes', async () => {
    await using cluster = await TestCluster.start();
    const first = await cluster.startNode('n1');
    await until('a loader', () => first.state()?.isLoader);
    const second = await cluster.startNode('n2');
    const [container] = await cluster.createPod(second, {
      name: 'web',
      files: { '/data/a': '', '/file': '' },
    });
    assert.ok(container);
    await cluster.createPolicy('p', onAll('/data/*'), onAll('/file'));
    await alertOfFile(second, join(container.root, '/data/a'), '/data/a');
    await alertOf(first, join(container.root, '/file'), ({ metadata }) => metadata.path === '/file');
    assert.deepEqual(filesOf(first, '/data/*'), []);
    assert.equal(
      second.alerts.every(({ metadata }) => metadata.path === '/data/*'),
      true,
    );
    await first.stop();
    await until('the other one is the loader', () => second.state()?.isLoader);
    await alertOf(second, join(container.root, '/file'), ({ metadata }) => metadata.path === '/file');
    await alertOfFile(second, join(container.root, '/data/a'), '/data/a');
  });
});

suite('more files than the sensor has room for', { skip: sensorSkip }, () => {
  test('are reported; files that traps name themselves come first', async () => {
    await using cluster = await TestCluster.start();
    const node = await cluster.startNode('n1', { sensor: { capacity: 20 } });
    const files = Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`/data/${i}`, '']));
    const [container] = await cluster.createPod(node, { name: 'web', files: { ...files, '/file': '' } });
    assert.ok(container);
    await cluster.createPolicy('p', onAll('/data/*'));
    await until('the first are watched', () => {
      for (let i = 0; i < 30; i++) readByCat(join(container.root, `/data/${i}`));
      return filesOf(node, '/data/*').length === 20;
    });
    await cluster.createPolicy('q', onAll('/file'));
    await alertOf(node, join(container.root, '/file'), ({ metadata }) => metadata.path === '/file');
    assert.equal(filesOf(node, '/data/*').length, 20);
  });

  deepTest('of one directory are counted', async () => {
    const files = Object.fromEntries(Array.from({ length: 65_540 }, (_, i) => [`/data/${i}`, '']));
    await using scene = await startNode(files);
    const { cluster } = scene;
    await cluster.createPolicy('p', onAll('/data/*'));
    const [part] = await until('it is said', async () => {
      const parts = await cluster.parts('p');
      return parts[0]?.problems?.[0]?.message.includes('beyond') && parts;
    });
    assert.equal(part?.problems?.[0]?.message, 'partly watched: 4 files are beyond the limit of 65,536');
    assert.equal(part.watchedFiles, 1);
  });
});
