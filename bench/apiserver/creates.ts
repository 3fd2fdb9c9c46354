/**
 * Durable creates a second, over HTTP with TLS; and what the same requests cost a server that stores nothing.
 */
import type { PartOptions, Report, ReportRow } from '../report.ts';
import { median } from '../report.ts';
import { BareServer } from './bare-server.ts';
import { type LoadAnswer, LoadConnection, sendAll } from './load-connection.ts';
import { pod, ServerProcess } from './server-process.ts';

const COUNT = 6000;
const WARM_UP = 3000;
const CONNECTIONS = 64;
const TARGET = 3000;

const kinds = {
  'config map, 1 kB': {
    plural: 'configmaps',
    make: (name: string): object => ({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name, labels: { app: 'bench' } },
      data: { text: 'x'.repeat(800) },
    }),
  },
  'pod, 2 kB': { plural: 'pods', make: (name: string): object => pod(name, 'node-1') },
} as const;

function created({ code }: LoadAnswer): void {
  if (code !== 201) throw new Error(`a create was answered with ${code}`);
}

/** @throws {Error} when the server does not start, or refuses. */
export async function creates(options: PartOptions): Promise<Report> {
  const count = Math.ceil(COUNT / options.shrink);
  await using server = new ServerProcess();
  const { endpoint } = await server.start(options.signal);
  await using bare = await BareServer.start(server, options.signal);
  const rows: ReportRow[] = [];
  const rates = new Map<string, number>();
  let run = 0;
  for (const [label, { plural, make }] of Object.entries(kinds)) {
    const perSecond: number[] = [];
    const ratios: number[] = [];
    const round = async (at: typeof endpoint, amount: number): Promise<number> => {
      const prefix = `r${run++}`;
      using stack = new DisposableStack();
      const connections = await Promise.all(
        Array.from({ length: CONNECTIONS }, async () => stack.use(await LoadConnection.open(at))),
      );
      const path = `/api/v1/namespaces/default/${plural}`;
      // Made before: serialising them is not what is measured.
      const bodies = Array.from({ length: amount }, (_, index) => JSON.stringify(make(`${prefix}-${index}`)));
      const ms = await sendAll(
        connections,
        amount,
        (connection, index) => connection.request('POST', path, bodies[index]),
        created,
      );
      return (amount / ms) * 1000;
    };
    await round(endpoint, Math.ceil(WARM_UP / options.shrink));
    await round(bare.endpoint, Math.ceil(WARM_UP / options.shrink));
    for (let index = 0; index < Math.min(options.rounds, 5); index++) {
      options.signal.throwIfAborted();
      options.progress(`creates: ${label}, round ${index + 1}`);
      const ours = await round(endpoint, count);
      const theirs = await round(bare.endpoint, count);
      perSecond.push(ours);
      ratios.push(ours / theirs);
    }
    const rate = median(perSecond);
    rates.set(label, rate);
    rows.push({
      label,
      cells: {
        'creates/s': rate.toFixed(0),
        'lowest to highest': `${Math.min(...perSecond).toFixed(0)} to ${Math.max(...perSecond).toFixed(0)}`,
        'x bare node:https': median(ratios).toFixed(2),
      },
      values: { createsPerSecond: rate, ratioToBare: median(ratios) },
    });
  }
  return {
    title: `Creates, acknowledged when they are on the disk; ${CONNECTIONS} connections, TLS`,
    columns: ['creates/s', 'lowest to highest', 'x bare node:https'],
    rows,
    verdicts: [...rates].map(([label, rate]) => ({
      target: `at least ${TARGET} durable creates a second (${label})`,
      measured: rate.toFixed(0),
      met: rate >= TARGET,
    })),
    notes: [
      'bare node:https: reads the body, parses its JSON, and answers it; stores nothing, checks nothing.',
      'The client runs on the same machine and takes its share of the CPUs.',
    ],
  };
}
