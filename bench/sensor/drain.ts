/**
 * How fast one core gets records out of the ring: decoded in batches, and as alert lines to /dev/null.
 * No kernel is in it; a model of the ring buffer is filled once with records as the sensor makes them.
 */
import { spawnSync } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';

import { median, type PartOptions, quantile, type Report, type ReportRow } from '../report.ts';
import type { DrainResult } from './drain-worker.ts';

const WORKER = join(import.meta.dirname, 'drain-worker.ts');
const PASSES = 60;
const DECODE_TARGET = 5_000_000;
const LINES_TARGET = 300_000;

/** Runs the worker on the last CPU alone: its compiler and collector threads have to share it. */
export async function drain(options: PartOptions): Promise<Report> {
  options.progress('drain: filling a ring, reading it over and over');
  options.signal.throwIfAborted();
  const passes = Math.max(2, Math.ceil(PASSES / options.shrink));
  const cpu = String(availableParallelism() - 1);
  const worker = spawnSync('taskset', ['-c', cpu, process.execPath, WORKER, String(passes)], {
    encoding: 'utf8',
    maxBuffer: 2 ** 24,
  });
  if (worker.status !== 0)
    throw new Error(`the drain worker failed: ${worker.error?.message ?? worker.stderr}`);
  const { records, decode, lines, bytesPerLine } = JSON.parse(worker.stdout) as DrainResult;
  const rows = [
    row('records decoded, all fixed fields', decode, DECODE_TARGET),
    row('alert lines to /dev/null', lines, LINES_TARGET),
  ];
  return {
    title: 'Draining the ring on one core',
    columns: ['per CPU second', 'ns each', 'best', 'x target'],
    rows,
    verdicts: [
      verdict('records decoded', decode, DECODE_TARGET),
      verdict('alert lines', lines, LINES_TARGET),
    ],
    notes: [
      `${records} records in a ring of 8 MiB, ${bytesPerLine} bytes a line; median of ${passes} passes over it, the first tenth (warming up) left out.`,
      'A second is one of CPU time of all threads of the process, which has one core.',
    ],
  };
}

function row(label: string, perSecond: readonly number[], target: number): ReportRow {
  const middle = median(perSecond);
  const best = quantile(perSecond, 1);
  return {
    label,
    cells: {
      'per CPU second': Math.round(middle).toLocaleString('en'),
      'ns each': (1e9 / middle).toFixed(0),
      best: Math.round(best).toLocaleString('en'),
      'x target': (middle / target).toFixed(2),
    },
    values: { perSecond: middle, best, ratioToTarget: middle / target },
  };
}

function verdict(what: string, perSecond: readonly number[], target: number): Report['verdicts'][number] {
  const middle = median(perSecond);
  return {
    target: `at least ${target.toLocaleString('en')} ${what} a second`,
    measured: Math.round(middle).toLocaleString('en'),
    met: middle >= target,
  };
}
