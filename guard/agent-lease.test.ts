import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import type { KubeClient } from '../lib/kube/client/client.ts';
import { errorFromStatus } from '../lib/kube/client/client-errors.ts';
import type { Lease } from '../lib/kube/object/object.ts';
import { createLogger } from '../lib/telemetry/log.ts';
import { ManualClock } from '../lib/time/clock.fixture.ts';
import { agentGuardsAnnotation } from './agent-lease-names.ts';
import { keepAgentLease } from './agent-lease.ts';
import { GuardStates } from './guard-states.ts';

suite('the lease of an agent', () => {
  test('is renewed 6 times a minute at most, and given back', async () => {
    const clock = new ManualClock();
    const written: Lease[] = [];
    const client = {
      get: () => {
        const lease = written.at(-1);
        if (lease !== undefined) return Promise.resolve(lease);
        const reason = { code: 404, reason: 'NotFound', message: 'none' };
        return Promise.reject(errorFromStatus('get the lease', reason));
      },
      create: (_: unknown, lease: Lease) => Promise.resolve(written.push(lease)),
      update: (_: unknown, lease: Lease) => Promise.resolve(written.push(lease)),
    } as unknown as KubeClient;
    const stop = new AbortController();
    const states = new GuardStates();
    const logger = createLogger({ level: 'silent' });
    const options = { client, nodeName: 'n1', identity: 'n1_1', states, logger, clock };
    const ended = keepAgentLease({ ...options, signal: stop.signal });
    await clock.advance(20_000);
    const before = written.length;
    await clock.advance(600_000);
    const perMinute = (written.length - before) / 10;
    assert.ok(perMinute > 2 && perMinute <= 6, `${perMinute}`);
    assert.equal(written.at(-1)?.spec?.holderIdentity, 'n1_1');
    stop.abort();
    await ended;
    assert.equal(written.at(-1)?.spec?.holderIdentity, '');
  });

  test('a guard that has become ready is reported within a second', async () => {
    const clock = new ManualClock();
    const written: Lease[] = [];
    const client = {
      get: () => Promise.resolve(written.at(-1) ?? { metadata: {} }),
      update: (_: unknown, lease: Lease) => Promise.resolve(written.push(lease)),
    } as unknown as KubeClient;
    const stop = new AbortController();
    const states = new GuardStates(['one']);
    let problem: string | undefined = 'not listed yet';
    states.untilReady('one', () => problem);
    states.set('one', { state: 'running' });
    const logger = createLogger({ level: 'silent' });
    const options = { client, nodeName: 'n1', identity: 'n1_1', states, logger, clock };
    const ended = keepAgentLease({ ...options, signal: stop.signal });
    await clock.advance(5000);
    assert.equal(written.length, 1);
    problem = undefined;
    await clock.advance(2000);
    assert.equal(written.length, 2);
    assert.match(written[1]?.metadata.annotations?.[agentGuardsAnnotation] ?? '', /"state":"running"/);
    stop.abort();
    await ended;
  });
});
