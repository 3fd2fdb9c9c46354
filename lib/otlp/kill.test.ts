// kill -9 of the receiver and of the sender: what was taken arrives, in order, and no more of it twice than the batch in flight.
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { assertReached, scaled } from '../testing/depth.fixture.ts';
import { TemporaryDirectory } from '../testing/temporary-directory.fixture.ts';
import { until } from '../testing/until.fixture.ts';
import { openQuick, OtlpReceiver } from './receiver.fixture.ts';

const FINDINGS = scaled(100_000, 5000);
const RECEIVER_KILLS = scaled(20, 4);
const SENDER_KILLS = scaled(10, 2);
/** No more than the lines of one death fill: an exporter sends 512 at a time. */
const MAX_BATCHES = Math.min(5, Math.floor(FINDINGS / RECEIVER_KILLS / 512));

function start(name: string, cache: string, ...parameters: readonly string[]): ChildProcess {
  return spawn(process.execPath, [join(import.meta.dirname, name), ...parameters], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] ?? cache },
  });
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const closed = once(child, 'close');
  child.kill('SIGKILL');
  await closed;
}

test(`${FINDINGS} lines, the receiver killed ${RECEIVER_KILLS} times and the sender ${SENDER_KILLS} times`, async (t) => {
  using directory = new TemporaryDirectory();
  const file = directory.at('taken');
  writeFileSync(file, '');
  let url: URL;
  {
    await using receiver = await OtlpReceiver.start();
    url = receiver.url;
  }
  const arrived = (): string[][] =>
    readFileSync(file, 'utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as string[]);

  // The receivers: each dies at a batch of its own, without an answer; the last one lives.
  let receiver: ChildProcess | undefined;
  let deaths = 0;
  const stop = new AbortController();
  const receiving = (async () => {
    for (; !stop.signal.aborted; deaths++) {
      const batches = deaths < RECEIVER_KILLS ? 1 + Math.floor(Math.random() * MAX_BATCHES) : 0;
      const when = deaths % 2 === 0 ? 'after' : 'before';
      receiver = start(
        'kill-receiver.fixture.ts',
        directory.at('cache'),
        url.port,
        file,
        String(batches),
        when,
      );
      receiver.stdout?.resume();
      const [, signal] = (await once(receiver, 'close')) as [number | null, string | null];
      assert.equal(signal, 'SIGKILL');
    }
  })();

  const pushed: string[] = [];
  try {
    for (let round = 0; round < SENDER_KILLS; round++) {
      const count = Math.ceil(FINDINGS / SENDER_KILLS);
      const sender = start(
        'kill-sender.fixture.ts',
        directory.at('cache'),
        directory.at('queue'),
        url.href,
        String(round),
        String(count),
      );
      let output = '';
      sender.stdout?.setEncoding('utf8').on('data', (part: string) => (output += part));
      const ended = once(sender, 'close');
      // Each but the last is killed somewhere on its way.
      const isLast = round === SENDER_KILLS - 1;
      const before = arrived().length;
      const wantedBatches = before + 1 + Math.floor(Math.random() * MAX_BATCHES);
      const deathsWanted = Math.ceil(((round + 1) * RECEIVER_KILLS) / SENDER_KILLS);
      try {
        await until(
          'lines, batches and deaths',
          () =>
            sender.exitCode !== null ||
            (output.length >= count * '000-0000000\n'.length &&
              deaths >= deathsWanted &&
              (isLast || arrived().length >= wantedBatches)),
          300_000,
        );
        assert.equal(sender.exitCode, null, 'it has ended by itself');
      } finally {
        await kill(sender);
        await ended;
      }
      // The last line may be cut off: its record was not confirmed.
      pushed.push(...output.split('\n').slice(0, -1));
    }
    // The records left by the last process.
    await using exporter = openQuick(directory.at('queue'), url);
    await until('an empty queue', () => exporter.stats.depth === 0, 300_000);
    assert.deepEqual(exporter.stats.dropped, { refused: 0, rejected: 0, expired: 0, damaged: 0 });
  } finally {
    stop.abort();
    if (receiver !== undefined) await kill(receiver);
    await receiving;
  }

  const batches = arrived();
  const all = batches.flat();
  const firsts = new Set(all);
  assert.equal(pushed.length, FINDINGS);
  assert.deepEqual(
    pushed.filter((line) => !firsts.has(line)),
    [],
    'nothing is lost',
  );
  assert.deepEqual([...firsts], [...firsts].toSorted(), 'in order');
  // A batch begins where the one before it ended; after a kill where that one began, at the earliest.
  const place = new Map([...firsts].map((line, index) => [line, index]));
  let again = 0;
  for (const [index, batch] of batches.entries()) {
    const places = batch.map((line) => place.get(line) ?? Number.NaN);
    const [first = Number.NaN] = places;
    assert.deepEqual(
      places,
      places.map((_, at) => first + at),
    );
    const previous = (batches[index - 1] ?? []).map((line) => place.get(line) ?? Number.NaN);
    const next = (previous.at(-1) ?? -1) + 1;
    if (first === next) continue;
    again++;
    assert.equal(first, previous[0], 'only the batch in flight is sent again');
  }
  assert.ok(again <= RECEIVER_KILLS + SENDER_KILLS, `${again} batches again`);
  assertReached(again > 0, 'no kill met a batch in flight');
  assert.ok(deaths >= RECEIVER_KILLS);
  t.diagnostic(
    `${pushed.length} lines in ${batches.length} requests, none lost, ${all.length - firsts.size} twice in ${again} batches; ` +
      `${deaths} receivers and ${SENDER_KILLS} senders killed`,
  );
});
