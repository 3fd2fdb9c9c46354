import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { suite, test } from 'node:test';

import { TemporaryDirectory } from '../../../lib/testing/temporary-directory.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { HeldBench } from './held-alerts.fixture.ts';

const longMs = 600_000;
const [web, other] = ['a'.repeat(64), 'b'.repeat(64)];
const cgroupOf = (id: string): string => `/kubepods/podu/${id}`;

suite('alerts by a container that the runtime has not reported yet', { timeout: 60_000 }, () => {
  test('wait for it, and later ones behind them; nothing of them is left on disk', async () => {
    using directory = new TemporaryDirectory();
    await using bench = new HeldBench(directory.path, longMs);
    bench.add('1', '/');
    assert.deepEqual(bench.who, ['1 host']);
    bench.add('2', cgroupOf(web));
    bench.add('3', '/');
    bench.add('4', cgroupOf(other));
    bench.notify('unrelated', 'c'.repeat(64));
    assert.deepEqual(bench.who, ['1 host']);
    bench.notify('web', web);
    assert.deepEqual(bench.who, ['1 host', '2 web', '3 host']);
    bench.add('5', cgroupOf(web));
    bench.notify('other', other);
    assert.deepEqual(bench.who.slice(3), ['4 other', '5 web']);
    const [, second] = bench.reported;
    assert.deepEqual([second?.callback, second?.secret], ['http://127.0.0.1/', 'a/b']);
    assert.deepEqual(second?.alert.accessor, {
      relation: 'container',
      pod: { name: 'web-0', namespace: 'shop' },
      container: { id: `containerd://${web}`, name: 'web' },
    });
    assert.equal(second.alert.process.tgid, bench.reported[0]?.alert.process.tgid);
    const [queue] = bench.spool.queues;
    assert.equal(queue?.depth, 0);
    assert.equal(bench.counts.unknownAccessors, 0);
  });

  test('carry only its ID if nothing comes in time, are counted, and the next do not wait', async () => {
    using directory = new TemporaryDirectory();
    await using bench = new HeldBench(directory.path, 1);
    bench.add('1', cgroupOf(web));
    await until('it went on', () => bench.reported.length === 1);
    assert.deepEqual(bench.reported[0]?.alert.accessor, {
      relation: 'unknown',
      pod: { name: '', namespace: '' },
      container: { id: web, name: '' },
    });
    bench.add('2', cgroupOf(web));
    assert.deepEqual(bench.who, ['1 unknown', '2 unknown']);
    assert.equal(bench.counts.unknownAccessors, 2);
  });

  test('go on when the agent ends', async () => {
    using directory = new TemporaryDirectory();
    const bench = new HeldBench(directory.path, longMs);
    bench.add('1', cgroupOf(web));
    await bench[Symbol.asyncDispose]();
    assert.deepEqual(bench.who, ['1 unknown']);
    await using again = new HeldBench(directory.path, longMs);
    again.held.restore();
    assert.deepEqual(again.who, []);
  });

  test('are reported by the next agent after kill -9, once each, before later ones', async () => {
    using directory = new TemporaryDirectory();
    const script = new URL('held-alerts-process.fixture.ts', import.meta.url).pathname;
    const child = spawn(process.execPath, [script, directory.path, cgroupOf(web), cgroupOf(other)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const ended = once(child, 'exit');
    const [said] = (await once(child.stdout, 'data')) as [Buffer];
    assert.equal(said.toString().trim(), '0 web,1 web');
    child.kill('SIGKILL');
    await ended;
    await using bench = new HeldBench(directory.path, longMs);
    bench.notify('other', other);
    bench.held.restore();
    bench.add('5', '/');
    assert.deepEqual(bench.who, ['2 other', '3 host', '4 other', '5 host']);
  });
});
