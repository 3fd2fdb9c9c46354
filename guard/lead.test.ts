import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import type { KubeClient } from '../lib/kube/client/client.ts';
import { unreachable } from '../lib/kube/client/client-errors.ts';
import { LeaseServer } from '../lib/kube/leader-election/lease-api.fixture.ts';
import { type Lease, namespaces, type ResourceType } from '../lib/kube/object/object.ts';
import { ManualClock } from '../lib/time/clock.fixture.ts';
import { aborted } from '../lib/time/abort.ts';
import { createLogger } from '../lib/telemetry/log.ts';
import { Leadership } from './lead.ts';
import { readGuardStates } from './agent-lease-names.ts';
import { GuardStates } from './guard-states.ts';

const guards = ['file-access', 'file-integrity', 'policy-audit', 'bpf-programs'];

/** An operator whose API can be cut off. */
class Operator {
  isCutOff = false;
  readonly working = new Set<string>();
  readonly leadership: Leadership;
  readonly states = new GuardStates(guards);
  readonly stop = new AbortController();
  readonly ended: Promise<unknown>;

  constructor(server: LeaseServer, clock: ManualClock, identity: string, failing = '') {
    const answer = <T>(ask: () => T): Promise<T> =>
      this.isCutOff ? Promise.reject(unreachable('ask', 'cut off')) : Promise.resolve().then(ask);
    const client = {
      get: (type: ResourceType) => answer(() => (type === namespaces ? {} : server.lease)),
      create: (_: ResourceType, { spec, metadata }: Lease) =>
        answer(() => server.create(spec ?? {}, metadata)),
      update: (_: ResourceType, lease: Lease) => answer(() => server.update(lease)),
    } as unknown as KubeClient;
    const logger = createLogger({ level: 'silent' });
    this.leadership = new Leadership({ client, logger, identity, states: this.states, clock });
    this.ended = Promise.allSettled(
      guards.map((guard) =>
        this.leadership.lead(this.stop.signal, async (term) => {
          if (guard === failing) throw new Error('not here');
          this.working.add(guard);
          await aborted(term);
          this.working.delete(guard);
        }),
      ),
    );
  }

  async end(): Promise<void> {
    this.stop.abort();
    await this.ended;
    await this.leadership[Symbol.asyncDispose]();
  }
}

suite('work of guards once per cluster', () => {
  test('one process does it all, which at rest is 30 writes a minute at most', async () => {
    const [server, clock] = [new LeaseServer(), new ManualClock()];
    const first = new Operator(server, clock, 'first');
    await clock.advance(1);
    const second = new Operator(server, clock, 'second');
    await clock.advance(5000);
    assert.deepEqual([...first.working].toSorted(), guards.toSorted());
    const reported = (): unknown[] =>
      [...(server.lease === undefined ? [] : readGuardStates(server.lease))].map(([name, { state }]) => [
        name,
        state,
      ]);
    assert.deepEqual(
      reported(),
      guards.map((name) => [name, 'starting']),
    );
    first.states.set('file-access', { state: 'running' });
    await clock.advance(3000);
    assert.deepEqual(reported()[0], ['file-access', 'running']);
    const { writes } = server;
    await clock.advance(60_000);
    const perMinute = server.writes - writes;
    assert.ok(perMinute > 0 && perMinute <= 30, `${perMinute}`);
    assert.deepEqual([first.leadership.leader, second.leadership.leader], ['first', 'first']);
    // Stopped in order, it gives the lease back, so that its successor need not wait.
    await first.end();
    assert.equal(first.working.size, 0);
    await clock.advance(3000);
    assert.equal(second.working.size, guards.length);
    await second.end();
  });

  test('another takes over within 15 s of the last moment of one that is gone, and never works beside it', async () => {
    for (let offsetMs = 0; offsetMs < 2400; offsetMs += 300) {
      const [server, clock] = [new LeaseServer(), new ManualClock()];
      const first = new Operator(server, clock, 'first');
      await clock.advance(1);
      const second = new Operator(server, clock, 'second');
      await clock.advance(20_000 + offsetMs);
      assert.equal(first.working.size, guards.length);
      first.isCutOff = true;
      await clock.advance(15_000, () => assert.ok(first.working.size === 0 || second.working.size === 0));
      assert.equal(second.working.size, guards.length, `${offsetMs}`);
      // Back again, it waits for its turn.
      first.isCutOff = false;
      await clock.advance(10_000);
      assert.equal(first.working.size, 0);
      await second.end();
      await clock.advance(3000);
      assert.equal(first.working.size, guards.length);
      await first.end();
    }
  });

  test('a guard that cannot work takes no other with it', async () => {
    const [server, clock] = [new LeaseServer(), new ManualClock()];
    const operator = new Operator(server, clock, 'first', 'policy-audit');
    await clock.advance(5000);
    assert.deepEqual([...operator.working], ['file-access', 'file-integrity', 'bpf-programs']);
    await operator.end();
  });
});
