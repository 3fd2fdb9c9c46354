/**
 * The cost of a reflector that follows 100,000 pods: the time until its cache is complete, memory, and pauses
 * of the event loop meanwhile. Each round is a process that does nothing else, and a server in another.
 */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

import type { ReflectorFigures } from '../../lib/kube/cache/reflector-measure.fixture.ts';
import type { PartOptions, Report } from '../report.ts';
import { median } from '../report.ts';

const COUNT = 100_000;
const HELD_TARGET_BYTES = 3000;
const PAUSE_TARGET_MS = 50;

const run = promisify(execFile);
const program = join(import.meta.dirname, '../../lib/kube/cache/reflector-measure.fixture.ts');

/** @throws {Error} when the measuring process fails. */
export async function reflector({ shrink, rounds, signal, progress }: PartOptions): Promise<Report> {
  const count = Math.ceil(COUNT / shrink);
  const all: ReflectorFigures[] = [];
  for (let index = 0; index < Math.min(rounds, 3); index++) {
    progress(`reflector: ${count} pods, round ${index + 1}`);
    const args = ['--expose-gc', program, '--objects', String(count)];
    const { stdout } = await run(process.execPath, args, { signal });
    all.push(JSON.parse(stdout) as ReflectorFigures);
  }
  const worst = (of: (figures: ReflectorFigures) => number): number => Math.max(...all.map(of));
  const [heldBytes, pauseMs, busyMs] = [
    worst((figures) => figures.heldBytesEach),
    worst((figures) => figures.longestPauseMs),
    worst((figures) => figures.longestBusyMs),
  ];
  const syncMs = median(all.map((figures) => figures.syncMs));
  const residentBytes = worst((figures) => figures.residentBytesEach);
  const [{ textBytesEach } = { textBytesEach: NaN }] = all;
  return {
    title: `A reflector of ${count} pods of ${textBytesEach} bytes each; the worst of ${all.length} rounds`,
    columns: ['synced', 'held each', 'RSS each', 'longest pause', 'of it busy', 'p99 pause'],
    rows: [
      {
        label: 'list in pages of 500',
        cells: {
          synced: `${(syncMs / 1000).toFixed(1)} s`,
          'held each': `${heldBytes} bytes`,
          'RSS each': `${residentBytes} bytes`,
          'longest pause': `${pauseMs.toFixed(1)} ms`,
          'of it busy': `${busyMs.toFixed(1)} ms`,
          'p99 pause': `${worst((figures) => figures.p99PauseMs).toFixed(1)} ms`,
        },
        values: { syncMs, heldBytes, residentBytes, pauseMs, busyMs },
      },
    ],
    verdicts: [
      {
        target: `at most ${HELD_TARGET_BYTES} bytes of memory an object`,
        measured: `${heldBytes} held, ${residentBytes} RSS`,
        met: heldBytes <= HELD_TARGET_BYTES,
      },
      {
        target: `no pause of the event loop over ${PAUSE_TARGET_MS} ms`,
        measured: `${pauseMs.toFixed(1)} ms`,
        met: pauseMs <= PAUSE_TARGET_MS,
      },
    ],
    notes: [
      'held: heap and what is outside of it, after a collection. RSS: as the list ends, with the garbage of the list.',
      'busy: what the thread itself ran between two turns of its loop; the rest of a pause it waited for a CPU.',
    ],
  };
}
