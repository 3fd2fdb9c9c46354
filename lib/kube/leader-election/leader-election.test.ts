import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { ManualClock } from '../../time/clock.fixture.ts';
import {
  type LeaderElectionOptions,
  LeadershipLostError,
  runElection,
  type Term,
} from './leader-election.ts';
import { LeaseLink, LeaseServer } from './lease-api.fixture.ts';

/** A process in the election; its work lasts until it is told to end, plus `workEndMs`. */
class Candidate {
  readonly link: LeaseLink;
  readonly stopping = new AbortController();
  readonly log: string[] = [];
  term: Term | undefined;
  reason: unknown;
  readonly end: Promise<void>;

  readonly #clock: ManualClock;

  constructor(
    { clock, server }: World,
    identity: string,
    { workEndMs = 0, ...options }: Partial<LeaderElectionOptions> & { workEndMs?: number } = {},
  ) {
    this.#clock = clock;
    this.link = new LeaseLink(server, clock, () => 1, true);
    this.link.network = { kind: 'works', delayMs: 0 };
    const lead = async (signal: AbortSignal, term: Term): Promise<void> => {
      this.term = term;
      this.log.push(`leads ${clock.monotonicMs()}`);
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      this.reason = signal.reason;
      this.log.push(`reported ${clock.monotonicMs()}`);
      if (workEndMs > 0) await new Promise<void>((resolve) => void clock.schedule(workEndMs, resolve));
      this.log.push(`ended ${clock.monotonicMs()}`);
    };
    const { signal } = this.stopping;
    this.end = runElection({ lock: this.link, lead, signal, identity, clock, random: () => 0, ...options });
  }

  /** Stops it, and waits for its end without moving time on. */
  async stop(): Promise<void> {
    this.stopping.abort(new Error('stop'));
    await this.#clock.advance(0);
    await this.end;
  }
}

interface World {
  readonly clock: ManualClock;
  readonly server: LeaseServer;
}

function newWorld(): World {
  return { clock: new ManualClock(0), server: new LeaseServer() };
}

