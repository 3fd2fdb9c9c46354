/**
 * `npm run demo`: Rampart at work. Watches files in a fresh directory with the real command, touches
 * them with real commands, shows the alerts, and says whether each access was seen as it should be.
 *
 * Exit codes: 0 all as expected, 1 something was not, 2 `rampart watch` cannot run here or a bad option.
 *
 * @module
 */
import { chmodSync, mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

import { paint, renderTable, wantsColour, type Row } from '../shared/observe/table.ts';
import { describeMask } from '../shared/sensor/access.ts';
import { formatPretty, type KiveAlert } from '../systems/file-access/alert.ts';
import { accessOf } from './demo/alerts.ts';
import { Holder } from './demo/commands.ts';
import { judge, seenIn, type Judged } from './demo/judge.ts';
import { createFiles, heldFile, markerFile, stepsOf, watchedFiles } from './demo/steps.ts';
import { WatchProcess, WatchRefused } from './demo/watch-process.ts';

const colour = wantsColour(process.stdout);
const widthColumns = Math.max(60, Math.min(process.stdout.columns || 110, 130));
const pathWidth = Math.max(...watchedFiles.map((name) => name.length));

/** Each access of a step, with the step's command. */
interface Result extends Judged {
  readonly command: string;
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

/** A directory that every user may search, gone at the end. */
class TemporaryDirectory implements Disposable {
  readonly path: string;

  constructor() {
    this.path = realpathSync(mkdtempSync(join(tmpdir(), 'rampart-demo-')));
    chmodSync(this.path, 0o755);
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true });
  }
}

async function demo(mode: string, signal: AbortSignal): Promise<boolean> {
  using temporary = new TemporaryDirectory();
  const directory = temporary.path;
  createFiles(directory);
  using holder = await Holder.start(directory, heldFile, signal);

  const show = (alert: KiveAlert): void => {
    const { file } = seenIn(alert, directory);
    // The directory is named once, above.
    const access = { ...accessOf(alert), cwd: alert.process.cwd === directory ? '' : alert.process.cwd };
    if (file !== markerFile) print(`  ${formatPretty(access, file, { color: colour, pathWidth })}`);
  };
  await using watch = await WatchProcess.start({
    mode,
    directory,
    names: watchedFiles,
    signal,
    onAlert: show,
  });
  print(`rampart watch --format json --mode ${mode} ${directory}/{${watchedFiles.join(',')}}`);
  print(`${watch.said.join('\n')}\n`);

  // The marker is read after what made the alerts, so all of them are there when its own is.
  const takeAlerts = async (): Promise<readonly KiveAlert[]> => {
    readFileSync(join(directory, markerFile));
    const alerts = await watch.alertsUntil(
      (alert) => alert.process.tgid === process.pid && seenIn(alert, directory).file === markerFile,
    );
    return alerts.slice(0, -1);
  };

  const results: Result[] = [];
  for (const step of stepsOf({ directory, watch, holder, signal })) {
    print(paint('bold', `$ ${step.command}`, colour));
    if (step.prepare !== undefined) {
      await step.prepare();
      await takeAlerts();
    }
    await step.run();
    const alerts = await takeAlerts();
    const seen = alerts.map((alert) => seenIn(alert, directory));
    if (seen.length === 0) print('  no alert');
    results.push(
      ...judge(step.expected, seen, watch.mode).map((judged) => ({ ...judged, command: step.command })),
    );
  }
  const exitCode = await watch.stop();
  const totals = watch.said.at(-1) ?? '';
  print(`\n${totals}\n\n${renderResults(results)}\n`);

  const failed = results.filter((result) => !result.ok).length;
  const visible = results.filter((result) => result.mask !== undefined).length;
  const counted = exitCode === 0 && totals.endsWith(' 0 folded, 0 lost');
  if (!counted) print(`The watch ended with code ${exitCode}, or did not report every access.`);
  const summary =
    failed === 0
      ? `All ${visible} accesses that ${watch.mode} sees were seen once; ${results.length - visible} that it cannot see were not.`
      : `${failed} of ${results.length} accesses were not reported as expected.`;
  print(paint(failed === 0 ? 'green' : 'red', summary, colour));
  return failed === 0 && counted;
}

function renderResults(results: readonly Result[]): string {
  const rows = results.map((result, index): Row => {
    const { expected, mask, unseenBecause, seen, ok, differences, command } = result;
    const words = mask === undefined ? 'not seen' : describeMask(mask).join(',');
    const denied = mask !== undefined && expected.verdict === 'denied' ? ', denied' : '';
    const why = mask === undefined ? [`not seen: ${unseenBecause}`] : [];
    return {
      cells: [
        expected.label ?? expected.operation.name,
        results[index - 1]?.command === command ? '' : command,
        words + denied,
        String(seen),
        ok ? { text: 'ok', style: 'green' } : { text: 'FAILED', style: 'red' },
      ],
      note: [...differences, ...why].join('; ') || undefined,
    };
  });
  return renderTable(rows, {
    head: ['OPERATION', 'COMMAND', 'EXPECTED', 'SEEN', ''],
    widthColumns,
    colour,
  });
}

function modeOf(words: readonly string[]): string | undefined {
  try {
    return parseArgs({ args: [...words], options: { mode: { type: 'string', default: 'auto' } } }).values
      .mode;
  } catch {
    return undefined;
  }
}

const mode = modeOf(process.argv.slice(2));
if (mode === undefined) {
  process.stderr.write('demo: usage: npm run demo [-- --mode fentry|kprobe|raw_tracepoint]\n');
  process.exit(2);
}
const interrupted = new AbortController();
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.once(name, () => interrupted.abort(new Error(`stopped by ${name}`)));
}
// `npm run demo | head`: what was made is to be cleaned up all the same.
process.stdout.on('error', (error) => interrupted.abort(error));
try {
  process.exitCode = (await demo(mode, interrupted.signal)) ? 0 : 1;
} catch (error) {
  const { aborted, reason } = interrupted.signal;
  if (!aborted && error instanceof WatchRefused) {
    process.stderr.write(`${error.message}\n`);
    process.exitCode = error.exitCode === 2 ? 2 : 1;
  } else {
    const cause: unknown = aborted ? reason : error;
    process.stderr.write(`demo: ${cause instanceof Error ? cause.message : String(cause)}\n`);
    process.exitCode = 1;
  }
}
