import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';

import { messageOf, type RampartError } from '../../lib/errors/errors.ts';
import { yamlDocument } from '../../lib/cli/document.ts';
import type { PrettyFormat } from '../../lib/cli/output-option.ts';
import { LineWriter } from '../../lib/output/lines.ts';
import { printable } from '../../lib/output/printable.ts';
import { wantsColour } from '../../lib/output/table.ts';
import type { DirectoryState } from '../../lib/sensor/paths/directory-state.ts';
import type { PathState } from '../../lib/sensor/paths/path-state.ts';
import { blindSpots } from '../../lib/sensor/modes.ts';
import type { SensorStats } from '../../lib/sensor/options.ts';
import { AlertEncoder } from '../../guards/file-access/alert/alert.ts';
import { formatPretty } from '../../guards/file-access/alert/pretty.ts';
import { FileWatch } from '../../guards/file-access/node/file-watch.ts';
import { serveSensorMetrics } from '../../guards/file-access/metrics.ts';
import { aborted } from '../../lib/time/abort.ts';
import type { WatchOptions } from './command.ts';
import { createMissing, plan, plannedProcesses, type PlannedPath } from './plan.ts';
import { say, stopSignal } from '../../lib/cli/process.ts';
import { counted } from '../../lib/output/words.ts';

const MAX_ENCODERS = 4096;
const BOOT_ID = '/proc/sys/kernel/random/boot_id';

/**
 * Runs until SIGINT, SIGTERM or the reader of stdout is gone.
 *
 * @throws {RampartError} `INPUT`, `PRIVILEGE`, `UNSUPPORTED` or `LIMIT` before anything was changed.
 */
export async function runWatch(paths: readonly string[], options: WatchOptions): Promise<void> {
  const planned = plan(paths, options);
  const format = options.output ?? (process.stdout.isTTY ? 'pretty' : 'json');
  const stop = stopSignal();

  await using out = new LineWriter(process.stdout.fd, { name: 'stdout' });
  let failure: RampartError | undefined;
  let readerGone = false;
  void out.closed.then((closed) => {
    if (closed.reason === 'failed') failure = closed.error;
    readerGone = closed.reason === 'reader-gone';
    stop.abort();
  });
  const line = lineMaker(format, planned, out);
  let watch: FileWatch<PlannedPath> | undefined = undefined;
  // Served before anything is created or attached: an address that is invalid or in use must not change anything.
  await using _metrics = await serveSensorMetrics(options.metrics, () => watch?.stats(), say);
  watch = new FileWatch<PlannedPath>({
    mode: options.mode,
    access: options.access,
    processes: plannedProcesses(options),
    capacity: options.capacity,
    ratePerSecond: options.rate,
    paths: planned.map((path) => ({ tracked: path.tracked, context: path })),
    onAccess: (access, { context, file }) => line(access, context, file?.path),
    onFolded: (folded, pid, { context }) =>
      say(
        `folded ${folded} more accesses of ${context.shown} by pid ${pid} (over ${options.rate} per second)`,
      ),
    onLoss: (lost, stats) => say(`LOST ${counted(lost, 'access', 'accesses')}: ${describeLoss(stats)}`),
    onPath: ({ context }, state) => reportPath(context, state),
    onDirectory: ({ context }, state, files) => reportDirectory(context, state, files),
    onProblem: (problem) => say(messageOf(problem)),
    beforeTracking: () => {
      if (options.create) createMissing(planned, options, say);
    },
  });
  try {
    reportStart(planned.length, watch);
    await aborted(stop.signal);
  } finally {
    watch[Symbol.dispose]();
    await out.flush(AbortSignal.timeout(2000)).catch(() => undefined); // a stopped reader: counted as dropped
    reportTotals(watch.stats(), watch.filtered, out.dropped, readerGone);
  }
  if (failure !== undefined) throw failure;
}

