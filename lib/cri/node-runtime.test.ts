import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { createLogger } from '../telemetry/log.ts';
import { until } from '../testing/until.fixture.ts';
import { NodeRuntime } from './node-runtime.ts';
import { answersFrom, FakeRuntime } from './runtime.fixture.ts';

const logger = createLogger({ level: 'silent' });

suite('the container runtime of a node', () => {
  test('is absent where it may be and has not answered; once it has, it is one that may be away', async () => {
    await using fake = new FakeRuntime();
    const stop = new AbortController();
    const { socketPath } = fake;
    const runtime = new NodeRuntime({ socketPath, logger, isOptional: true });
    assert.equal(runtime.absence, undefined);
    const running = runtime.run(stop.signal);
    await until('it was asked', () => runtime.absence);
    assert.match(runtime.absence ?? '', /runtime\.sock/);
    assert.equal(runtime.problem, runtime.absence);
    await fake.start({
      Version: () => ({ runtimeName: 'late', runtimeVersion: '1' }),
      ...answersFrom(new Map(), new Map()),
    });
    await until('it has listed its containers', () => runtime.problem === undefined);
    assert.equal(runtime.absence, undefined);
    await fake.stop();
    assert.equal(runtime.absence, undefined);
    stop.abort();
    await running;
  });

  test('is not absent on the node of a cluster', async () => {
    await using fake = new FakeRuntime();
    const stop = new AbortController();
    const runtime = new NodeRuntime({ socketPath: fake.socketPath, logger });
    const running = runtime.run(stop.signal);
    await until('it was asked', () => /runtime\.sock/.test(runtime.problem ?? ''));
    assert.equal(runtime.absence, undefined);
    stop.abort();
    await running;
  });

  test('is not absent while it has answered and not listed its containers', async () => {
    await using fake = new FakeRuntime();
    const stop = new AbortController();
    await fake.start({ Version: () => ({ runtimeName: 'slow', runtimeVersion: '1' }) });
    const runtime = new NodeRuntime({ socketPath: fake.socketPath, logger, isOptional: true });
    const running = runtime.run(stop.signal);
    await until('it has answered', () => runtime.problem?.includes('has not listed its containers yet'));
    assert.equal(runtime.absence, undefined);
    stop.abort();
    await running;
  });
});
