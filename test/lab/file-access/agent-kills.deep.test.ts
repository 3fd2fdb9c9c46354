// The agent is killed again and again at random moments, while files are read, pods come and go, and a policy
// is edited.
//
// - An alert reports an access that was made, once, with the right pod.
// - Of the accesses made while the agent guarded and before it was killed, none is missing that came before
//   a reported one: the sensor reports them in their order.
// - In the end, the objects are as expected, and no others are left.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';

import { Random, scaled, seed } from '../../../lib/testing/depth.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { sensorSkip } from '../../../lib/sensor/sensor.fixture.ts';
import { labObstacle } from '../obstacle.ts';
import {
  accessOf,
  type GuardedContainer,
  isMarker,
  LabCluster,
  type LabNode,
  pathIn,
  readNumbered,
} from './lab-cluster.fixture.ts';
import { statusOf } from '../../../guards/file-access/policy-status-schema.ts';

const KILLS = scaled(50, 5);
const LASTING_PODS = 3;
const MAX_PASSING_PODS = 5;
const paths = ['/fixed', '/edited'] as const;
const labels = { app: 'kills' };
const matchAny = [{ matchLabels: labels }];
const command = ['sleep', '1000000'];

interface Made {
  readonly pod: string;
  readonly path: string;
  /** Run of the agent's process. */
  readonly run: number;
  /** That process guarded at the time of the access, and had not been told to end yet. */
  readonly isGuarded: boolean;
}

/** A cluster of one node, and all that goes on in it. */
class Turmoil {
  readonly node: LabNode;
  readonly lasting: readonly GuardedContainer[];
  readonly passing: GuardedContainer[] = [];
  /** By its number. */
  readonly made = new Map<number, Made>();
  isGuarded = false;
  isOver = false;
  version = 0;
  edits = 0;
  podsStarted = 0;
  podsEnded = 0;
  readonly #cluster: LabCluster;
  readonly #random: Random;

