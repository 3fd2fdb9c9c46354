/**
 * `npm run demo`: Rampart at work, with the real command on real files and in real pods. Says whether all
 * was seen as it should be.
 *
 * Exit codes: 0 all as expected, 1 something was not, 2 it cannot run here or a bad option.
 */
import { parseArgs } from 'node:util';

import { renderTable } from '../lib/output/table.ts';
import { showFiles } from './demo/files.ts';
import { integrityObstacle, showIntegrity } from './demo/integrity.ts';
import { networkObstacle, showNetwork } from './demo/network.ts';
import { policiesObstacle, showPolicies } from './demo/policies.ts';
import { showPods } from './demo/pods.ts';
import { programsObstacle, showPrograms } from './demo/programs.ts';
import { RampartRefused } from './demo/rampart-process.ts';
import { Screen } from './demo/screen.ts';
import type { Shown } from './demo/shown.ts';
import { podsObstacle } from './demo/stage.ts';

const usage = `demo: usage: npm run demo [-- OPTION...]
  --only files|pods|integrity|network|policies|programs  show one part
  --mode MODE                  fentry, kprobe or raw_tracepoint; without it the best that the kernel allows
  --security-level LEVEL       another label than "high" for the pod: the policy is not for it, so the demo fails
`;
/** A longer clean-up is reported. */
const SILENT_MS = 1_000;

const partNames = ['files', 'pods', 'integrity', 'network', 'policies', 'programs'] as const;
type PartName = (typeof partNames)[number];

interface Options {
  readonly mode: string;
  readonly only: PartName | undefined;
  readonly securityLevel: string;
}

function optionsOf(words: readonly string[]): Options | undefined {
  try {
    const { values } = parseArgs({
      args: [...words],
      options: {
        mode: { type: 'string', default: 'auto' },
        only: { type: 'string' },
        'security-level': { type: 'string', default: 'high' },
      },
    });
    const { mode, only, 'security-level': securityLevel } = values;
    const part = partNames.find((name) => name === only);
    return only === undefined || part !== undefined ? { mode, only: part, securityLevel } : undefined;
  } catch {
    return undefined;
  }
}

/** @returns the exit code. */
async function demo({ mode, only, securityLevel }: Options, signal: AbortSignal): Promise<number> {
  const screen = new Screen(process.stdout);
  const startMs = performance.now();
  const obstacles: Readonly<Record<PartName, () => string | undefined>> = {
    files: () => undefined, // `rampart watch` itself says why not
    pods: podsObstacle,
    integrity: integrityObstacle,
    network: networkObstacle,
    policies: policiesObstacle,
    programs: programsObstacle,
  };
  const obstacle = only && obstacles[only]();
  if (obstacle !== undefined) {
    process.stderr.write(
      `demo: ${only === 'integrity' ? 'file integrity' : only} cannot be shown here: ${obstacle}\n`,
    );
    return 2;
  }
  const parts: (readonly [string, Shown | string])[] = [];
  const show = async (name: PartName, title: string, part: () => Promise<Shown>): Promise<void> => {
    if (only === undefined || only === name) parts.push([title, obstacles[name]() ?? (await part())]);
  };
  await show('files', '1. files of this machine', () => showFiles({ mode, screen, signal }));
  await show('pods', '2. pods', () => showPods({ mode, screen, signal, securityLevel }));
  await show('integrity', '3. integrity', () => showIntegrity({ mode, screen, signal }));
  await show('network', '4. network', () => showNetwork({ mode, screen, signal }));
  await show('policies', '5. policies', () => showPolicies({ mode, screen, signal }));
  await show('programs', '6. eBPF programs', () => showPrograms({ mode, screen, signal }));
  const seconds = ((performance.now() - startMs) / 1000).toFixed(1);
  screen.heading(`The demo, in ${seconds} s`);
  screen.line(
    renderTable(
      parts.map(([name, shown]) => ({ cells: [name, ...verdict(shown)] })),
      screen,
    ),
  );
  return parts.some(([, shown]) => typeof shown !== 'string' && shown.failed > 0) ? 1 : 0;
}

function verdict(shown: Shown | string) {
  if (typeof shown === 'string') return [{ text: 'not shown', style: 'yellow' } as const, shown];
  const { total, failed } = shown;
  const result =
    failed === 0 ? ({ text: 'ok', style: 'green' } as const) : ({ text: 'FAILED', style: 'red' } as const);
  return [result, `${total - failed} of ${total} as expected`];
}

const options = optionsOf(process.argv.slice(2));
if (options === undefined) {
  process.stderr.write(usage);
  process.exit(2);
}
const interrupted = new AbortController();
// Each time: npm passes on a Ctrl-C that the terminal has sent here as well, and a second one is not to end the clean-up.
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(name, () => interrupted.abort(new Error(`stopped by ${name}`)));
}
interrupted.signal.addEventListener('abort', () => {
  setTimeout(() => process.stderr.write('demo: cleaning up\n'), SILENT_MS).unref();
});
// `npm run demo | head`, or a closed terminal: everything created is removed all the same.
process.stdout.on('error', (error) => interrupted.abort(error));
process.stderr.on('error', () => undefined);
try {
  process.exitCode = await demo(options, interrupted.signal);
} catch (error) {
  // A Ctrl-C goes to all processes of the terminal: one that ended of it may be heard of first.
  await new Promise((resolve) => setTimeout(resolve, 50));
  const { aborted, reason } = interrupted.signal;
  if (!aborted && error instanceof RampartRefused) {
    process.stderr.write(`${error.message}\n`);
    process.exitCode = error.exitCode === 2 ? 2 : 1;
  } else {
    const cause: unknown = aborted ? reason : error;
    process.stderr.write(`demo: ${cause instanceof Error ? cause.message : String(cause)}\n`);
    process.exitCode = 1;
  }
}