suite('leader election', () => {
  test('the first takes the lease and renews it; it is as other programs expect it', async () => {
    const world = newWorld();
    const a = new Candidate(world, 'a');
    await world.clock.advance(0);
    assert.deepEqual(a.log, ['leads 0']);
    const time = '2030-01-01T00:00:00.000000Z';
    const spec = { holderIdentity: 'a', leaseDurationSeconds: 15, leaseTransitions: 0, acquireTime: time };
    assert.deepEqual(world.server.lease?.spec, { ...spec, renewTime: time });
    await world.clock.advance(4000);
    assert.deepEqual(world.server.lease?.spec, { ...spec, renewTime: '2030-01-01T00:00:04.000000Z' });
    await a.stop();
    assert.deepEqual([world.server.lease?.spec?.holderIdentity, world.clock.timers], [undefined, 0]);
  });

  test('stopped, it ends its work and only then gives the lease back; the next one need not wait', async () => {
    const world = newWorld();
    const a = new Candidate(world, 'a', { workEndMs: 40_000 });
    await world.clock.advance(0);
    const b = new Candidate(world, 'b');
    await world.clock.advance(5000);
    a.stopping.abort(new Error('stop'));
    await world.clock.advance(39_000);
    assert.equal(world.server.lease?.spec?.holderIdentity, 'a', 'renewed until the work has ended');
    await world.clock.advance(3000);
    assert.deepEqual(a.log, ['leads 0', 'reported 5000', 'ended 45000']);
    assert.deepEqual(b.log, ['leads 46000']);
    assert.equal(world.server.lease?.spec?.leaseTransitions, 1);
    await a.stop();
    await b.stop();
  });

  test('a leader that is cut off has to end at its deadline, before another takes over; reconnected, it waits its turn', async () => {
    const world = newWorld();
    const a = new Candidate(world, 'a');
    await world.clock.advance(0);
    const b = new Candidate(world, 'b');
    await world.clock.advance(5000);
    a.link.network = { kind: 'lost' };
    await world.clock.advance(30_000);
    // Its last renewal was at 4000, and b sees the lease every two seconds.
    assert.deepEqual(a.log, ['leads 0', 'reported 14000', 'ended 14000']);
    assert.ok(a.reason instanceof LeadershipLostError);
    assert.equal(a.reason.code, 'RAMPART_CONFLICT');
    assert.deepEqual(b.log, ['leads 20000']);
    a.link.network = { kind: 'works', delayMs: 0 };
    await world.clock.advance(30_000);
    assert.equal(a.log.length, 3);
    b.stopping.abort();
    await world.clock.advance(3000);
    assert.equal(a.log.length, 4);
    await a.stop();
    await b.stop();
  });

  test('a renewal, and the taking of the lease, count from when they were sent', async () => {
    for (const renewed of [true, false]) {
      const world = newWorld();
      // The answer needs 4 s: 0 there, 4000 back. Taking the lease is two requests.
      let sent = 0;
      const delays = renewed ? [0, 0, 0, 0, 0, 4000] : [0, 0, 0, 4000];
      const lock = new LeaseLink(world.server, world.clock, () => (delays[sent++] ?? 0) / 4000, true);
      lock.network = { kind: 'works', delayMs: 4000 };
      const a = new Candidate(world, 'a', { lock });
      await world.clock.advance(renewed ? 4000 : 4001);
      lock.network = { kind: 'lost' };
      await world.clock.advance(14_000);
      assert.equal(a.log.at(-1), renewed ? 'ended 12000' : 'ended 10000');
      a.stopping.abort();
      await world.clock.advance(20_000);
      await a.end;
    }
  });

  test('an answer that comes after the deadline does not make a leader', async () => {
    const world = newWorld();
    const lock = new LeaseLink(world.server, world.clock, () => 1, true);
    lock.network = { kind: 'works', delayMs: 2500 };
    const a = new Candidate(world, 'a', { lock });
    await world.clock.advance(9999);
    assert.deepEqual(a.log, [], 'four ways of 2.5 s each: the lease is taken at 7500');
    assert.equal(world.server.lease?.spec?.holderIdentity, 'a');
    lock.network = { kind: 'works', delayMs: 0 };
    await world.clock.advance(3000);
    assert.deepEqual(a.log, ['leads 12000'], 'at the next try');
    await a.stop();
  });

  test('a leader that is gone: the next takes over when the lease has not changed for its duration', async () => {
    const world = newWorld();
    world.server.create({
      holderIdentity: 'gone',
      leaseDurationSeconds: 7,
      renewTime: '2099-01-01T00:00:00.000000Z',
    });
    const b = new Candidate(world, 'b');
    await world.clock.advance(6000);
    world.server.touch();
    await world.clock.advance(6999);
    assert.deepEqual(b.log, []);
    await world.clock.advance(10_000);
    // Seen changed at 8000... the try at 6000 came before the touch.
    assert.deepEqual(b.log, ['leads 16000']);
    assert.deepEqual(world.server.lease?.metadata.labels, { touched: 'yes' }, 'what else is in it is kept');
    await b.stop();
  });

  test('a changed label does not disturb the leader', async () => {
    const world = newWorld();
    const a = new Candidate(world, 'a');
    await world.clock.advance(1000);
    world.server.touch();
    await world.clock.advance(30_000);
    assert.deepEqual(a.log, ['leads 0']);
    assert.deepEqual(world.server.lease?.metadata.labels, { touched: 'yes' });
    await a.stop();
  });

  test('endless changes of a label do not disturb the leader', async () => {
    const world = newWorld();
    const a = new Candidate(world, 'a');
    await world.clock.advance(0);
    for (let second = 0; second < 30; second++) {
      world.server.touch();
      await world.clock.advance(1000);
    }
    assert.deepEqual(a.log, ['leads 0']);
    await a.stop();
  });

  test('a process that stood still while it took the lease does not lead by an answer of long ago', async () => {
    const world = newWorld();
    let stoodMs = 0;
    const clock = {
      monotonicMs: () => world.clock.monotonicMs() + stoodMs,
      wallMs: () => world.clock.wallMs(),
      schedule: world.clock.schedule.bind(world.clock),
    };
    const lock = new LeaseLink(world.server, world.clock, () => 1, true);
    lock.network = { kind: 'works', delayMs: 10 };
    const a = new Candidate(world, 'a', { clock, lock });
    await world.clock.advance(30);
    assert.equal(world.server.lease?.spec?.holderIdentity, 'a');
    stoodMs = 10_000;
    await world.clock.advance(1000);
    assert.deepEqual(a.log, []);
    await world.clock.advance(3000);
    assert.deepEqual(a.log, ['leads 2080'], 'it takes the lease anew');
    a.stopping.abort();
    await world.clock.advance(1000);
    await a.end;
  });

  test('the answer to a renewal gets lost: the leader goes on', async () => {
    const world = newWorld();
    const a = new Candidate(world, 'a');
    await world.clock.advance(1000);
    a.link.network = { kind: 'mute' };
    await world.clock.advance(2000);
    a.link.network = { kind: 'works', delayMs: 0 };
    await world.clock.advance(30_000);
    assert.deepEqual(a.log, ['leads 0']);
    await a.stop();
  });

  for (const known of [true, false]) {
    test(`an earlier request of its own comes in between (${known ? 'update' : 'create'}): it leads at once`, async () => {
      const world = newWorld();
      const own = { holderIdentity: 'a', leaseDurationSeconds: 15 };
      if (known) world.server.create(own);
      const lock = new LeaseLink(world.server, world.clock, () => 1, true);
      lock.network = { kind: 'works', delayMs: 10 };
      const a = new Candidate(world, 'a', { lock });
      // Read at 10, written at 30.
      await world.clock.advance(25);
      if (world.server.lease === undefined) world.server.create(own);
      else world.server.touch();
      await world.clock.advance(1000);
      assert.deepEqual(a.log, ['leads 80'], 'read once more and written: four ways of 10 ms');
      assert.equal(world.server.lease?.spec?.leaseTransitions ?? 0, 0);
      a.stopping.abort();
      await world.clock.advance(1000);
      await a.end;
    });
  }

  test('another comes in between: it waits its turn', async () => {
    const world = newWorld();
    const lock = new LeaseLink(world.server, world.clock, () => 1, true);
    lock.network = { kind: 'works', delayMs: 10 };
    const a = new Candidate(world, 'a', { lock });
    await world.clock.advance(25);
    world.server.create({ holderIdentity: 'b', leaseDurationSeconds: 15 });
    await world.clock.advance(10_000);
    assert.deepEqual([a.log, world.server.writes], [[], 1]);
    a.stopping.abort();
    await world.clock.advance(1000);
    await a.end;
  });

  test('its own lease that is changed without end: it asks at most twice in a try', async () => {
    const world = newWorld();
    world.server.create({ holderIdentity: 'a', leaseDurationSeconds: 15 });
    const lock = new LeaseLink(world.server, world.clock, () => 1, true);
    lock.network = { kind: 'works', delayMs: 0 };
    const { get } = lock;
    let asked = 0;
    lock.get = async (signal) => {
      asked++;
      const lease = await get.call(lock, signal);
      world.server.touch();
      return lease;
    };
    const a = new Candidate(world, 'a', { lock });
    await world.clock.advance(1999);
    assert.deepEqual([a.log, asked], [[], 2]);
    lock.get = get;
    await world.clock.advance(1);
    assert.deepEqual(a.log, ['leads 2000']);
    await a.stop();
  });

  test('a deleted lease: the leader notices at its next renewal, others wait until its time is over', async () => {
    const world = newWorld();
    const a = new Candidate(world, 'a');
    await world.clock.advance(0);
    const b = new Candidate(world, 'b');
    await world.clock.advance(5000);
    world.server.lease = undefined;
    a.link.network = { kind: 'lost' };
    await world.clock.advance(30_000);
    assert.deepEqual([a.log[1], b.log], ['reported 14000', ['leads 20000']]);
    a.link.network = { kind: 'works', delayMs: 0 };
    world.server.lease = undefined;
    await world.clock.advance(2000);
    assert.match(String(b.reason), /the lease was deleted/);
    await world.clock.advance(20_000);
    assert.equal([...a.log, ...b.log].filter((line) => line.startsWith('leads')).length, 3);
    await a.stop();
    await b.stop();
  });

  test('a lease taken by force: the leader notices at its next renewal', async () => {
    const world = newWorld();
    const a = new Candidate(world, 'a');
    await world.clock.advance(1000);
    const { lease } = world.server;
    assert.ok(lease);
    world.server.update({ ...lease, spec: { ...lease.spec, holderIdentity: 'person' } });
    await world.clock.advance(1000);
    assert.match(String(a.reason), /the lease is now held by "person"/);
    await a.stop();
    assert.equal(world.server.lease?.spec?.holderIdentity, 'person', 'it gives back only what it has');
  });

  test('work that ends by itself, or fails: the lease is given back and the election is over', async () => {
    const world = newWorld();
    const failure = new Error('broken');
    for (const lead of [
      async () => undefined,
      () => Promise.reject(failure),
      (): never => {
        throw failure;
      },
    ]) {
      const { end } = new Candidate(world, 'a', { lead });
      const [[result]] = await Promise.all([Promise.allSettled([end]), world.clock.advance(0)]);
      assert.equal(result?.status === 'rejected' ? result.reason : failure, failure);
      assert.equal(world.server.lease?.spec?.holderIdentity, undefined);
      assert.equal(world.clock.timers, 0);
    }
  });

  test('given back also when a renewal of its own, or a label, comes between', async () => {
    const world = newWorld();
    const a = new Candidate(world, 'a');
    await world.clock.advance(1000);
    const { get } = a.link;
    let touched = 0;
    a.link.get = async (signal) => {
      const lease = await get.call(a.link, signal);
      if (touched++ < 2) world.server.touch();
      return lease;
    };
    await a.stop();
    assert.deepEqual([touched, world.server.lease?.spec?.holderIdentity], [3, undefined]);
    assert.equal(a.term?.isCurrent(), false, 'what still runs learns that the term is over');
  });

  test('work that ignores its end is noticed when another may lead, and never runs twice', async () => {
    const world = newWorld();
    const overruns: number[] = [];
    const a = new Candidate(world, 'a', {
      workEndMs: 60_000,
      onOverrun: () => overruns.push(world.clock.monotonicMs()),
    });
    await world.clock.advance(1000);
    a.link.network = { kind: 'refused' };
    await world.clock.advance(30_000);
    a.link.network = { kind: 'works', delayMs: 0 };
    await world.clock.advance(30_000);
    assert.deepEqual([a.log, overruns], [['leads 0', 'reported 10000'], [15_000]]);
    await world.clock.advance(10_000);
    assert.deepEqual(a.log.slice(2), ['ended 70000', 'leads 70000']);
    a.stopping.abort();
    await world.clock.advance(60_000);
    await a.end;
  });

  test('a process that stood still knows by the clock, before its timers run', async () => {
    const world = newWorld();
    let stoodMs = 0;
    const clock = {
      monotonicMs: () => world.clock.monotonicMs() + stoodMs,
      wallMs: () => world.clock.wallMs(),
      schedule: world.clock.schedule.bind(world.clock),
    };
    const a = new Candidate(world, 'a', { clock });
    await world.clock.advance(0);
    assert.equal(a.term?.isCurrent(), true);
    stoodMs = 10_000;
    assert.equal(a.term?.isCurrent(), false);
    assert.equal(a.log.length, 1);
    await a.stop();
  });

  test('every new leader is reported', async () => {
    const world = newWorld();
    const seen: string[] = [];
    const b = new Candidate(world, 'b', { onNewLeader: (identity) => seen.push(identity) });
    await world.clock.advance(3000);
    await b.stop();
    const a = new Candidate(world, 'a');
    await world.clock.advance(0);
    const c = new Candidate(world, 'c', { onNewLeader: (identity) => seen.push(identity) });
    await world.clock.advance(10_000);
    a.stopping.abort();
    await world.clock.advance(10_000);
    assert.deepEqual(seen, ['b', 'a', 'c']);
    await a.stop();
    await c.stop();
  });

  test('stopped before it leads, it leaves no trace', async () => {
    const world = newWorld();
    const a = new Candidate(world, 'a');
    await world.clock.advance(0);
    const b = new Candidate(world, 'b');
    await world.clock.advance(1000);
    await b.stop();
    assert.equal(world.server.lease?.spec?.holderIdentity, 'a');
    await a.stop();
    assert.equal(world.clock.timers, 0);
  });

  for (const times of [
    { leaseDurationSeconds: 10, renewDeadlineMs: 10_000 },
    { leaseDurationSeconds: 10.5 },
    { renewDeadlineMs: 2400 },
    { leaseDurationSeconds: 10, renewDeadlineMs: 9500 },
    { retryPeriodMs: 0 },
    { identity: '' },
  ]) {
    test(`refuses ${JSON.stringify(times)}`, async () => {
      await assert.rejects(new Candidate(newWorld(), 'a', times).end, { code: 'RAMPART_INPUT' });
    });
  }
});
