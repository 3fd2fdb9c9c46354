/** Why a baseline cannot be used. None of these errors may look like "everything was added" or "nothing has changed". */
import { type ErrorCode, errorCodes, RampartError } from '../../../lib/errors/errors.ts';

const kinds = {
  /** The file does not exist. */
  missing: {
    code: errorCodes.NOT_FOUND,
    next: 'Create a baseline: initialize the node again once you trust its state',
  },
  /** The file is not a baseline. */
  foreign: { code: errorCodes.CORRUPT, next: 'Give the path of a baseline, or import an AIDE database' },
  /** The file ends too early. */
  truncated: {
    code: errorCodes.CORRUPT,
    next: 'Restore a backup, or initialize again once you trust the state of the node',
  },
  /** The bytes of the file are not those that were written. */
  damaged: {
    code: errorCodes.CORRUPT,
    next: 'Check the disk; then restore a backup, or initialize again once you trust the state of the node',
  },
  /** It has no signature. */
  unsigned: {
    code: errorCodes.CORRUPT,
    next: 'Rampart uses signed baselines only. Find out who replaced it; then restore a backup, or initialize again',
  },
  /** It is complete, but not signed with the given key. */
  'wrong signature': {
    code: errorCodes.CORRUPT,
    next: 'If the key has not changed, someone changed the baseline: investigate before you initialize again',
  },
  /** It is signed, but not the latest one. */
  outdated: {
    code: errorCodes.CORRUPT,
    next: 'Someone replaced the baseline: find out who. Then restore the latest one, or initialize again',
  },
  /** A later Rampart wrote it. */
  newer: {
    code: errorCodes.UNSUPPORTED,
    next: 'Use that version of Rampart, or initialize again with this one',
  },
} as const satisfies Readonly<Record<string, { readonly code: ErrorCode; readonly next: string }>>;

export type BaselineFault = keyof typeof kinds;

/** The baseline cannot be used, so changes are unknown. */
export class BaselineError extends RampartError {
  readonly fault: BaselineFault;

  constructor(fault: BaselineFault, path: string, why: string, cause?: unknown) {
    const { code, next } = kinds[fault];
    super(code, {
      what: `the baseline ${path} cannot be used`,
      why,
      next,
      cause,
    });
    this.name = 'BaselineError';
    this.fault = fault;
  }
}

/** @param unread - Number of selected files that could not be read. */
export function emptyBaseline(unread: number): RampartError {
  return new RampartError(errorCodes.INPUT, {
    what: 'no baseline was created',
    why:
      unread === 0
        ? 'the configuration selects no file that exists'
        : `none of the files that the configuration selects could be read (${unread} failed)`,
    next: 'Check its rules and the mount point of the root file system',
  });
}
