/** How gRPC calls fail: https://grpc.io/docs/guides/status-codes/ */
/** The status codes of gRPC that this code distinguishes. */
export const grpcStatus = {
  OK: 0,
  CANCELLED: 1,
  UNKNOWN: 2,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  ALREADY_EXISTS: 6,
  PERMISSION_DENIED: 7,
  FAILED_PRECONDITION: 9,
  UNIMPLEMENTED: 12,
  INTERNAL: 13,
  UNAVAILABLE: 14,
} as const;

/** A call that failed: the server refused it, or the connection broke (`UNAVAILABLE` with the socket's error as cause). */
export class GrpcError extends Error {
  readonly status: number;

  constructor(status: number, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'GrpcError';
    this.status = status;
  }
}
