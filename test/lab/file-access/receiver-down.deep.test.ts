// Receivers that are down, the agent killed meanwhile: every alert arrives afterwards, in order.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';

import { scaled } from '../../../lib/testing/depth.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { sensorSkip } from '../../../lib/sensor/sensor.fixture.ts';
import type { KiveAlert } from '../../../guards/file-access/alert/alert.ts';
import {
  accept,
  answerWith,
  hang,
  type Manners,
  Receiver,
} from '../../../guards/file-access/delivery/receiver.fixture.ts';
import { labObstacle } from '../obstacle.ts';
import { accessOf, LabCluster, pathIn, readNumbered } from './lab-cluster.fixture.ts';

const outageMs = scaled(20_000, 6000);
/** Between two kills of the agent. */
const KILL_MS = Math.max(3000, outageMs / 40);
/** Between two accesses: in a long outage fewer, so that what waits is thousands and not a hundred thousand. */
const ACCESS_MS = Math.max(20, outageMs / 6000);
/** The longest pause of a delivery between two tries, then what has waited, on a machine with other work. */
const PATIENCE_MS = 120_000 + outageMs;
const secret = '/secret.txt';

/** A receiver at one address that is in trouble for a while. */
class Troubled implements AsyncDisposable {
  readonly trouble: string;
  readonly #manners: Manners | undefined;
  readonly #all: Receiver[] = [];
  readonly port: number;

  private constructor(trouble: string, receiver: Receiver, manners: Manners | undefined) {
    [this.trouble, this.#manners, this.port] = [trouble, manners, receiver.port];
    this.#all.push(receiver);
  }

  static async start(trouble: string, manners?: Manners): Promise<Troubled> {
    return new Troubled(trouble, await Receiver.start(), manners);
  }

  get callback(): string {
    return `http://127.0.0.1:${this.port}/hook?token=secret-of-${this.trouble}`;
  }

  async begin(): Promise<void> {
    const now = this.#all.at(-1);
    if (now === undefined) throw new Error('no receiver');
    if (this.#manners === undefined) await now[Symbol.asyncDispose]();
    else now.manners = this.#manners;
  }

  async end(): Promise<void> {
    const now = this.#all.at(-1);
    if (this.#manners !== undefined && now !== undefined) {
      now.manners = accept;
      return;
    }
    const { port } = this;
    // The port may be the local end of another connection for a moment.
    this.#all.push(await until('the port', () => Receiver.start({ port })));
  }

  /** The requests answered with 202, in order; repetitions too. */
  taken(): { readonly id: string; readonly alert: KiveAlert; readonly line: string }[] {
    return this.#all.flatMap(({ taken, received }) => {
      const lines = new Map(received.map(({ id, line }) => [id, line]));
      return taken.map((id) => {
        const line = lines.get(id) ?? '';
        return { id, line, alert: JSON.parse(line) as KiveAlert };
      });
    });
  }

