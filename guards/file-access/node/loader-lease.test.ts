// The lease of a kernel by a clock that stands still: what its holder writes, and how fast another takes over.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { IndexedCache } from '../../../lib/kube/cache/indexed-cache.ts';
import { runElection } from '../../../lib/kube/leader-election/leader-election.ts';
import { LeaseLink, LeaseServer } from '../../../lib/kube/leader-election/lease-api.fixture.ts';
import { Random, seed } from '../../../lib/testing/depth.fixture.ts';
import { aborted } from '../../../lib/time/abort.ts';
import { ManualClock } from '../../../lib/time/clock.fixture.ts';
import { loaderLease } from './loader-election.ts';
import { loaderLeaseQuery, loaderLeaseStore } from './loader-lease.ts';

const TAKE_OVER_MS = 15_000;

/** Delays of the network. */
const random = new Random(seed);

class Kernel {
  readonly server = new LeaseServer();
  readonly clock = new ManualClock();
  readonly agents: Agent[] = [];

  start(identity: string): Agent {
    const agent = new Agent(this, identity);
    this.agents.push(agent);
    return agent;
  }

  async advance(ms: number): Promise<void> {
    await this.clock.advance(ms, () => {
      for (const agent of this.agents) agent.watch();
    });
  }

  async writesIn(ms: number): Promise<number> {
    const { writes } = this.server;
    await this.advance(ms);
    return this.server.writes - writes;
  }

  get loaders(): string[] {
    return this.agents.filter(({ isLoader }) => isLoader).map(({ identity }) => identity);
  }
}

class Agent {
  readonly identity: string;
  readonly link: LeaseLink;
  readonly stop = new AbortController();
  readonly #kernel: Kernel;
  readonly #cache = new IndexedCache(loaderLeaseQuery('k'));
  isLoader = false;
  isKilled = false;

  constructor(kernel: Kernel, identity: string) {
    this.#kernel = kernel;
    this.identity = identity;
    const { server, clock } = kernel;
    this.link = new LeaseLink(server, clock, () => random.next(), true);
    this.watch();
    void this.#cache.endList('0');
    void runElection({
      ...loaderLease,
      lock: loaderLeaseStore({ store: this.link, cache: this.#cache, identity, clock }),
      ...{ identity, clock, signal: this.stop.signal },
      lead: async (term) => {
        this.isLoader = !this.isKilled;
        await aborted(term);
        this.isLoader = false;
      },
    });
  }

  watch(): void {
    const { lease } = this.#kernel.server;
    if (lease !== undefined && this.link.network.kind === 'works') this.#cache.put(lease);
  }

  kill(): void {
    this.isKilled = true;
    this.isLoader = false;
    this.link.network = { kind: 'lost' };
  }
}

suite(`the lease of a kernel (RAMPART_TEST_SEED=${seed})`, () => {
  test('an agent that is alone loads at once and renews nothing', async () => {
    const kernel = new Kernel();
    kernel.start('n1');
    // Two requests, each up to 100 ms; the lease of another process would be waited for 10 s.
    await kernel.advance(1000);
    assert.deepEqual(kernel.loaders, ['n1']);
    await kernel.advance(5000);
    assert.equal(await kernel.writesIn(600_000), 0);
    assert.deepEqual(kernel.loaders, ['n1']);
  });

  test('its holder renews it while another asks, and rests a minute after the last one', async () => {
    const kernel = new Kernel();
    kernel.start('n1');
    await kernel.advance(60_000);
    const second = kernel.start('n2');
    for (let minute = 0; minute < 10; minute++) {
      assert.ok((await kernel.writesIn(60_000)) >= 20);
      assert.deepEqual(kernel.loaders, ['n1']);
    }
    second.stop.abort();
    await kernel.advance(61_000);
    assert.equal(await kernel.writesIn(600_000), 0);
  });

  test('another takes over within 15 s, whenever the holder ends, and then rests', async () => {
    for (let offsetMs = 0; offsetMs < 70_000; offsetMs += 1700) {
      const kernel = new Kernel();
      const first = kernel.start('n1');
      await kernel.advance(30_000);
      const second = kernel.start('n2');
      await kernel.advance(offsetMs);
      first.kill();
      await kernel.advance(TAKE_OVER_MS);
      assert.deepEqual(kernel.loaders, ['n2'], `killed after ${offsetMs} ms`);
      await kernel.advance(5000);
      assert.equal(await kernel.writesIn(60_000), 0);
      second.stop.abort();
      await kernel.advance(1000);
    }
  });

  test('one that comes to a kernel whose holder ended at rest takes over within 15 s', async () => {
    const kernel = new Kernel();
    kernel.start('n1');
    await kernel.advance(600_000);
    kernel.agents[0]?.kill();
    await kernel.advance(600_000);
    kernel.start('n2');
    await kernel.advance(TAKE_OVER_MS);
    assert.deepEqual(kernel.loaders, ['n2']);
  });

  test('stopped in order, the next one follows at its next try', async () => {
    const kernel = new Kernel();
    const first = kernel.start('n1');
    await kernel.advance(1000);
    kernel.start('n2');
    await kernel.advance(90_000);
    first.stop.abort();
    await kernel.advance(loaderLease.retryPeriodMs * 1.5);
    assert.deepEqual(kernel.loaders, ['n2']);
  });

  test('an idle holder notices that its lease was deleted or taken over', async () => {
    const kernel = new Kernel();
    const agent = kernel.start('n1');
    await kernel.advance(30_000);
    const { lease } = kernel.server;
    assert.ok(lease);
    kernel.server.update({ ...lease, spec: { ...lease.spec, holderIdentity: 'somebody' } });
    await kernel.advance(1);
    await kernel.advance(loaderLease.retryPeriodMs * 1.5);
    assert.equal(agent.isLoader, false);
    await kernel.advance(TAKE_OVER_MS);
    assert.equal(agent.isLoader, true);
  });

  test('four that start together: one loads, the others wait', async () => {
    const kernel = new Kernel();
    for (const name of ['n1', 'n2', 'n3', 'n4']) kernel.start(name);
    for (let second = 0; second < 120; second++) {
      await kernel.advance(1000);
      if (second > 3) assert.equal(kernel.loaders.length, 1, `after ${second} s: ${kernel.loaders.join()}`);
    }
  });
});