function lineMaker(
  format: PrettyFormat,
  planned: readonly PlannedPath[],
  out: LineWriter,
): (access: Parameters<typeof formatPretty>[0], path: PlannedPath, file?: string) => void {
  if (format === 'pretty') {
    const color = wantsColour(process.stdout);
    const pathWidth = Math.min(40, Math.max(...planned.map((path) => path.shown.length)));
    return (access, path, file = path.shown) =>
      void out.write(formatPretty(access, file, { color, pathWidth }));
  }
  const kernelId = readFileSync(BOOT_ID, 'utf8').trim();
  const nodeName = hostname();
  const encoders = new Map<string, AlertEncoder>();
  return (access, path, file) => {
    const key = file ?? path.shown;
    let encoder = encoders.get(key);
    if (encoder === undefined) {
      // A process that reads every file of a directory must not cost memory for each of them.
      if (encoders.size >= MAX_ENCODERS) encoders.clear();
      encoder = new AlertEncoder({
        policyName: '',
        kernelId,
        path: path.shown,
        ...(file !== undefined && { file }),
        callback: '',
        customMetadata: {},
        pod: { name: '', namespace: '', ip: '', container: { id: '', name: '' } },
        nodeName,
      });
      encoders.set(key, encoder);
    }
    const text = encoder.encode(access);
    out.write(format === 'json' ? text : yamlDocument(text));
  };
}

function reportStart(paths: number, watch: FileWatch<PlannedPath>): void {
  const { mode, refused } = watch.sensor;
  const blind = blindSpots(mode).map((operation) => operation.name);
  say(`watching ${counted(paths, 'path')} by ${mode}; not seen in this mode: ${blind.join(', ')}`);
  if (refused.length > 0) {
    say(
      `refused by this kernel: ${refused.map((better) => better.mode).join(', ')} (rampart doctor says why)`,
    );
  }
}

function reportPath(path: PlannedPath, state: PathState): void {
  const shown = printable(path.shown);
  if (state.kind === 'absent')
    say(`${shown} does not exist (${printable(state.missing)} is missing); waiting for it`);
  if (state.kind === 'unusable') say(`${shown} cannot be watched: ${state.error.message}`);
  if (state.kind === 'file') {
    if (path.reported) say(`${shown} is now inode ${state.identity.inode}`);
  }
  path.reported = true;
}

function reportDirectory(path: PlannedPath, state: DirectoryState, files: number): void {
  const shown = printable(path.shown);
  if (state.kind !== 'directory') {
    reportPath(path, state);
    return;
  }
  const { unwatched } = state;
  if (unwatched.files > 0)
    say(
      `${shown}: ${counted(unwatched.files, 'file')} NOT watched, beyond the limit of ${counted(files, 'file')}`,
    );
  if (unwatched.directories > 0)
    say(
      `${shown}: ${counted(unwatched.directories, 'directory', 'directories')} NOT watched, with all files below`,
    );
  if (state.isComplete && !path.reported) say(`${shown} has ${counted(files, 'watched file')} now`);
  path.reported = state.isComplete;
}

function describeLoss({ lost }: SensorStats): string {
  const reasons: readonly (readonly [number, string])[] = [
    [lost.ringFull, 'the ring buffer was full'],
    [lost.noReturn, 'their return was not seen'],
    [lost.consumer, 'the output failed'],
  ];
  return reasons
    .filter(([number]) => number > 0)
    .map(([number, why]) => `${number} in all because ${why}`)
    .join(', ');
}

function reportTotals(stats: SensorStats, filtered: number, dropped: number, readerGone: boolean): void {
  const lost = stats.lost.ringFull + stats.lost.noReturn + stats.lost.consumer;
  const why = readerGone ? 'the reader disconnected' : 'the reader was too slow';
  say(
    `${counted(stats.produced, 'access', 'accesses')}: ` +
      `${stats.received - filtered} reported, ` +
      (filtered > 0 ? `${filtered} not because of their program, ` : '') +
      `${stats.folded} folded, ${lost} lost` +
      (dropped > 0 ? `; ${counted(dropped, 'line')} not written because ${why}` : '') +
      (stats.refusedDirectories > 0
        ? `; new files of ${counted(stats.refusedDirectories, 'directory', 'directories')} watched late, as 131,072 others were watched`
        : ''),
  );
}
