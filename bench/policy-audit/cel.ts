/** Evaluations of CEL policies a second, decoding of the reviews included. */
import { once } from 'node:events';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';

import { median, type PartOptions, type Report, type ReportRow } from '../report.ts';
import type { Done, Load } from './cel-worker.ts';
import { expressions, reviewOf } from './reviews.ts';

const TARGET = 16_000;
const WARM_UP_MS = 1_000;
const MEASURE_MS = 2_000;
const MAX_ROUNDS = 5;

const loads: readonly (readonly [label: string, kind: Load['kind'], threads: number])[] = [
  ['decoding alone, 1 thread', 'decode', 1],
  ['evaluating alone, 1 thread', 'evaluate', 1],
  ['decoding and one policy, 1 thread', 'one', 1],
  ['decoding and one policy, 2 threads', 'one', 2],
  [`decoding and all ${expressions.length} policies, 1 thread`, 'all', 1],
  [`decoding and all ${expressions.length} policies, 2 threads`, 'all', 2],
];

/** @throws {Error} where a policy refuses what it has to allow. */
export async function cel(options: PartOptions): Promise<Report> {
  const rounds = Math.min(options.rounds, MAX_ROUNDS);
  const rows: ReportRow[] = [];
  const evaluationsOf = new Map<string, number>();
  for (const [label, kind, threads] of loads) {
    const reviews: number[] = [];
    const evaluations: number[] = [];
    for (let round = 0; round < rounds; round++) {
      options.progress(`cel: ${label}, round ${round + 1} of ${rounds}`);
      const load = { kind, warmUpMs: WARM_UP_MS / options.shrink, measureMs: MEASURE_MS / options.shrink };
      const done = await Promise.all(Array.from({ length: threads }, () => runWorker(load, options.signal)));
      // All threads see the CPU time of all.
      const cpuSeconds = sum(done.map((one) => one.cpuSeconds)) / threads;
      reviews.push((threads * sum(done.map((one) => one.reviews))) / cpuSeconds);
      evaluations.push((threads * sum(done.map((one) => one.evaluations))) / cpuSeconds);
    }
    const [perSecond, evaluated] = [median(reviews), median(evaluations)];
    evaluationsOf.set(`${kind} ${threads}`, kind === 'all' ? perSecond : evaluated);
    const show = (value: number): string => (value === 0 ? '' : Math.round(value).toLocaleString('en'));
    rows.push({
      label,
      cells: { 'reviews/s': show(perSecond), 'evaluations/s': show(evaluated) },
      values: { reviewsPerSecond: perSecond, evaluationsPerSecond: evaluated, threads },
    });
  }
  const measured = evaluationsOf.get('one 2') ?? 0;
  const bytes = Math.round(sum(Array.from({ length: 100 }, (_, index) => reviewOf(index).length)) / 100);
  return {
    title: `Policies of CEL: ${expressions.length} expressions, reviews of ${bytes.toLocaleString('en')} bytes`,
    columns: ['reviews/s', 'evaluations/s'],
    rows,
    verdicts: [
      {
        target: `at least ${TARGET.toLocaleString('en')} evaluations/s on two threads, one for each review that is decoded`,
        measured: Math.round(measured).toLocaleString('en'),
        met: measured >= TARGET,
      },
      {
        target: `at least ${TARGET.toLocaleString('en')} reviews/s on two threads, each asked of all policies`,
        measured: Math.round(evaluationsOf.get('all 2') ?? 0).toLocaleString('en'),
        met: (evaluationsOf.get('all 2') ?? 0) >= TARGET,
      },
    ],
    notes: [
      'Medians of the rounds. Each thread has its own policies and decodes with JSON.parse.',
      'A second is one of CPU time of all threads of the process, for each thread: what other processes take does not count.',
    ],
  };
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

async function runWorker(load: Load, signal: AbortSignal): Promise<Done> {
  const worker = new Worker(join(import.meta.dirname, 'cel-worker.ts'), { workerData: load });
  try {
    const [done] = (await once(worker, 'message', { signal })) as [Done];
    return done;
  } finally {
    await worker.terminate();
  }
}
