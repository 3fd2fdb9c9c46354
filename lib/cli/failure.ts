/** How a failed command reports its failure: the lines on stderr and the exit code. */
import { type Command, CommanderError } from 'commander';

import type { Logger } from '../telemetry/log.ts';
import { errorCodes, RampartError, type ErrorCode } from '../errors/errors.ts';

/** Not 1, which is an answer of a command: something was found, or refused. */
const FAILED = 2;

/** Exit code for usage errors of these commands, if it is not 2. */
export const usageExitCode = new WeakMap<Command, number>();

/** Errors for which a retry is useless: another command line, another user or another machine is needed. */
const refusals: ReadonlySet<ErrorCode> = new Set([
  errorCodes.INPUT,
  errorCodes.PRIVILEGE,
  errorCodes.UNSUPPORTED,
  errorCodes.LIMIT,
]);

const exitCodes = { failed: FAILED, refused: FAILED };

/** Sets the exit codes. @param refused - For the errors in {@link refusals}. */
export function failWith(failed: number, refused = failed): void {
  Object.assign(exitCodes, { failed, refused });
}

/**
 * Sets the exit codes of a service: its supervisor has to distinguish a failure, which may be temporary, from a command
 * line that will never work.
 */
export function failAsService(): void {
  failWith(1, FAILED);
}

/** @param command - The command with the wrong arguments. */
export function withUsageExitCode(error: CommanderError, command: Command): CommanderError {
  const exitCode = usageExitCode.get(command);
  if (error.exitCode === 0 || exitCode === undefined) return error;
  return new CommanderError(exitCode, error.code, error.message);
}

let log: Pick<Logger, 'fatal'> | undefined;

/** Makes failures lines of this log; `undefined`: of stderr. See `sayInLog`. */
export function failInLog(logger: Pick<Logger, 'fatal'> | undefined): void {
  log = logger;
}

/** Reports the error that ends the process, on stderr or in the log. @returns the exit code */
export function reportFailure(error: unknown): number {
  const { text, exitCode } = describeFailure(error);
  if (text === '') return exitCode;
  if (log === undefined) process.stderr.write(text);
  else
    log.fatal(
      { err: error },
      error instanceof RampartError ? 'failed' : 'failed: this is a bug in Rampart; please report it',
    );
  return exitCode;
}

export interface Failure {
  /** For stderr; '' if the message has already been printed, or none is needed. */
  readonly text: string;
  /** 0 for `--help`, else 2, unless {@link usageExitCode} or {@link failWith} says otherwise. */
  readonly exitCode: number;
}

/** The text to print and the exit code for anything that was thrown. */
export function describeFailure(error: unknown): Failure {
  if (error instanceof RampartError) {
    const [line, ...detail] = error.message.split('\n');
    const text = [`rampart: ${line}`, ...detail.map((more) => `  ${more}`)].join('\n');
    return { text: `${text}\n`, exitCode: refusals.has(error.code) ? exitCodes.refused : exitCodes.failed };
  }
  // Commander prints its message or the help text before it throws.
  if (error instanceof CommanderError)
    return { text: '', exitCode: error.exitCode === 1 ? FAILED : error.exitCode };
  if (isBrokenPipe(error)) return { text: '', exitCode: 0 };
  const stack = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return {
    text: `rampart: this is a bug in Rampart; please report it with these lines:\n${stack}\n`,
    exitCode: exitCodes.failed,
  };
}

/** The error for a failed write to stdout or stderr: the disk is full, or the terminal is gone. */
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
