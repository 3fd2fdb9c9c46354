/** Why a program does not run, as an error on its way to an {@link Outcome}. */
import { constants } from 'node:os';

import { SystemCallError } from '../../../shared/ebpf/libc.ts';
import { KernelRefusal } from './refusal.ts';
import { RampartError } from '../../../shared/observe/errors.ts';
import type { Outcome } from './desired.ts';

export type FailureReason = Extract<Outcome, { state: 'failed' }>['reason'];

/** One program cannot run; others are not concerned. */
export class ProgramFailure extends Error {
  readonly reason: FailureReason;
  /** Whether trying again may help without any change of the object. */
  readonly mayPass: boolean;

  constructor(reason: FailureReason, message: string, mayPass = false, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'ProgramFailure';
    this.reason = reason;
    this.mayPass = mayPass;
  }

  get outcome(): Outcome {
    return { state: 'failed', reason: this.reason, message: this.message, mayPass: this.mayPass };
  }
}

const { EAGAIN, EBUSY, EINTR, EMFILE, ENFILE, ENOBUFS, ENOMEM } = constants.errno;
/** The kernel's answers that say nothing about the program. */
const passing: ReadonlySet<number> = new Set([EAGAIN, EBUSY, EINTR, EMFILE, ENFILE, ENOBUFS, ENOMEM]);

/**
 * What went wrong as a failure of a program. Errors that nobody foresaw are faults of ours, and thrown on.
 */
export function failureOf(error: unknown, reason: FailureReason, mayPass = false): ProgramFailure {
  if (error instanceof ProgramFailure) return error;
  if (!(error instanceof RampartError)) throw error;
  const scarce =
    (error instanceof KernelRefusal && passing.has(error.errno)) ||
    (error instanceof SystemCallError && passing.has(error.number));
  return new ProgramFailure(reason, error.message, mayPass || scarce, error);
}
