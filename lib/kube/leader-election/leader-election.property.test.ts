import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { assertReached, scaled } from '../../testing/depth.fixture.ts';
import * as fc from '../../testing/fast-check.fixture.ts';
import type { Clock } from '../../time/clock.ts';
import { ManualClock, skewed } from '../../time/clock.fixture.ts';
import { runElection, type Term } from './leader-election.ts';
import { LeaseLink, LeaseServer, type Network } from './lease-api.fixture.ts';

/** Clocks that differ by up to 1.15 / 0.85 = 1.35 in speed; 15 s / 10 s allows for 1.5. */
const rate = fc.double({ min: 0.85, max: 1.15, noNaN: true });
const offsetMs = fc.integer({ min: -1_000_000_000, max: 1_000_000_000 });
/** The fastest lease and the slowest deadline are 15 / 1.15 - 10 / 0.85 = 1.28 s apart. */
const workEndMs = fc.nat(1200);

const network: fc.Arbitrary<Network> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('works' as const), delayMs: fc.nat(4000) }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'refused' as const }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'lost' as const }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'mute' as const }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('late' as const), delayMs: fc.nat(40_000) }) },
  // Just quick enough for an answer that comes at the last moment.
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('late' as const), delayMs: fc.nat(9000) }) },
);

type Happening = { readonly afterMs: number; readonly who: number } & (
  | { readonly what: 'network'; readonly network: Network }
  | { readonly what: 'pause'; readonly pauseMs: number }
  | { readonly what: 'stop' | 'crash' | 'start' | 'touch' }
);
const afterMs = fc.nat(15_000);
const who = fc.nat(9);
const happening: fc.Arbitrary<Happening> = fc.oneof(
  { weight: 5, arbitrary: fc.record({ what: fc.constant('network' as const), afterMs, who, network }) },
  {
    weight: 2,
    arbitrary: fc.record({ what: fc.constant('pause' as const), afterMs, who, pauseMs: fc.nat(40_000) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ what: fc.constantFrom('stop', 'crash', 'start', 'touch'), afterMs, who }),
  },
);

const machine = fc.record({ rate, offsetMs, wallOffsetMs: offsetMs, workEndMs, heedsSignal: fc.boolean() });

/** A process: what it does is bound to it, waits while it stands still, and is over when it crashes. */
class Process {
  readonly link: LeaseLink;
  readonly #world: World;
  readonly #workEndMs: number;
  readonly stopping = new AbortController();
  alive = true;
  /** Messages that arrived while it was suspended. */
  #waiting: (() => void)[] | undefined;
  #term: Term | undefined;
  /** Leads, and was not suspended in this term: then no other process may work before its work has ended. */
  #counted = false;
  readonly end: Promise<void>;

  constructor(world: World, setup: World['machines'][number]) {
    this.#world = world;
    this.#workEndMs = setup.workEndMs;
    const own = skewed(world.clock, setup);
    const clock: Clock = {
      ...own,
      schedule: (delayMs, callback) => {
        let cancelled = false;
        const run = (): void => void (cancelled || callback());
        const cancel = own.schedule(delayMs, () => this.#reach(run));
        return () => {
          cancelled = true;
          cancel();
        };
      },
    };
    this.link = new LeaseLink(world.server, world.clock, world.random, setup.heedsSignal, (answer) =>
      this.#reach(answer),
    );
    this.end = runElection({
      lock: this.link,
      lead: (signal, term) => this.#lead(signal, term),
      signal: this.stopping.signal,
      identity: `process ${world.started++}`,
      clock,
      random: world.random,
      onOverrun: () => void (this.#counted && world.faults.push('an overrun, though the work ended in time')),
    });
  }

  /** Whether it would do now what only a leader may do. */
  get works(): boolean {
    return this.alive && this.#waiting === undefined && this.#term?.isCurrent() === true;
  }

  get leads(): boolean {
    return this.#term !== undefined;
  }

  pause(pauseMs: number): void {
    if (this.#waiting !== undefined || !this.alive) return;
    this.#waiting = [];
    // From here on, only the clock can tell it.
    this.#uncount();
    this.#world.clock.schedule(pauseMs, () => {
      const waiting = this.#waiting ?? [];
      this.#waiting = undefined;
      // Its work may go on before its timers do.
      this.#world.check();
      // Timers before answers, or the other way round.
      if (this.#world.random() < 0.5) waiting.reverse();
      for (const callback of waiting) this.#reach(callback);
    });
  }

  crash(): void {
    this.alive = false;
    this.#over();
  }

  #reach(callback: () => void): void {
    if (this.#waiting) this.#waiting.push(callback);
    else if (this.alive) callback();
  }

  async #lead(signal: AbortSignal, term: Term): Promise<void> {
    if (!this.alive) return new Promise(() => undefined);
    if (this.#world.leaders > 0) this.#world.faults.push('two leaders at once');
    if (!term.isCurrent()) this.#world.faults.push('led when its time was over already');
    this.#term = term;
    this.#counted = true;
    this.#world.leaders++;
    this.#world.terms++;
    const { promise, resolve } = Promise.withResolvers<void>();
    signal.addEventListener('abort', () => {
      // The work takes its time to end, measured in real time.
      this.#world.clock.schedule(this.#workEndMs, () => this.#reach(resolve));
    });
    await promise;
    this.#over();
  }

  #over(): void {
    this.#uncount();
    this.#term = undefined;
  }

  #uncount(): void {
    if (this.#counted) this.#world.leaders--;
    this.#counted = false;
  }
}

/** Machines around one server, and what happened to them. */
class World {
  readonly clock = new ManualClock();
  readonly server = new LeaseServer();
  readonly random: () => number;
  readonly machines: readonly {
    rate: number;
    offsetMs: number;
    wallOffsetMs: number;
    workEndMs: number;
    heedsSignal: boolean;
  }[];
  readonly processes: (Process | undefined)[];
  /** Includes those that were told to stop. */
  readonly everybody: Process[] = [];
  started = 0;
  /** Whose work must be over before another begins. */
  leaders = 0;
  terms = 0;
  readonly faults: string[] = [];

