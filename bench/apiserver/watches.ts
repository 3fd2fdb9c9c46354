/**
 * How long a change takes to 100 watchers while there are 500 of them a second: from the moment that the write is sent
 * to the moment that a watcher has read the event.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:tls';
import { setTimeout as sleep } from 'node:timers/promises';

import type { PartOptions, Report } from '../report.ts';
import { quantile } from '../report.ts';
import { type Endpoint, LoadConnection } from './load-connection.ts';
import { cpuMs, ServerProcess } from './server-process.ts';

const WATCHERS = 100;
const WRITES_PER_SECOND = 500;
const SECONDS = 10;
const WARM_UP_SECONDS = 3;
const TARGET_MS = 20;
const OBJECTS = 200;

interface Result {
  readonly events: number;
  readonly delaysMs: readonly number[];
}

const path = '/api/v1/namespaces/default/configmaps';

/** A clock that all processes of the machine share. */
const nowMs = (): number => performance.timeOrigin + performance.now();

/** @throws {Error} when the server does not start, or refuses. */
export async function watches(options: PartOptions): Promise<Report> {
  await using server = new ServerProcess();
  const { endpoint } = await server.start(options.signal);
  using writer = await LoadConnection.open(endpoint);
  const body = (index: number, sentMs: number): string =>
    JSON.stringify({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: `c${index}` },
      data: { sent: `@${sentMs.toFixed(3)}@`, text: 'x'.repeat(300) },
    });
  for (let index = 0; index < OBJECTS; index++) {
    const { code } = await writer.send(writer.request('POST', path, body(index, 0)));
    if (code !== 201) throw new Error(`a create was answered with ${code}`);
  }
  const watchers = fork(import.meta.filename, [String(WATCHERS)]);
  using stack = new DisposableStack();
  stack.defer(() => void watchers.kill());
  watchers.send(endpoint);
  await once(watchers, 'message', { signal: options.signal });

  const seconds = Math.max(1, Math.round(SECONDS / options.shrink));
  options.progress(`watches: ${seconds} s of ${WRITES_PER_SECOND} writes a second to ${WATCHERS} watchers`);
  const connections = await Promise.all(
    Array.from({ length: 16 }, async () => stack.use(await LoadConnection.open(endpoint))),
  );
  const idle = [...connections];
  let [written, behind] = [0, 0];
  const pace = async (forSeconds: number): Promise<void> => {
    const beganMs = performance.now();
    const pending = new Set<Promise<void>>();
    for (let index = 0; index < forSeconds * WRITES_PER_SECOND; index++) {
      const dueMs = beganMs + (index * 1000) / WRITES_PER_SECOND;
      const waitMs = dueMs - performance.now();
      if (waitMs > 0) await sleep(waitMs);
      while (idle.length === 0) {
        behind++;
        await Promise.race(pending);
      }
      const connection = idle.pop() as LoadConnection;
      const name = index % OBJECTS;
      const sending = connection
        .send(connection.request('PUT', `${path}/c${name}`, body(name, nowMs())))
        .then(({ code }) => {
          if (code !== 200) throw new Error(`a write was answered with ${code}`);
          written++;
          idle.push(connection);
        })
        .finally(() => pending.delete(sending));
      pending.add(sending);
    }
    await Promise.all(pending);
  };
  await pace(WARM_UP_SECONDS);
  watchers.send('reset');
  await once(watchers, 'message', { signal: options.signal });
  written = 0;
  behind = 0;
  const beganMs = performance.now();
  const cpuBeforeMs = cpuMs(server.pid);
  await pace(seconds);
  const tookMs = performance.now() - beganMs;
  const busy = (cpuMs(server.pid) - cpuBeforeMs) / tookMs;
  const writes = written;
  watchers.send('report');
  const [result] = (await once(watchers, 'message', { signal: options.signal })) as [Result];
  const expected = writes * WATCHERS;
  const p99 = quantile(result.delaysMs, 0.99);
  const figures = [0.5, 0.9, 0.99, 1].map((q) => quantile(result.delaysMs, q));
  const [p50 = NaN, p90 = NaN, , worst = NaN] = figures;
  const cells = {
    p50: `${p50.toFixed(1)} ms`,
    p90: `${p90.toFixed(1)} ms`,
    p99: `${p99.toFixed(1)} ms`,
    worst: `${worst.toFixed(1)} ms`,
  };
  return {
    title: `Changes to ${WATCHERS} watchers, ${((writes / tookMs) * 1000).toFixed(0)} writes a second, TLS`,
    columns: ['p50', 'p90', 'p99', 'worst', 'events', 'server CPU', 'p99 x target'],
    rows: [
      {
        label: 'write sent to event read',
        cells: {
          ...cells,
          events: `${result.events} of ${expected}`,
          'server CPU': `${(busy * 100).toFixed(0)} %`,
          'p99 x target': (p99 / TARGET_MS).toFixed(2),
        },
        values: { p50Ms: p50, p99Ms: p99, worstMs: worst, events: result.events, expected, cpus: busy },
      },
    ],
    verdicts: [
      {
        target: `p99 at most ${TARGET_MS} ms at ${WRITES_PER_SECOND} writes a second`,
        measured: `${p99.toFixed(1)} ms at ${((writes / tookMs) * 1000).toFixed(0)}`,
        met:
          p99 <= TARGET_MS &&
          writes / tookMs >= (WRITES_PER_SECOND * 0.98) / 1000 &&
          result.events === expected,
      },
    ],
    notes: [
      `The watchers share one process beside the server and the writer. Writes that had to wait for a connection: ${behind}.`,
    ],
  };
}

/** One watch; calls back with the time of each event's write. */
async function follow({ host, port, ca, token }: Endpoint, onEvent: (sentMs: number) => void): Promise<void> {
  const socket = connect({ host, port, ca, servername: 'localhost' });
  await once(socket, 'secureConnect');
  socket.setEncoding('latin1');
  const began = once(socket, 'data');
  let rest = '';
  socket.on('data', (text: string) => {
    const all = rest + text;
    let at = 0;
    for (let found = all.indexOf('"sent":"@', at); found >= 0; found = all.indexOf('"sent":"@', at)) {
      const end = all.indexOf('@"', found + 9);
      if (end < 0) break;
      onEvent(Number(all.slice(found + 9, end)));
      at = end;
    }
    // The mark may be cut in two, and the number after it.
    rest = all.slice(Math.max(at, all.length - 40));
  });
  socket.write(
    `GET ${path}?watch=true&resourceVersion=0&timeoutSeconds=600 HTTP/1.1\r\nhost: ${host}:${port}\r\n` +
      `authorization: Bearer ${token}\r\naccept: application/json\r\n\r\n`,
  );
  await began;
}

if (import.meta.main) {
  let delaysMs: number[] = [];
  let events = 0;
  process.on('message', (message: Endpoint | 'reset' | 'report') => {
    if (message === 'reset') {
      // Earlier writes are still on their way to some watchers.
      setTimeout(() => {
        delaysMs = [];
        events = 0;
        process.send?.('reset');
      }, 1000);
    } else if (message === 'report') {
      setTimeout(() => process.send?.({ events, delaysMs } satisfies Result), 1000);
    } else {
      const all = Array.from({ length: Number(process.argv[2]) }, () =>
        follow(message, (sentMs) => {
          events++;
          if (sentMs > 0) delaysMs.push(nowMs() - sentMs);
        }),
      );
      void Promise.all(all).then(() => process.send?.('watching'));
    }
  });
}
