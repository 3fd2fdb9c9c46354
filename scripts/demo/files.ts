/** The demo's first part: files of this machine under `rampart watch`, and commands that touch them. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { paint, renderTable, type Row } from '../../lib/output/table.ts';
import { describeMask } from '../../lib/sensor/access.ts';
import { formatPretty, type KiveAlert } from '../../guards/file-access/alert/alert.ts';
import { accessOf } from './alerts.ts';
import { Holder } from './commands.ts';
import { judge, seenIn, type Judged } from './judge.ts';
import type { Screen } from './screen.ts';
import type { PartOptions, Shown } from './shown.ts';
import { createFiles, heldFile, markerFile, stepsOf, watchedFiles } from './steps.ts';
import { TemporaryDirectory } from './temporary-directory.ts';
import { WatchProcess } from './watch-process.ts';

const pathWidth = Math.max(...watchedFiles.map((name) => name.length));

/** Each access of a step, with the step's command. */
interface Result extends Judged {
  readonly command: string;
}

/**
 * Each access has to be shown once, as the sensor mode in use sees it.
 *
 * @throws {RampartRefused} if files cannot be watched.
 */
export async function showFiles({ mode, screen, signal }: PartOptions): Promise<Shown> {
  using temporary = new TemporaryDirectory();
  const directory = temporary.path;
  createFiles(directory);
  using holder = await Holder.start(directory, heldFile, signal);

  const show = (alert: KiveAlert): void => {
    const { file } = seenIn(alert, directory);
    // The directory is named once, above.
    const access = { ...accessOf(alert), cwd: alert.process.cwd === directory ? '' : alert.process.cwd };
    if (file !== markerFile) screen.answer(formatPretty(access, file, { color: screen.colour, pathWidth }));
  };
  const starting = WatchProcess.start({ mode, directory, names: watchedFiles, signal, onAlert: show });
  await using watch = await screen.during('rampart watch loads its programs', starting);
  screen.heading('1. Files of this machine');
  screen.line();
  screen.command(`rampart watch -o json --mode ${mode} ${directory}/{${watchedFiles.join(',')}}`);
  screen.line(`${watch.said.join('\n')}\n`);

  // The marker is read after what made the alerts, so all of them are there when its own is.
  const takeAlerts = async (): Promise<readonly KiveAlert[]> => {
    readFileSync(join(directory, markerFile));
    const heard = await watch.heardUntil(
      ({ alert }) => alert.process.tgid === process.pid && seenIn(alert, directory).file === markerFile,
    );
    return heard.slice(0, -1).map(({ alert }) => alert);
  };

  const results: Result[] = [];
  for (const step of stepsOf({ directory, watch, holder, signal })) {
    screen.command(step.command);
    if (step.prepare !== undefined) {
      await step.prepare();
      await takeAlerts();
    }
    await step.run();
    const alerts = await takeAlerts();
    const seen = alerts.map((alert) => seenIn(alert, directory));
    if (seen.length === 0) screen.answer('no alert');
    results.push(
      ...judge(step.expected, seen, watch.mode).map((judged) => ({ ...judged, command: step.command })),
    );
  }
  const exitCode = await watch.stop();
  const totals = watch.said.at(-1) ?? '';
  screen.line(`\n${totals}\n\n${renderResults(results, screen)}\n`);

  const failed = results.filter((result) => !result.ok).length;
  const visible = results.filter((result) => result.mask !== undefined).length;
  const counted = exitCode === 0 && totals.endsWith(' 0 folded, 0 lost');
  if (!counted) screen.line(`The watch ended with code ${exitCode}, or did not report every access.`);
  const summary =
    failed === 0
      ? `All ${visible} accesses that ${watch.mode} sees were seen once; ${results.length - visible} that it cannot see were not.`
      : `${failed} of ${results.length} accesses were not reported as expected.`;
  screen.line(paint(failed === 0 ? 'green' : 'red', summary, screen.colour));
  return { total: results.length, failed: counted ? failed : Math.max(failed, 1) };
}

function renderResults(results: readonly Result[], { widthColumns, colour }: Screen): string {
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
