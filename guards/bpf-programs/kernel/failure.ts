/** Why a program does not run, as an error that becomes a {@link Failure}. */
import { constants } from 'node:os';

import { SystemCallError } from '../../../lib/ebpf/libc.ts';
import { KernelRefusal } from '../../../lib/ebpf/refusal.ts';
import { RampartError } from '../../../lib/errors/errors.ts';
import type { Failure } from './desired.ts';

export type FailureReason = Failure['reason'];

/** One program cannot run; others are not affected. */
export class ProgramFailure extends Error {
  readonly reason: FailureReason;
  /** Whether a retry may succeed without a change of the Kubernetes object. */
  readonly mayPass: boolean;

  constructor(reason: FailureReason, message: string, mayPass = false, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'ProgramFailure';
    this.reason = reason;
    this.mayPass = mayPass;
  }

  static of({ reason, message, mayPass }: Failure): ProgramFailure {
    return new ProgramFailure(reason, message, mayPass);
  }

  get outcome(): Failure {
    return { state: 'failed', reason: this.reason, message: this.message, mayPass: this.mayPass };
  }
}

const { EAGAIN, EBUSY, EINTR, EMFILE, ENFILE, ENOBUFS, ENOMEM } = constants.errno;
/** Errors of the kernel that say nothing about the program itself. */
const passing: ReadonlySet<number> = new Set([EAGAIN, EBUSY, EINTR, EMFILE, ENFILE, ENOBUFS, ENOMEM]);

/** Turns an error into a failure of the program. Unexpected errors are faults of Rampart, and are rethrown. */
export function failureOf(error: unknown, reason: FailureReason, mayPass = false): ProgramFailure {
  if (error instanceof ProgramFailure) return error;
  if (!(error instanceof RampartError)) throw error;
  const scarce =
    (error instanceof KernelRefusal && passing.has(error.errno)) ||
    (error instanceof SystemCallError && passing.has(error.number));
  return new ProgramFailure(reason, error.message, mayPass || scarce, error);
}
