/**
 * How many complete alerts one core produces: from records in the ring through the guard's own LocalSensor,
 * who accessed, encoding, metrics, to lines that are written to /dev/null. No kernel is in it: that could not
 * fill a ring as fast.
 */
import { spawnSync } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';

import { median, type PartOptions, quantile, type Report, type ReportRow } from '../report.ts';
import type { AlertsResult } from './alerts-worker.ts';
import { agentFlags } from './agent-process.ts';

const WORKER = join(import.meta.dirname, 'alerts-worker.ts');
const PASSES = 40;
const TARGET = 50_000;

/** Runs the worker on the last CPU alone, with the flags that bin/rampart gives to the agent. */
export async function alerts(options: PartOptions): Promise<Report> {
  options.signal.throwIfAborted();
  options.progress('alerts: filling a ring, reading it over and over');
  const passes = Math.max(2, Math.ceil(PASSES / options.shrink));
  const cpu = String(availableParallelism() - 1);
  const worker = spawnSync(
    'taskset',
    ['-c', cpu, process.execPath, ...agentFlags(), WORKER, String(passes)],
    {
      encoding: 'utf8',
      maxBuffer: 2 ** 24,
    },
  );
  if (worker.status !== 0)
    throw new Error(`the alerts worker failed: ${worker.error?.message ?? worker.stderr}`);
  const result = JSON.parse(worker.stdout) as AlertsResult;
  const drain = median(result.drain);
  const made = median(result.alerts);
  return {
    title: 'Alerts with all that they tell, on one core: 1,000 traps, 200 containers',
    columns: ['per CPU second', 'us each', 'best', 'x drain', 'x target'],
    rows: [
      row('records taken from the ring, watcher found', result.drain, drain),
      row('alert lines to /dev/null', result.alerts, drain),
    ],
    verdicts: [
      {
        target: `at least ${TARGET.toLocaleString('en')} alerts a second`,
        measured: Math.round(made).toLocaleString('en'),
        met: made >= TARGET,
      },
    ],
    notes: [
      `${result.records} records in a ring of 8 MiB, ${result.bytesPerLine} bytes a line; median of ${passes} passes, the first tenth left out.`,
      'A second is one of CPU time of all threads of the process, which has one core.',
    ],
  };
}

function row(label: string, perSecond: readonly number[], drain: number): ReportRow {
  const middle = median(perSecond);
  const best = quantile(perSecond, 1);
  return {
    label,
    cells: {
      'per CPU second': Math.round(middle).toLocaleString('en'),
      'us each': (1e6 / middle).toFixed(2),
      best: Math.round(best).toLocaleString('en'),
      'x drain': (drain / middle).toFixed(1),
      'x target': (middle / TARGET).toFixed(1),
    },
    values: { perSecond: middle, best, costRatioToDrain: drain / middle, ratioToTarget: middle / TARGET },
  };
}
