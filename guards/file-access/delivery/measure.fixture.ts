/**
 * Measures the cost of queueing and delivering. Prints a table; takes some 20 s.
 *
 * node --expose-gc guards/file-access/delivery/measure.fixture.ts [DIRECTORY]
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  fdatasync as fdatasyncOf,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';

import { until } from '../../../lib/testing/until.fixture.ts';
import { AlertIds } from './alert-ids.fixture.ts';
import { openDelivery } from './delivery.ts';
import type { DeliveryOptions } from './options.ts';
import { RecordEncoder } from '../../../lib/spool/record.ts';
import { Receiver } from './receiver.fixture.ts';

const line = JSON.stringify({ padding: 'x'.repeat(980) });
const fdatasync = promisify(fdatasyncOf);
const TURN = 500;
const ALERTS = 100_000;

const say = (text: string): void => void writeSync(1, `${text}\n`);
const us = (ms: number): string => `${(ms * 1000).toFixed(1)} µs`;

function spread(name: string, times: Float64Array): void {
  times.sort();
  const at = (share: number): number => times[Math.floor((times.length - 1) * share)] ?? Number.NaN;
  const mean = times.reduce((sum, time) => sum + time, 0) / times.length;
  say(
    `${name.padEnd(44)} mean ${us(mean)}, p50 ${us(at(0.5))}, p99 ${us(at(0.99))}, p99.9 ${us(at(0.999))}, longest ${at(1).toFixed(1)} ms`,
  );
}

/** 500 alerts each 10 ms, about 50,000/s, each of them timed. */
async function paced(count: number, each: (index: number) => void): Promise<Float64Array> {
  const times = new Float64Array(count);
  for (let index = 0; index < count;) {
    for (let more = 0; more < TURN && index < count; more++, index++) {
      const start = performance.now();
      each(index);
      times[index] = performance.now() - start;
    }
    await delay(8);
  }
  return times;
}

async function inDirectory(work: (directory: string) => Promise<void>): Promise<void> {
  const directory = mkdtempSync(join(process.argv[2] ?? tmpdir(), 'rampart-measure-'));
  try {
    await work(directory);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/** Records written one by one, or together in parts of 64 KiB, with a sync each 50 ms. */
async function writes(directory: string, batchBytes: number): Promise<void> {
  const fd = openSync(join(directory, 'file'), 'w');
  const encoder = new RecordEncoder();
  const batch = Buffer.allocUnsafe(128 * 1024);
  let used = 0;
  let position = 0;
  let syncing: Promise<void> | undefined;
  const timer = setInterval(() => {
    syncing ??= fdatasync(fd).finally(() => (syncing = undefined));
  }, 50);
  const times = await paced(ALERTS, (index) => {
    const record = encoder.encode('0123456789abcdef01234567-abc', line, index);
    if (record === undefined) return;
    used += record.buffer.copy(batch, used, 0, record.sizeBytes);
    if (used < batchBytes && index % TURN !== TURN - 1) return;
    writeSync(fd, batch, 0, used, position);
    position += used;
    used = 0;
  });
  clearInterval(timer);
  await syncing;
  closeSync(fd);
  spread(batchBytes === 0 ? 'write, each record' : 'write, 64 KiB at a time', times);
}

async function enqueueing(
  directory: string,
  callbacks: number,
  options: Partial<DeliveryOptions> = {},
): Promise<void> {
  await using delivery = openDelivery({
    directory,
    maxBytes: 2 ** 31,
    maxBytesPerCallback: 2 ** 30,
    ...options,
  });
  const ids = new AlertIds();
  // An address that never answers (RFC 5737), and no try is made while this runs.
  const urls = Array.from({ length: callbacks }, (_, index) => `http://192.0.2.1:9/${index}`);
  const times = await paced(ALERTS, (index) =>
    delivery.enqueue(urls[index % callbacks] ?? '', ids.next(), line),
  );
  spread(`enqueue, ${callbacks} ${callbacks === 1 ? 'callback' : 'callbacks'}`, times);
  const { accepted, sizeBytes } = delivery.stats;
  const syncStart = performance.now();
  await delivery.sync();
  say(
    `    ${accepted} taken, ${(sizeBytes / accepted).toFixed(0)} B on disk for a line of ${line.length} B; ` +
      `last sync ${(performance.now() - syncStart).toFixed(0)} ms`,
  );
}

async function delivering(directory: string, urls: readonly string[], count: number): Promise<void> {
  const delivery = openDelivery({ directory, allow: ['127.0.0.1'] });
  const ids = new AlertIds();
  const start = performance.now();
  const cpuStart = process.cpuUsage();
  for (let index = 0; index < count; index++)
    delivery.enqueue(urls[index % urls.length] ?? '', ids.next(), line);
  await until(() => delivery.stats.delivered === count);
  const seconds = (performance.now() - start) / 1000;
  const { user, system } = process.cpuUsage(cpuStart);
  say(
    `${`deliver, ${urls.length} callback(s)`.padEnd(44)} ${(count / seconds).toFixed(0)}/s, ` +
      `${((user + system) / count).toFixed(0)} µs of CPU each, in this process`,
  );
  await delivery[Symbol.asyncDispose]();
}

async function starting(directory: string): Promise<void> {
  const callback = 'http://192.0.2.1:9/';
  const options = { directory, maxBytes: 2 ** 31, maxBytesPerCallback: 2 ** 30, lingerMs: 0 };
  const first = openDelivery(options);
  for (let index = 0; index < ALERTS; index++) first.enqueue(callback, `a${index}`, line);
  await first[Symbol.asyncDispose]();
  const start = performance.now();
  await using second = openDelivery(options);
  say(
    `${'start with what is left'.padEnd(44)} ${second.stats.recovered} alerts, ${(performance.now() - start).toFixed(1)} ms`,
  );
}

function residentMiB(): number {
  globalThis.gc?.();
  return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]) / 1024;
}

if (process.argv[2] === 'receiver') {
  const receiver = await Receiver.start();
  receiver.received.push = () => 0;
  receiver.taken.push = () => 0;
  process.send?.(receiver.url());
} else {
  const child = fork(import.meta.filename, ['receiver']);
  try {
    const [url] = (await once(child, 'message')) as [string];
    await inDirectory(async (directory) => {
      const before = residentMiB();
      await using _idle = openDelivery({ directory });
      await delay(100);
      say(
        `${'open and idle'.padEnd(44)} ${(residentMiB() - before).toFixed(1)} MiB (the modules are loaded before)`,
      );
    });
    await inDirectory((directory) => writes(directory, 0));
    await inDirectory((directory) => writes(directory, 64 * 1024));
    await inDirectory((directory) => enqueueing(directory, 1));
    await inDirectory((directory) => enqueueing(directory, 200));
    await inDirectory(starting);
    await inDirectory((directory) => delivering(directory, [url], 10_000));
    await inDirectory((directory) =>
      delivering(
        directory,
        Array.from({ length: 20 }, (_, index) => `${url}${index}`),
        20_000,
      ),
    );
  } finally {
    child.kill();
  }
}
