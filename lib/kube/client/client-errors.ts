import type { V1Status, V1StatusDetails } from '@kubernetes/client-node';

import { errorCodes, RampartError } from '../../errors/errors.ts';
import { printable } from '../../output/printable.ts';
import type { Wire } from '../object/object.ts';

export type Status = Wire<V1Status>;
type StatusDetails = Wire<V1StatusDetails>;

interface KubeErrorParts {
  /** The request: `get leases kube-system/rampart`. */
  readonly what: string;
  /** The HTTP status, or the code of a Status that came in a stream. */
  readonly status: number;
  readonly reason: string;
  /** The server's own words. */
  readonly message: string;
  readonly details?: StatusDetails | undefined;
  /** How long the server asks to wait before the next try. */
  readonly retryAfterMs?: number | undefined;
}

/** An error that the API answered with: `code` is `API`; `status` and `reason` say which. */
export class KubeError extends RampartError {
  readonly status: number;
  /** In the API's words: `NotFound`, `Conflict`, `AlreadyExists`, ... Compare with the predicates of this file. */
  readonly reason: string;
  readonly details: StatusDetails | undefined;
  readonly retryAfterMs: number | undefined;

  constructor({ what, status, reason, message, details, retryAfterMs }: KubeErrorParts) {
    super(errorCodes.API, { what: `cannot ${what}`, why: `${message} (${status} ${reason})` });
    this.name = 'KubeError';
    this.status = status;
    this.reason = reason;
    this.details = details;
    this.retryAfterMs = retryAfterMs;
  }
}

/** Reasons for answers without a Status, or whose Status names none. The names are apimachinery's StatusReason. */
const reasons: Readonly<Record<number, string>> = {
  400: 'BadRequest',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
  405: 'MethodNotAllowed',
  406: 'NotAcceptable',
  409: 'Conflict',
  410: 'Gone',
  413: 'RequestEntityTooLarge',
  415: 'UnsupportedMediaType',
  422: 'Invalid',
  429: 'TooManyRequests',
  500: 'InternalError',
  503: 'ServiceUnavailable',
  504: 'Timeout',
};

/** How much is shown of an answer that is not a Status. */
const SHOWN_CHARACTERS = 200;

interface FailedAnswer {
  readonly what: string;
  readonly status: number;
  readonly body: string;
  readonly retryAfterMs?: number | undefined;
  /** Text that must not be shown, wherever it comes from. */
  readonly secrets?: readonly string[];
}

/** The error for an answer: from its Status or, if another program answered, from the HTTP status. */
export function errorFromAnswer({ what, status, body, retryAfterMs, secrets = [] }: FailedAnswer): KubeError {
  const parsed = parseStatus(body);
  if (parsed !== undefined) return errorFromStatus(what, parsed, { status, retryAfterMs, secrets });
  const shown = printable(redact(body.trim(), secrets)).slice(0, SHOWN_CHARACTERS);
  return new KubeError({
    what,
    status,
    reason: reasons[status] ?? 'Unknown',
    message: shown === '' ? 'the response is empty' : `the response is "${shown}"`,
    retryAfterMs,
  });
}

/** The error for a Status, e.g. from an ERROR event of a watch. */
export function errorFromStatus(
  what: string,
  status: Status,
  defaults: {
    readonly status?: number;
    readonly retryAfterMs?: number | undefined;
    readonly secrets?: readonly string[];
  } = {},
): KubeError {
  const code = status.code ?? defaults.status ?? 500;
  const seconds = status.details?.retryAfterSeconds;
  return new KubeError({
    what,
    status: code,
    reason: status.reason ?? reasons[code] ?? 'Unknown',
    message: printable(redact(status.message ?? 'the server gave no message', defaults.secrets ?? [])),
    details: status.details,
    retryAfterMs: defaults.retryAfterMs ?? (seconds ? seconds * 1000 : undefined),
  });
}

function parseStatus(body: string): Status | undefined {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    return undefined;
  }
  return isStatus(value) ? value : undefined;
}

export function isStatus(value: unknown): value is Status {
  return typeof value === 'object' && value !== null && (value as { kind?: unknown }).kind === 'Status';
}

function redact(text: string, secrets: readonly string[]): string {
  return secrets.reduce((all, secret) => (secret === '' ? all : all.replaceAll(secret, '[redacted]')), text);
}

/** The error for no answer, or for one that makes no sense: `code` is `API_UNREACHABLE`. */
export function unreachable(what: string, why: string, cause?: unknown): RampartError {
  return new RampartError(errorCodes.API_UNREACHABLE, { what: `cannot ${what}`, why, cause });
}

/** Whether no usable answer came: the request may or may not have been carried out. */
export function isUnreachable(error: unknown): boolean {
  return error instanceof RampartError && error.code === errorCodes.API_UNREACHABLE;
}

function isKube(error: unknown, status: number, reason?: string): error is KubeError {
  return (
    error instanceof KubeError && error.status === status && (reason === undefined || error.reason === reason)
  );
}

export const isNotFound = (error: unknown): error is KubeError => isKube(error, 404);
/** The object to be created exists already. */
export const isAlreadyExists = (error: unknown): error is KubeError => isKube(error, 409, 'AlreadyExists');
/** Another client has changed the object, or owns a field: read again. */
export const isConflict = (error: unknown): error is KubeError =>
  isKube(error, 409) && error.reason !== 'AlreadyExists';
/** The version or the continue token is too old: list again. Both of the API's reasons, Gone and Expired. */
export const isGone = (error: unknown): error is KubeError => isKube(error, 410);
export const isForbidden = (error: unknown): error is KubeError => isKube(error, 403);
export const isTooManyRequests = (error: unknown): error is KubeError => isKube(error, 429);

/**
 * The requested object, or undefined if the API does not have it.
 *
 * @throws for any other answer
 */
export async function orUndefined<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}
