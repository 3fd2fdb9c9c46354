import type { Guard } from '../../guard/guard.ts';
import { documentText } from '../../lib/cli/document.ts';
import { describeFailure } from '../../lib/cli/failure.ts';
import { outputOptions } from '../../lib/cli/output.ts';
import { stopSignal } from '../../lib/cli/process.ts';
import { ask, type Asked, askStored, isRefused } from './ask.ts';
import type { StatusOptions } from './command.ts';
import { renderStatus } from './render.ts';

/** @returns the exit code: 0 all is guarded, 1 something is not, 2 unknown, with the reason on stderr. */
export async function runStatus(guards: readonly Guard[], options: StatusOptions): Promise<0 | 1 | 2> {
  const { signal } = stopSignal();
  let asked: Asked;
  try {
    asked = await ask(guards, options, signal);
  } catch (error) {
    // 2 for an unreachable API too: a script has to distinguish it from an unguarded object.
    process.stderr.write(describeFailure(error).text);
    if (!isRefused(error)) return 2;
    const stored = await askStored(guards, options, signal).catch((failure: unknown) => {
      process.stderr.write(describeFailure(failure).text);
      return undefined;
    });
    if (stored === undefined) return 2;
    asked = stored;
  }
  const { report } = asked.examined;
  const { stdout } = process;
  if (options.output === 'json' || options.output === 'yaml')
    stdout.write(documentText(options.output, report));
  else {
    const isWide = options.output === 'wide';
    stdout.write(
      renderStatus(asked.examined, asked.guards, { ...outputOptions(80, { max: 120, isWide }), isWide }),
    );
  }
  if (report.guarded) return 0;
  return report.problems.length > 0 ? 1 : 2;
}