  /** Each id that came, with all the bodies that it came with. */
  bodies(): Map<string, Set<string>> {
    const bodies = new Map<string, Set<string>>();
    for (const { received } of this.#all)
      for (const { id, line } of received) bodies.set(id, (bodies.get(id) ?? new Set()).add(line));
    return bodies;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#all.at(-1)?.[Symbol.asyncDispose]();
  }
}

suite('receivers that are down', { skip: sensorSkip || labObstacle() }, () => {
  test(`for ${outageMs / 1000} s while the agent is killed again and again: nothing is lost`, async (t) => {
    await using stack = new AsyncDisposableStack();
    const receivers = [
      stack.use(await Troubled.start('refuses')),
      stack.use(await Troubled.start('hangs', hang)),
      stack.use(await Troubled.start('fails', answerWith(500))),
    ];
    const cluster = stack.use(await LabCluster.start());
    const node = await cluster.addNode('n1');
    const { agent } = node;
    const { container } = await node.run({ name: 'web', labels: { app: 'web' } });
    await cluster.setPolicy(
      'p',
      receivers.map(({ callback, trouble }) => ({
        path: secret,
        create: true,
        callback,
        metadata: { trouble },
        matchAny: [{ matchLabels: { app: 'web' } }],
      })),
    );
    await cluster.dataCount('p', receivers.length);
    await until('all watched', async () => (await agent.metric('file_access_watched')) === 4);
    const path = pathIn(container, secret);
    let made = 0;
    const access = (): number => {
      readNumbered(path, ++made);
      return made;
    };
    await node.mark();
    for (let i = 0; i < 20; i++) access();
    await node.mark();
    await until('the first', () => receivers.every((one) => one.taken().length === 20));

    const leaseBefore = await cluster.lease();
    for (const one of receivers) await one.begin();
    const endMs = performance.now() + outageMs;
    /** Accesses that some process must have reported: it reported a marker before and one after. */
    const proven = new Set<number>();
    let kills = 0;
    /** From each kill until alerts are reported again. */
    const blindMs: number[] = [];
    while (performance.now() < endMs || kills < 2) {
      const roundEndMs = Math.min(performance.now() + KILL_MS, Math.max(endMs, performance.now()));
      let sure: number[] = [];
      await node.mark();
      do {
        for (let i = 0; i < 10; i++) {
          sure.push(access());
          await delay(ACCESS_MS);
        }
        await node.mark();
        for (const number of sure) proven.add(number);
        sure = [];
      } while (performance.now() < roundEndMs);
      // In the middle of it: these may be reported or not.
      for (let i = 0; i < 5; i++) access();
      await agent.kill();
      kills++;
      const killedMs = performance.now();
      access();
      agent.start();
      await node.markUntilReported();
      blindMs.push(Math.round(performance.now() - killedMs));
    }
    // An agent that was killed goes on with its own lease, and does not wait for its end.
    const lease = await cluster.lease();
    assert.deepEqual(
      [lease.holderIdentity, lease.leaseTransitions],
      [leaseBefore.holderIdentity, leaseBefore.leaseTransitions],
    );
    const waiting = await agent.metric('callback_queue_alerts');
    for (const one of receivers) await one.end();
    const upMs = performance.now();
    await node.mark();
    for (let i = 0; i < 20; i++) proven.add(access());
    await node.mark();
    // The receivers are in this process: asking all the time would keep them from their work.
    const patienceMs = performance.now() + PATIENCE_MS;
    for (let left = waiting; left > 0; left = await agent.metric('callback_queue_alerts')) {
      const taken = receivers.map((one) => `${one.trouble} ${one.taken().length}`).join(', ');
      assert.ok(performance.now() < patienceMs, `${left} wait; taken: ${taken}\n${agent.stderr}`);
      await delay(500);
    }
    const doneMs = performance.now() - upMs;

    const reportedAll = agent.reported.filter(({ alert }) => alert['kive-policy-name'] === 'p');
    let [reported, delivered, repeated] = [0, 0, 0];
    for (const { trouble, taken, bodies } of receivers.map((one) => ({
      trouble: one.trouble,
      taken: one.taken(),
      bodies: one.bodies(),
    }))) {
      const firsts = new Map(taken.map((one) => [one.id, one]));
      delivered += firsts.size;
      repeated += taken.length - firsts.size;
      const mine = reportedAll.filter(({ alert }) => alert['custom-metadata']['trouble'] === trouble);
      reported += mine.length;
      const arrived = new Set([...firsts.values()].map(({ line }) => line));
      const lost = mine.filter(({ line }) => !arrived.has(line));
      assert.deepEqual(lost, [], `${trouble}: told at stdout and not delivered`);
      const numbers = [...firsts.values()].map(({ alert }) => Number(accessOf(alert)));
      assert.deepEqual(
        numbers,
        numbers.toSorted((a, b) => a - b),
        `${trouble}: out of order`,
      );
      assert.equal(new Set(numbers).size, numbers.length, `${trouble}: one access with two ids`);
      const missing = [...proven].filter((number) => !numbers.includes(number));
      assert.deepEqual(missing, [], `${trouble}: accesses that nobody was told of`);
      for (const [id, lines] of bodies) assert.equal(lines.size, 1, `${trouble}: ${id} with two bodies`);
    }
    assert.ok(kills >= 2);
    assert.ok(proven.size > 50);
    assert.doesNotMatch(agent.stderr, /secret-of-/);
    t.diagnostic(
      `${made} accesses, ${kills} kills of the agent, blind after each for ${blindMs.join(', ')} ms; ${proven.size} ` +
        `accesses proven by markers; ${reported} alerts at stdout, ${delivered} at the receivers, ${repeated} of them again; ` +
        `${waiting} waited when the receivers came back, all delivered ${Math.round(doneMs)} ms later`,
    );
  });
});