  constructor(machines: World['machines'], random: () => number) {
    this.machines = machines;
    this.random = random;
    this.processes = machines.map((setup) => this.#begin(setup));
  }

  happen(event: Happening): void {
    // Half of what happens, happens to the leader.
    const leader = this.processes.findIndex((one) => one?.leads);
    const index = event.who > 4 && leader !== -1 ? leader : event.who % this.machines.length;
    const process = this.processes[index];
    if (event.what === 'touch') this.server.touch();
    else if (event.what === 'network') Object.assign(process?.link ?? {}, { network: event.network });
    else if (event.what === 'start') this.start(index);
    else if (event.what === 'pause') process?.pause(event.pauseMs);
    else if (process) {
      if (event.what === 'crash') process.crash();
      else process.stopping.abort();
      this.processes[index] = undefined;
    }
  }

  /** Moves time on; at every moment at most one process works. */
  async advance(byMs: number): Promise<void> {
    await this.clock.advance(byMs, () => this.check());
  }

  check(): void {
    if (this.working > 1) this.faults.push(`${this.working} work at ${this.clock.monotonicMs()}`);
  }

  get working(): number {
    return this.everybody.filter(({ works }) => works).length;
  }

  start(index: number): void {
    const setup = this.machines[index];
    if (setup) this.processes[index] ??= this.#begin(setup);
  }

  #begin(setup: World['machines'][number]): Process {
    const process = new Process(this, setup);
    this.everybody.push(process);
    return process;
  }
}

/** From 0 up to 1, without it; the same for the same seed (a linear congruential generator). */
function randomNumbers(seed: number): () => number {
  let state = seed % 2 ** 31;
  return () => {
    state = (state * 1_103_515 + 12_345) % 2 ** 31;
    return state / 2 ** 31;
  };
}

const RUNS = 300;

suite('leader election, properties', () => {
  for (const machines of [2, 5]) {
    test(`${machines} machines with skewed clocks on a network that fails: never two leaders, and one at the end`, async () => {
      let terms = 0;
      await fc.assert(
        fc.asyncProperty(
          fc.array(machine, { minLength: machines, maxLength: machines }),
          fc.array(happening, { maxLength: 30, size: 'max' }),
          fc.nat(),
          async (setups, happenings, seed) => {
            const world = new World(setups, randomNumbers(seed));
            for (const event of happenings) {
              await world.advance(event.afterMs);
              world.happen(event);
            }
            // The network heals, and everybody is there again.
            for (const index of setups.keys()) world.start(index);
            for (const process of world.processes) {
              if (process) process.link.network = { kind: 'works', delayMs: 50 };
            }
            // Late messages arrive, and suspended processes continue, within 40 s; then no process waits for
            // longer than a lease and a try.
            await world.advance(80_000);
            assert.deepEqual(world.faults, []);
            assert.equal(world.working, 1, 'nobody leads');
            const { holderIdentity } = world.server.lease?.spec ?? {};
            assert.ok(holderIdentity?.startsWith('process '));
            const writes = world.server.writes;
            await world.advance(30_000);
            assert.ok(world.server.writes > writes, 'the lease is renewed');

            for (const process of world.processes) process?.stopping.abort();
            await world.advance(30_000);
            for (const process of world.processes) await process?.end;
            assert.deepEqual([world.leaders, world.working], [0, 0]);
            assert.equal(world.server.lease?.spec?.holderIdentity, undefined, 'the lease is given back');
            assert.deepEqual(world.faults, []);
            terms += world.terms;
          },
        ),
        { numRuns: RUNS },
      );
      assertReached(terms > 1.5 * scaled(RUNS), `leadership changed hands often: ${terms} terms`);
    });
  }
});
