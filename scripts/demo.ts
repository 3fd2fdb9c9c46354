/**
 * `npm run demo`: Rampart at work, with the real command on real files and in real pods. Says whether all
 * was seen as it should be.
 *
 * Exit codes: 0 all as expected, 1 something was not, 2 it cannot run here or a bad option.
 */
import { parseArgs } from 'node:util';

import { renderTable, type Row } from '../lib/output/table.ts';
import { sensorModeNames } from '../lib/sensor/modes.ts';
import { labObstacle, packagesObstacle } from '../test/lab/obstacle.ts';
import { files } from './demo/files.ts';
import { integrity } from './demo/integrity.ts';
import { network } from './demo/network.ts';
import { pods } from './demo/pods.ts';
import { policies } from './demo/policies.ts';
import { programs } from './demo/programs.ts';
import { Screen } from './demo/screen.ts';
import { failedOf, type Part, resultCell, show, type StageOptions } from './demo/stage.ts';

const parts: readonly Part[] = [files, pods, integrity, network, policies, programs];
const modes = [...sensorModeNames, 'auto'];
const usage = `demo: usage: npm run demo [-- OPTION...]
  --list                  the parts, and why one cannot be shown here
  --only ${parts.map(({ name }) => name).join('|')}  show one part
  --mode MODE             ${modes.slice(0, -1).join(', ')}; without it the best that the kernel allows
  --security-level LEVEL  another label than "high" for the pod: the policy is not for it, so the demo fails
`;
/** A longer clean-up is reported. */
const SILENT_MS = 1_000;

function optionsOf(args: string[]) {
  try {
    const text = { type: 'string' } as const;
    const { values } = parseArgs({
      args,
      options: { list: { type: 'boolean' }, only: text, mode: text, 'security-level': text },
    });
    const { list, only, mode = 'auto', 'security-level': securityLevel = 'high' } = values;
    const shown = parts.filter(({ name }) => only === undefined || only === name);
    return shown.length > 0 && modes.includes(mode) ? { list, shown, mode, securityLevel } : undefined;
  } catch {
    return undefined;
  }
}

/** Why it cannot be shown on this machine; undefined when it can. */
function obstacleOf({ hasPods, packages }: Part): string | undefined {
  if (process.geteuid?.() !== 0) return 'needs root. Run it as root, e.g. with sudo';
  return (hasPods && labObstacle()) ?? packagesObstacle(packages);
}

function titleOf(part: Part): string {
  return `${parts.indexOf(part) + 1}. ${part.title}`;
}

/** @returns the exit code. */
async function demo(shown: readonly Part[], options: StageOptions): Promise<number> {
  const { screen } = options;
  if (shown.every(obstacleOf)) {
    const why = shown.map((part) => `demo: ${part.name} cannot be shown here: ${obstacleOf(part)}\n`);
    process.stderr.write(why.join(''));
    return 2;
  }
  const startMs = performance.now();
  const rows: Row[] = [];
  let failed = 0;
  for (const part of shown) {
    const title = titleOf(part);
    const obstacle = obstacleOf(part);
    if (obstacle !== undefined) {
      rows.push({ cells: [title, { text: 'not shown', style: 'yellow' }, obstacle] });
      continue;
    }
    const checks = await show(part, title, options);
    const wrong = failedOf(checks);
    failed += wrong;
    rows.push({
      cells: [title, resultCell(wrong === 0), `${checks.length - wrong} of ${checks.length} as expected`],
    });
  }
  screen.heading(`The demo, in ${((performance.now() - startMs) / 1000).toFixed(1)} s`);
  screen.line(renderTable(rows, screen));
  return failed > 0 ? 1 : 0;
}

const options = optionsOf(process.argv.slice(2));
if (options === undefined) {
  process.stderr.write(usage);
  process.exit(2);
}
const screen = new Screen(process.stdout);
const { list, shown, mode, securityLevel } = options;
if (list) {
  const rows = shown.map((part) => ({ cells: [part.name, titleOf(part), obstacleOf(part) ?? ''] }));
  screen.line(renderTable(rows, screen));
  process.exit();
}
const interrupted = new AbortController();
const { signal } = interrupted;
// Each time: npm passes on a Ctrl-C that the terminal has sent here as well, and a second one is not to end the clean-up.
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(name, () => interrupted.abort(new Error(`stopped by ${name}`)));
}
signal.addEventListener('abort', () => {
  setTimeout(() => process.stderr.write('demo: cleaning up\n'), SILENT_MS).unref();
});
// `npm run demo | head`, or a closed terminal: everything created is removed all the same.
process.stdout.on('error', (error) => interrupted.abort(error));
process.stderr.on('error', () => undefined);
try {
  process.exitCode = await demo(shown, { mode, securityLevel, screen, signal });
} catch (error) {
  // A Ctrl-C goes to all processes of the terminal: one that ended of it may be heard of first.
  await new Promise((resolve) => setTimeout(resolve, 50));
  const cause: unknown = signal.aborted ? signal.reason : error;
  process.stderr.write(`demo: ${cause instanceof Error ? cause.message : String(cause)}\n`);
  process.exitCode = 1;
}
