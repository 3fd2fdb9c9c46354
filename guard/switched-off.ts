/** Removes what guards that this process does not run have left on this node: nothing would keep it up to date. */
import { messageOf } from '../lib/errors/errors.ts';
import type { Logger } from '../lib/telemetry/log.ts';
import type { Guard, OptionValues } from './guard.ts';
import { parsedOptions } from './guard-options.ts';

interface SwitchedOff {
  /** The guards that run. */
  readonly guards: readonly Guard[];
  readonly values: OptionValues;
  readonly logger: Pick<Logger, 'info' | 'warn'>;
  readonly signal: AbortSignal;
}

/** Runs once, at the start, in parallel with the guards, which do not wait for it. Failures are logged, and stop nothing. Never rejects. */
export async function removeOfSwitchedOff(
  all: readonly Guard[],
  { guards, values, logger, signal }: SwitchedOff,
): Promise<void> {
  for (const guard of all) {
    if (guard.switchedOff === undefined || guards.includes(guard)) continue;
    try {
      const clean = await guard.switchedOff();
      const removed = await clean(parsedOptions(guard, values), signal);
      if (removed.length > 0) {
        logger.info(
          { guard: guard.name, removed },
          `${guard.name} is switched off: removed what it had left on this node`,
        );
      }
    } catch (error) {
      if (signal.aborted) return;
      logger.warn(
        { guard: guard.name, err: error },
        `${guard.name} is switched off, and what it has left on this node stays: ${messageOf(error)}`,
      );
    }
  }
}
