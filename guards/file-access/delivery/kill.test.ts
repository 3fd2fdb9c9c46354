// kill -9 at any moment: what was taken arrives, at least once and in order.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';

import { assertReached, deepTest, scaled } from '../../../lib/testing/depth.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import {
  accept,
  answerWith,
  balanced,
  closedPort,
  inBalance,
  type Manners,
  openQuick,
  Receiver,
} from './receiver.fixture.ts';
import { TemporaryDirectory } from '../../../lib/testing/temporary-directory.fixture.ts';

const fixture = join(import.meta.dirname, 'kill.fixture.ts');
const KILLS = scaled(60);
const LANES = 2;

interface Ended {
  /** Ids that were taken, by the number of their callback. */
  readonly taken: readonly string[][];
  readonly lines: readonly string[];
}

/** Runs the process until `enough` of its output, and kills it. */
async function killed(
  parts: {
    readonly directory: string;
    readonly round: number;
    readonly pace: string;
    readonly callbacks: string[];
  },
  enough: (lines: number, output: () => string) => boolean,
  afterMs: number,
): Promise<Ended> {
  const { directory, round, pace, callbacks } = parts;
  // A proxy in the environment is not to be used.
  const env = {
    ...process.env,
    NODE_USE_ENV_PROXY: '1',
    HTTP_PROXY: 'http://127.0.0.1:1',
    http_proxy: 'http://127.0.0.1:1',
  };
  const child = spawn(process.execPath, [fixture, directory, String(round), pace, ...callbacks], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env,
  });
  let output = '';
  let count = 0;
  child.stdout.setEncoding('utf8').on('data', (part: string) => {
    output += part;
    count += part.split('\n').length - 1;
  });
  const closed = once(child, 'close');
  let ended: number | null = null;
  try {
    while (!enough(count, () => output) && child.exitCode === null) {
      await Promise.race([once(child.stdout, 'data'), closed]);
    }
    await delay(afterMs);
    ended = child.exitCode;
  } finally {
    child.kill('SIGKILL');
    await closed;
  }
  assert.equal(ended, null, 'it has ended by itself');
  // The last line may be cut off: its alert was not confirmed.
  const lines = output.split('\n').slice(0, -1);
  const taken = callbacks.map((_, number) => lines.filter((line) => line.startsWith(`${number}-`)));
  return { taken, lines };
}

/** All that was taken arrived, and what arrived did so in order. */
function check(receiver: Receiver, taken: readonly string[]): void {
  const { firsts } = receiver;
  const arrived = new Set(firsts);
  assert.deepEqual(
    taken.filter((id) => !arrived.has(id)),
    [],
    'nothing is lost',
  );
  assert.deepEqual(firsts, firsts.toSorted(), 'the first deliveries are in order');
}

suite('killed', { timeout: 300_000 }, () => {
  const cache = new TemporaryDirectory();
  before(() => void (process.env['NODE_COMPILE_CACHE'] ??= cache.path));
  after(() => cache[Symbol.dispose]());

  test(`${KILLS} times kill -9 while queueing and delivering`, async (t) => {
    let twice = 0;
    let count = 0;
    let leftover = 0;
    const byKilled = { good: 0, moody: 0 };
    const lane = async (): Promise<void> => {
      using directory = new TemporaryDirectory();
      await using good = await Receiver.start();
      await using moody = await Receiver.start();
      const moods: Manners[] = [
        accept,
        accept,
        answerWith(503),
        answerWith(404),
        (_received, _response, request) => void request.socket.resetAndDestroy(),
        (received, response, request) => void setTimeout(() => accept(received, response, request), 5),
      ];
      moody.manners = (...exchange) => moods[Math.floor(Math.random() * moods.length)]?.(...exchange);
      const downPort = await closedPort();
      const callbacks = [good.url(), moody.url(), `http://127.0.0.1:${downPort}/`];
      const taken: string[][] = callbacks.map(() => []);
      for (let round = 0; round < KILLS / LANES; round++) {
        const wanted = round % 10 === 9 ? 0 : 1 + Math.floor(Math.random() * 60);
        const ended = await killed(
          { directory: directory.path, round, pace: 'fast', callbacks },
          (lines) => lines >= wanted,
          Math.random() * 120,
        );
        for (const [number, ids] of ended.taken.entries()) taken[number]?.push(...ids);
      }
      byKilled.good += good.taken.length;
      byKilled.moody += moody.taken.length;
      await using delivery = openQuick(directory.path);
      leftover += delivery.stats.recovered;
      await using back = await Receiver.start({ port: downPort });
      await until(() => delivery.stats.depth === 0);
      assert.deepEqual(balanced(delivery), inBalance);
      assert.equal(delivery.stats.damagedFiles, 0);
      for (const [number, receiver] of [good, moody, back].entries()) {
        check(receiver, taken[number] ?? []);
        count += taken[number]?.length ?? 0;
        twice += receiver.taken.length - receiver.firsts.length;
      }
    };
    await Promise.all(Array.from({ length: LANES }, lane));
    assertReached(byKilled.good > 0 && byKilled.moody > 0, 'the killed ones have delivered, too');
    assertReached(count > 5 * KILLS, `only ${count} alerts`);
    t.diagnostic(
      `${count} alerts taken, none lost, ${byKilled.good + byKilled.moody} delivered by the killed ones, ` +
        `${leftover} left by the last kill, ${twice} delivered twice`,
    );
  });

  deepTest('ten minutes without a receiver, killed meanwhile: nothing is lost', async (t) => {
    using directory = new TemporaryDirectory();
    const port = await closedPort();
    const callbacks = [`http://127.0.0.1:${port}/alerts`];
    const taken: string[] = [];
    let seconds = 0;
    let retried = 0;
    for (let round = 0; seconds < 600; round++) {
      const wanted = 30 + Math.floor(Math.random() * 120);
      const marks = (output: string): string[] => output.match(/^second \d+$/gm) ?? [];
      const ended = await killed(
        { directory: directory.path, round, pace: 'clock', callbacks },
        (_lines, output) => marks(output()).length >= wanted,
        Math.random() * 10,
      );
      taken.push(...(ended.taken[0] ?? []));
      const passed = marks(`${ended.lines.join('\n')}\n`);
      seconds += passed.length;
      retried += Number(passed.at(-1)?.split(' ')[1] ?? 0);
    }
    assert.ok(retried > 10, `only ${retried} tries in ${seconds} s`);
    await using receiver = await Receiver.start({ port });
    await using delivery = openQuick(directory.path);
    await until(() => delivery.stats.depth === 0);
    check(receiver, taken);
    t.diagnostic(`${taken.length} alerts in ${seconds} s, ${retried} tries, all delivered afterwards`);
  });
});
