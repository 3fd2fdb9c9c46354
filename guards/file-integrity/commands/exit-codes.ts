/** AIDE's exit codes, used for our errors: scripts that run `aide --check` from cron rely on them. */
import { errorCodes, RampartError, type ErrorCode } from '../../../lib/errors/errors.ts';
import { exitBits } from '../report/report.ts';
import type { Report } from '../model/report.ts';

/** The exit codes of aide(1). */
export const aideExit = {
  write: 14,
  argument: 15,
  unimplemented: 16,
  configuration: 17,
  io: 18,
  version: 19,
  execution: 20,
  lock: 21,
  memory: 22,
  thread: 23,
} as const;
type AideExit = (typeof aideExit)[keyof typeof aideExit];

/** The stage that failed; it determines the exit code more than the error does. */
export type Stage = 'arguments' | 'configuration' | 'key' | 'run';

const byCode: Partial<Record<ErrorCode, AideExit>> = {
  [errorCodes.FULL]: aideExit.write,
  [errorCodes.UNSUPPORTED]: aideExit.version,
  [errorCodes.LIMIT]: aideExit.memory,
  [errorCodes.IN_USE]: aideExit.lock,
};

/**
 * The exit code for an error. Bugs of Rampart have one too: the state of the files is unknown then, and the code must
 * not mean a difference.
 */
export function exitCodeOf(error: unknown, stage: Stage): number {
  if (error instanceof RampartError) {
    if (error.code === errorCodes.INPUT && stage !== 'run')
      return stage === 'configuration' ? aideExit.configuration : aideExit.argument;
    const known = byCode[error.code];
    if (known !== undefined) return known;
    // Thrown by replaceFile.
    if (error.code === errorCodes.SYSTEM && error.message.startsWith('cannot write ')) return aideExit.write;
  }
  return aideExit.io;
}

/** The exit code of a check: a difference takes precedence over unread files. */
export function exitCodeOfReport({ counts }: Report): number {
  const bits = exitBits(counts);
  return bits === 0 && counts.problems > 0 ? aideExit.io : bits;
}
