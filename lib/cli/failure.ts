/** How a failed command informs its user: the lines on stderr and the exit code. */
import { type Command, CommanderError } from 'commander';

import type { Logger } from '../telemetry/log.ts';
import { errorCodes, RampartError, type ErrorCode } from '../errors/errors.ts';

/** 1 is an answer: something was found, or refused. */
const FAILED = 2;

/** Exit code for usage errors of these commands, if it is not 2. */
export const usageExitCode = new WeakMap<Command, number>();

/** The request cannot be met here: another command line, another user or another machine is needed. */
const refusals: ReadonlySet<ErrorCode> = new Set([
  errorCodes.INPUT,
  errorCodes.PRIVILEGE,
  errorCodes.UNSUPPORTED,
  errorCodes.LIMIT,
]);

const exitCodes = { failed: FAILED, refused: FAILED };

/** From now on a failure ends the process with this, and a request that is refused with `refused`. */
export function failWith(failed: number, refused = failed): void {
  Object.assign(exitCodes, { failed, refused });
}

/**
 * For services: whatever restarts them has to distinguish a failure, which may pass, from a command line that
 * will never work.
 */
export function failAsService(): void {
  failWith(1, FAILED);
}

/** @param command - Whose arguments were wrong. */
export function withUsageExitCode(error: CommanderError, command: Command): CommanderError {
  const exitCode = usageExitCode.get(command);
  if (error.exitCode === 0 || exitCode === undefined) return error;
  return new CommanderError(exitCode, error.code, error.message);
}

let log: Pick<Logger, 'fatal'> | undefined;

/** From now on a failure is a line of this log. See `sayInLog`. */
export function failInLog(logger: Pick<Logger, 'fatal'> | undefined): void {
  log = logger;
}

/** Writes to stderr what ends the process. @returns the exit code */
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
  /** For stderr; empty when everything has been said already. */
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
  // Commander has printed its message or the help text before it throws.
  if (error instanceof CommanderError)
    return { text: '', exitCode: error.exitCode === 1 ? FAILED : error.exitCode };
  if (isBrokenPipe(error)) return { text: '', exitCode: 0 };
  const stack = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return {
    text: `rampart: this is a bug in Rampart; please report it with these lines:\n${stack}\n`,
    exitCode: exitCodes.failed,
  };
}

/** For errors of stdout and stderr: the disk is full, or the terminal is gone. */
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
