import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { ManualClock } from '../../../lib/time/clock.fixture.ts';
import { Health } from '../../../lib/telemetry/health.ts';
import type { SensorStats } from '../../../lib/sensor/options.ts';
import { type GuardProcess, partContext } from '../../../guard/part-context.ts';
import { fileAccess } from '../guard.ts';
import { registerNodeHealth, ringProblem } from './node-health.ts';

const idle: SensorStats = {
  produced: 10,
  received: 6,
  folded: 1,
  lost: { ringFull: 1, noReturn: 1, consumer: 1 },
  recycled: 3,
  own: 2,
  verdictUnknown: 0,
  hookMisses: 0,
  targets: 1,
  capacity: 10,
  refusedDirectories: 0,
};

suite('how an agent is', () => {
  test('reports a ring that nobody reads, but not a busy or an idle one', async () => {
    const clock = new ManualClock();
    let stats = idle;
    const problem = ringProblem(() => stats, clock);
    for (let i = 0; i < 5; i++) {
      assert.equal(problem(), undefined);
      await clock.advance(20_000);
    }
    // Always something in it, and always another.
    for (let i = 0; i < 5; i++) {
      stats = { ...stats, produced: stats.produced + 9, received: stats.received + 8 };
      assert.equal(problem(), undefined);
      await clock.advance(20_000);
    }
    assert.equal(problem(), undefined);
    await clock.advance(10_000);
    assert.equal(problem(), '5 accesses are waiting in the ring buffer; none has been read for 30 s');
    stats = { ...stats, received: stats.received + 5 };
    assert.equal(problem(), undefined);
  });

  test('each part says what it waits for, and nothing of it stays behind', async () => {
    const health = new Health();
    let [containers, looked, hasLoader] = [false, false, false];
    const runtime: { absence?: string } = {};
    const signal = new AbortController().signal;
    const stack = new AsyncDisposableStack();
    const process = { health } as GuardProcess;
    registerNodeHealth(partContext(fileAccess, 'node', process, { signal, stack }).health, {
      containers: () => containers,
      absence: () => runtime.absence,
      sensor: () => idle,
      looked: () => looked,
      hasLoader: () => hasLoader,
    });
    assert.deepEqual(health.readiness().text.split('\n'), [
      '[-] file-access-node-containers: the container runtime has not listed them yet',
      '[-] file-access-node-files: not examined yet',
      '[-] file-access-node-loader: no agent is known to watch the files of this kernel yet',
      'not ready',
      '',
    ]);
    assert.deepEqual(health.liveness(), { ok: true, text: '[+] file-access-node-sensor\nok\n' });
    [containers, looked, hasLoader] = [true, true, true];
    assert.equal(health.readiness().ok, true, health.readiness().text);
    runtime.absence = 'no container runtime found';
    assert.match(
      health.readiness().text,
      /^\[\+\] file-access-node-containers: no container runtime responds, so .*watch nothing$/m,
    );
    await stack.disposeAsync();
    assert.equal(health.readiness().text, 'ready\n');
    assert.equal(health.liveness().text, 'ok\n');
  });
});