  constructor(cluster: LabCluster, node: LabNode, lasting: readonly GuardedContainer[], random: Random) {
    [this.#cluster, this.node, this.lasting, this.#random] = [cluster, node, lasting, random];
  }

  access({ pod, container }: GuardedContainer, path: string): number {
    const number = this.made.size;
    this.made.set(number, { pod: pod.name, path, run: this.node.agent.run, isGuarded: this.isGuarded });
    readNumbered(pathIn(container, path), number);
    return number;
  }

  /** Until it is over. */
  async accesses(): Promise<void> {
    while (!this.isOver) {
      this.access(this.#random.pick(this.lasting), this.#random.pick(paths));
      // The others are accesses that must not be reported.
      await delay(this.#random.below(this.isGuarded ? 20 : 150));
    }
  }

  /** Until it is over. */
  async changes(): Promise<void> {
    while (!this.isOver) {
      const { length } = this.passing;
      if (this.#random.chance(0.5)) await this.edit();
      else if (length === MAX_PASSING_PODS || (length > 0 && this.#random.chance(0.4))) {
        const [pod] = this.passing.splice(this.#random.below(length), 1);
        assert.ok(pod);
        await this.node.remove(pod);
        this.podsEnded++;
      } else {
        const name = `passing-${this.podsStarted++}`;
        this.passing.push(await this.node.run({ name, labels, containers: [{ name: 'c', command }] }));
      }
      await delay(this.#random.below(500));
    }
  }

  async edit(): Promise<void> {
    this.version++;
    this.edits++;
    await this.#cluster.setPolicy('edited', [
      { path: '/edited', create: true, metadata: { version: String(this.version) }, matchAny },
    ]);
  }

  /** All expected KiveData, in a line each. */
  expected(): string[] {
    return [...this.lasting, ...this.passing]
      .flatMap(({ container: { id } }) => [
        `containerd://${id} /fixed `,
        `containerd://${id} /edited ${this.version}`,
      ])
      .sort();
  }

  async found(): Promise<string[]> {
    const data = [await this.#cluster.data('fixed'), await this.#cluster.data('edited')].flat();
    return data
      .map(({ metadata: { annotations }, spec }) =>
        [annotations?.['container-id'], annotations?.['path'], spec.metadata?.['version'] ?? ''].join(' '),
      )
      .sort();
  }
}

suite('the agent is killed again and again', { skip: sensorSkip || labObstacle() }, () => {
  test(`${KILLS} times at random moments (RAMPART_TEST_SEED=${seed})`, async (t) => {
    const random = new Random(seed);
    await using cluster = await LabCluster.start();
    const node = await cluster.addNode('n1');
    const { agent } = node;
    const lasting: GuardedContainer[] = [];
    for (let number = 0; number < LASTING_PODS; number++) {
      const name = `lasting-${number}`;
      lasting.push(await node.run({ name, labels, containers: [{ name: 'c', command }] }));
    }
    const turmoil = new Turmoil(cluster, node, lasting, new Random(seed + 1));
    await cluster.setPolicy('fixed', [{ path: '/fixed', create: true, matchAny }]);
    await turmoil.edit();
    await cluster.dataCount('fixed', LASTING_PODS);
    await cluster.dataCount('edited', LASTING_PODS);
    await agent.kill();

    const startedMs = performance.now();
    const going = Promise.all([turmoil.accesses(), turmoil.changes()]);
    going.catch(() => undefined);
    let beforeGuarding = 0;
    try {
      for (let kill = 0; kill < KILLS; kill++) {
        agent.start();
        if (random.chance(0.3)) {
          beforeGuarding++;
          await delay(random.below(700));
        } else {
          await node.markUntilReported();
          turmoil.isGuarded = true;
          const enough = turmoil.made.size + random.below(30);
          while (turmoil.made.size < enough) await delay(random.below(10));
        }
        turmoil.isGuarded = false;
        await agent.kill();
      }
    } catch (error) {
      throw new Error(`run ${agent.run}: ${agent.stderr}`, { cause: error });
    } finally {
      turmoil.isOver = true;
      await going;
    }
    const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);

    // Its final state, and alerts that came meanwhile.
    agent.start();
    await until('what there is to be', async () => {
      const [found, expected] = [await turmoil.found(), turmoil.expected()];
      return found.length === expected.length && found.every((line, index) => line === expected[index]);
    });
    await node.markUntilReported();
    turmoil.isGuarded = true;
    const last: number[] = [];
    for (const container of [...turmoil.lasting, ...turmoil.passing]) {
      for (const path of paths) last.push(turmoil.access(container, path));
    }
    await node.mark();
    turmoil.isGuarded = false;
    for (const name of ['fixed', 'edited']) {
      const count = turmoil.lasting.length + turmoil.passing.length;
      await until(`the status of ${name}`, async () => {
        const policy = await cluster.policy(name);
        return policy !== undefined && statusOf(policy).watchedFiles === count;
      });
    }

    const reported = agent.reported.filter((one) => !isMarker(one));
    const numbers = reported.map(({ alert }) => Number(accessOf(alert)));
    assert.equal(new Set(numbers).size, numbers.length, 'an access was told twice');
    for (const { alert, run, line } of reported) {
      const made = turmoil.made.get(Number(accessOf(alert)));
      assert.deepEqual(
        { pod: alert.pod.name, path: alert.metadata.path, run },
        made && { pod: made.pod, path: made.path, run: made.run },
        line,
      );
    }
    const byRun = Map.groupBy(reported, ({ run }) => run);
    const reportedNumbers = new Set(numbers);
    let owed = 0;
    for (const [run, alerts] of byRun) {
      const of = alerts.map(({ alert }) => Number(accessOf(alert)));
      assert.deepEqual(
        of,
        of.toSorted((a, b) => a - b),
      );
      const lastReported = of.at(-1) ?? -1;
      for (const [number, made] of turmoil.made) {
        if (made.run !== run || !made.isGuarded || number > lastReported) continue;
        owed++;
        assert.ok(reportedNumbers.has(number), `run ${run}: ${number} of ${made.pod}${made.path} is missing`);
      }
    }
    assert.deepEqual(
      last.filter((number) => !reportedNumbers.has(number)),
      [],
    );
    t.diagnostic(
      [
        `${KILLS} kills in ${seconds} s, ${beforeGuarding} of them while it started`,
        `${turmoil.made.size} accesses, ${owed} had to be told, ${reported.length} were`,
        `${turmoil.podsStarted} pods started, ${turmoil.podsEnded} ended, ${turmoil.edits} edits`,
      ].join('; '),
    );
    assert.ok(owed > 2 * KILLS, 'hardly anything was tested');
  });
});
