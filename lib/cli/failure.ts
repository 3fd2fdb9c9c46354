/** How a failed command informs its user: the lines on stderr and the exit code. */
import { type Command, CommanderError } from 'commander';

import { errorCodes, RampartError, type ErrorCode } from '../errors/errors.ts';

/** What was asked cannot be done here: another command line, another user or another machine is needed. */
const refused: ReadonlySet<ErrorCode> = new Set([
  errorCodes.INPUT,
  errorCodes.PRIVILEGE,
  errorCodes.UNSUPPORTED,
  errorCodes.LIMIT,
]);

/** What a usage error of these commands exits with, where it is not 2. */
export const usageExitCode = new WeakMap<Command, number>();

let otherExitCode = 1;

/** From now on what fails in an unforeseen way ends the process with this, where 1 says something else to who reads it. */
export function failWith(exitCode: number): void {
  otherExitCode = exitCode;
}

/** @param command - Whose arguments were wrong. */
export function withUsageExitCode(error: CommanderError, command: Command): CommanderError {
  const exitCode = usageExitCode.get(command);
  if (error.exitCode === 0 || exitCode === undefined) return error;
  return new CommanderError(exitCode, error.code, error.message);
}

export interface Failure {
  /** For stderr; empty when everything has been said already. */
  readonly text: string;
  /**
   * 0 for no failure (`--help`), 2 for a request that was refused before anything changed, 1 for the rest; but for
   * {@link usageExitCode} and {@link failWith}.
   */
  readonly exitCode: number;
}

/** What to print and to exit with for anything that was thrown. */
export function describeFailure(error: unknown): Failure {
  if (error instanceof RampartError) {
    const [line, ...detail] = error.message.split('\n');
    const text = [`rampart: ${line}`, ...detail.map((more) => `  ${more}`)].join('\n');
    return { text: `${text}\n`, exitCode: refused.has(error.code) ? 2 : otherExitCode };
  }
  // Commander has printed its message or the help text before it throws.
  if (error instanceof CommanderError)
    return { text: '', exitCode: error.exitCode === 1 ? 2 : error.exitCode };
  if (isBrokenPipe(error)) return { text: '', exitCode: 0 };
  const stack = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return {
    text: `rampart: this is a bug in Rampart; please report it with these lines:\n${stack}\n`,
    exitCode: otherExitCode,
  };
}

/** Of stdout and stderr: a disk that is full, a terminal that is gone. */
export function outputFailure(error: Error): RampartError {
  return new RampartError(errorCodes.SYSTEM, {
    what: 'cannot write the output',
    why: error.message,
    next: 'Write it elsewhere, or free some space',
    cause: error,
  });
}

/** Whether a write failed because its reader is gone, as in `rampart watch FILE | head -1`. */
export function isBrokenPipe(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'EPIPE';
}
