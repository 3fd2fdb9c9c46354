/**
 * How long a list of 10,000 pods takes over HTTP with TLS, until its last byte has come; and the memory of a server that
 * holds them, and the time of its start.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import type { PartOptions, Report } from '../report.ts';
import { median, quantile } from '../report.ts';
import { BareServer } from './bare-server.ts';
import { LoadConnection, sendAll } from './load-connection.ts';
import { pod, residentMiB, ServerProcess } from './server-process.ts';

const COUNT = 10_000;
const CONNECTIONS = 32;
const LIST_TARGET_MS = 250;
const RSS_TARGET_MIB = 200;
const START_TARGET_MS = 500;
const SETTLE_MS = 10_000;

/** @throws {Error} when the server does not start, or refuses. */
export async function lists(options: PartOptions): Promise<Report> {
  const { signal, progress } = options;
  const count = Math.ceil(COUNT / options.shrink);
  await using server = new ServerProcess();
  const path = '/api/v1/namespaces/default/pods';
  {
    const { endpoint } = await server.start(signal);
    using stack = new DisposableStack();
    const connections = await Promise.all(
      Array.from({ length: CONNECTIONS }, async () => stack.use(await LoadConnection.open(endpoint))),
    );
    progress(`lists: ${count} pods are made`);
    const body = (index: number): string => JSON.stringify(pod(`pod-${index}`, `node-${index % 100}`));
    await sendAll(
      connections,
      count,
      (connection, index) => connection.request('POST', path, body(index)),
      ({ code }) => {
        if (code !== 201) throw new Error(`a create was answered with ${code}`);
      },
    );
  }
  const afterCreatesMiB = residentMiB(server.pid);
  await server.stop();
  progress('lists: starts');
  const starts: number[] = [];
  for (let index = 0; index < Math.min(options.rounds, 5); index++) {
    starts.push((await server.start(signal)).startMs);
    await server.stop();
  }
  const { endpoint } = await server.start(signal);
  await sleep(SETTLE_MS / options.shrink, undefined, { signal });
  const restMiB = residentMiB(server.pid);

  const directory = mkdtempSync(join(tmpdir(), 'rampart-bench-'));
  using stack = new DisposableStack();
  stack.defer(() => rmSync(directory, { recursive: true, force: true }));
  const connection = stack.use(await LoadConnection.open(endpoint));
  const get = connection.request('GET', path);
  const first = await connection.send(get);
  if (first.code !== 200) throw new Error(`the list was answered with ${first.code}`);
  const file = join(directory, 'list.json');
  writeFileSync(file, 'x'.repeat(first.size));
  await using bare = await BareServer.start(server, signal, file);
  const bareConnection = stack.use(await LoadConnection.open(bare.endpoint));
  await bareConnection.send(get);
  const ours: number[] = [];
  const ratios: number[] = [];
  const time = async (one: LoadConnection): Promise<number> => {
    const beganMs = performance.now();
    await one.send(get);
    return performance.now() - beganMs;
  };
  for (let index = 0; index < options.rounds * 2; index++) {
    const ms = await time(connection);
    ours.push(ms);
    ratios.push(ms / (await time(bareConnection)));
  }
  const selected = connection.request('GET', `${path}?labelSelector=app%3Dnone`);
  const selecting: number[] = [];
  for (let index = 0; index < options.rounds; index++) {
    const beganMs = performance.now();
    await connection.send(selected);
    selecting.push(performance.now() - beganMs);
  }
  const afterListsMiB = residentMiB(server.pid);
  const listMs = median(ours);
  const startMs = median(starts);
  return {
    title: `${count} pods: a list of them all (${(first.size / 1e6).toFixed(1)} MB), memory, start`,
    columns: ['measured', 'worst', 'x bare node:https'],
    rows: [
      {
        label: 'list',
        cells: {
          measured: `${listMs.toFixed(0)} ms`,
          worst: `${quantile(ours, 1).toFixed(0)} ms`,
          'x bare node:https': median(ratios).toFixed(2),
        },
        values: { listMs, worstMs: quantile(ours, 1), ratioToBare: median(ratios), bytes: first.size },
      },
      {
        label: 'list by a label that none has',
        cells: {
          measured: `${median(selecting).toFixed(0)} ms`,
          worst: `${quantile(selecting, 1).toFixed(0)} ms`,
        },
        values: { selectMs: median(selecting) },
      },
      {
        label: 'start until it is ready',
        cells: { measured: `${startMs.toFixed(0)} ms`, worst: `${quantile(starts, 1).toFixed(0)} ms` },
        values: { startMs },
      },
      ...(
        [
          ['RSS after the start', restMiB],
          ['RSS after the creates', afterCreatesMiB],
          ['RSS after the lists', afterListsMiB],
        ] as const
      ).map(([label, mib]) => ({
        label,
        cells: { measured: `${mib.toFixed(0)} MiB` },
        values: { rssMiB: mib },
      })),
    ],
    verdicts: [
      {
        target: `list at most ${LIST_TARGET_MS} ms`,
        measured: `${listMs.toFixed(0)} ms`,
        met: listMs <= LIST_TARGET_MS,
      },
      {
        target: `RSS at most ${RSS_TARGET_MIB} MiB`,
        measured: `${restMiB.toFixed(0)} MiB at rest, ${Math.max(afterCreatesMiB, afterListsMiB).toFixed(0)} MiB after work`,
        met: Math.max(restMiB, afterCreatesMiB, afterListsMiB) <= RSS_TARGET_MIB,
      },
      {
        target: `start at most ${START_TARGET_MS} ms`,
        measured: `${startMs.toFixed(0)} ms`,
        met: startMs <= START_TARGET_MS,
      },
    ],
    notes: ['bare node:https: answers with as many bytes from memory.'],
  };
}
