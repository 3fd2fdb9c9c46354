/**
 * The catalogue of errors: every failure a person or a program may have to react to has a stable
 * code here. A message says what failed, on which thing, why, and what to do next.
 */

/** Stable codes. A code is never reused for another meaning; add, do not change. */
export const errorCodes = {
  /** The command line or a configuration value cannot work. */
  INPUT: 'RAMPART_INPUT',
  /** A needed privilege (root, a capability) is missing. */
  PRIVILEGE: 'RAMPART_PRIVILEGE',
  /** This kernel or this machine cannot do what was asked. */
  UNSUPPORTED: 'RAMPART_UNSUPPORTED',
  /** A system call failed. */
  SYSTEM: 'RAMPART_SYSTEM',
  /** libbpf or the kernel refused an eBPF object, program, map or link. */
  EBPF: 'RAMPART_EBPF',
  /** A configured limit was reached (targets, paths, queue length). */
  LIMIT: 'RAMPART_LIMIT',
  /** Bytes from the kernel do not have the layout this version expects. */
  DECODE: 'RAMPART_DECODE',
  /** A handle was used after it was disposed. */
  DISPOSED: 'RAMPART_DISPOSED',
  /** The Kubernetes API answered with an error; `KubeError` has its status and reason. */
  API: 'RAMPART_API',
  /** The Kubernetes API gave no usable answer: no connection, a timeout, a broken stream, a server that is not the API. */
  API_UNREACHABLE: 'RAMPART_API_UNREACHABLE',
  /** The object to create exists already. */
  EXISTS: 'RAMPART_EXISTS',
  /** The object to change does not exist. */
  NOT_FOUND: 'RAMPART_NOT_FOUND',
  /** The object is not in the expected state: another process has changed it. */
  CONFLICT: 'RAMPART_CONFLICT',
  /** The requested history is no longer kept. */
  EXPIRED: 'RAMPART_EXPIRED',
  /** There is no space on the file system. */
  FULL: 'RAMPART_FULL',
  /** Stored data is damaged. */
  CORRUPT: 'RAMPART_CORRUPT',
  /** Another process is using something that only one process at a time may use. */
  IN_USE: 'RAMPART_IN_USE',
  /** The container runtime answered with an error. */
  RUNTIME: 'RAMPART_RUNTIME',
  /** The container runtime gave no answer: no socket, no listener, a timeout, a broken stream. */
  RUNTIME_UNREACHABLE: 'RAMPART_RUNTIME_UNREACHABLE',
} as const;

export type ErrorCode = (typeof errorCodes)[keyof typeof errorCodes];

/** The parts that `message` is composed of. */
interface ErrorParts {
  /** The failed action, as a phrase: "cannot watch /etc". */
  readonly what: string;
  /** Why: the reason the kernel or the checker gave. */
  readonly why?: string | undefined;
  /** What the reader can do next. */
  readonly next?: string | undefined;
  /** Longer material that belongs to the error, e.g. the verifier's last lines. */
  readonly detail?: string | undefined;
  readonly cause?: unknown;
}

/**
 * The one error class of the product: a stable `code` and a message that ends without a full stop.
 *
 * @example
 * throw new RampartError(errorCodes.NOT_FOUND, {
 *   what: `cannot watch ${path}`,
 *   why: 'there is no such directory',
 *   next: 'Create it first, or watch the directory above',
 *   cause: error,
 * });
 * // cannot watch /srv/data: there is no such directory. Create it first, or watch the directory above
 */
export class RampartError extends Error {
  readonly code: ErrorCode;
  readonly next: string | undefined;
  readonly detail: string | undefined;

  constructor(code: ErrorCode, parts: ErrorParts) {
    const sentence = parts.why === undefined ? parts.what : `${parts.what}: ${parts.why}`;
    // Messages end without a full stop; reasons come from many places, some with one.
    const reported = sentence.replace(/(?<!\.)\.$/, '');
    const lines =
      parts.next === undefined ? reported : `${reported}. ${parts.next.replace(/(?<!\.)\.$/, '')}`;
    super(
      parts.detail ? `${lines}\n${parts.detail}` : lines,
      parts.cause === undefined ? undefined : { cause: parts.cause },
    );
    this.name = 'RampartError';
    this.code = code;
    this.next = parts.next;
    this.detail = parts.detail;
  }
}

/** The error for a failed write or read: `FULL` if the disk is full, else `SYSTEM`. */
export function fileError(what: string, error: unknown, next?: string): RampartError {
  const isFull = error instanceof Error && 'code' in error && error.code === 'ENOSPC';
  return new RampartError(isFull ? errorCodes.FULL : errorCodes.SYSTEM, {
    what,
    why: messageOf(error),
    next,
    cause: error,
  });
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
