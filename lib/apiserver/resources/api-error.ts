/**
 * Errors of requests, with the `Status` that is the answer. Reasons, codes and wording are those of
 * k8s.io/apimachinery `pkg/api/errors/errors.go` as of Kubernetes 1.35.
 */
import { errorCodes, RampartError } from '../../errors/errors.ts';
import type { RefusalCause } from '../../json/refusal.ts';
import type { Cause } from '../schema/field-error.ts';
import { groupResource } from './resource.ts';

export interface StatusCause {
  readonly reason: string;
  readonly message: string;
  readonly field?: string;
}

/** `meta/v1` Status of a failure. */
export interface StatusFailure {
  readonly kind: 'Status';
  readonly apiVersion: 'v1';
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly status: 'Failure';
  readonly message: string;
  readonly reason: string;
  readonly details?: {
    readonly name?: string;
    readonly group?: string;
    readonly kind?: string;
    readonly uid?: string;
    readonly causes?: readonly StatusCause[];
    readonly retryAfterSeconds?: number;
  };
  readonly code: number;
}

export interface Subject {
  readonly group: string;
  readonly plural: string;
  readonly kind: string;
}

interface ApiErrorParts {
  readonly code: number;
  readonly reason: string;
  readonly message: string;
  readonly details?: StatusFailure['details'] | undefined;
  /** `metadata.continue` of the Status, for a list whose token has expired. */
  readonly continue?: string | undefined;
}

interface AboutParts extends Pick<ApiErrorParts, 'code' | 'message' | 'reason'> {
  readonly causes?: readonly StatusCause[] | undefined;
}

/** An error that is sent to the client unchanged. */
export class ApiError extends RampartError {
  readonly status: StatusFailure;

  constructor(parts: ApiErrorParts, cause?: unknown) {
    const { code, reason, message, details } = parts;
    super(errorCodes.API, { what: message, cause });
    this.name = 'ApiError';
    this.status = {
      kind: 'Status',
      apiVersion: 'v1',
      metadata: parts.continue === undefined ? {} : { continue: parts.continue },
      status: 'Failure',
      message,
      reason,
      ...(details === undefined ? {} : { details }),
      code,
    };
  }
}

export const apiErrors = {
  /** An error about an object, or about its kind if `name` is ''. */
  about: ({ group, plural }: Subject, name: string, parts: AboutParts): ApiError => {
    const { code, reason, message, causes } = parts;
    const details = {
      ...(name === '' ? {} : { name }),
      ...(group === '' ? {} : { group }),
      kind: plural,
      ...(causes === undefined ? {} : { causes }),
    };
    return new ApiError({ code, reason, message, details });
  },

  badRequest: (message: string): ApiError => new ApiError({ code: 400, reason: 'BadRequest', message }),

  unauthorized: (): ApiError => new ApiError({ code: 401, reason: 'Unauthorized', message: 'Unauthorized' }),

  forbidden: (subject: Subject, name: string, why: string, causes?: readonly StatusCause[]): ApiError =>
    apiErrors.about(subject, name, {
      code: 403,
      reason: 'Forbidden',
      message: `${groupResource(subject)}${name === '' ? '' : ` ${quoted(name)}`} is forbidden: ${why}`,
      causes,
    }),

  noRoute: (): ApiError =>
    new ApiError({
      code: 404,
      reason: 'NotFound',
      message: 'the server could not find the requested resource',
      details: {},
    }),

  /** The subresource exists in a cluster, but not on this server. */
  notServed: (subject: Subject, subresource: string): ApiError =>
    new ApiError({
      code: 404,
      reason: 'NotFound',
      message:
        `${groupResource(subject)}/${subresource} is not served here: there is no kubelet behind this server. ` +
        'On the machine that runs the pod, crictl does it',
      details: {},
    }),

  notFound: (subject: Subject, name: string): ApiError =>
    apiErrors.about(subject, name, {
      code: 404,
      reason: 'NotFound',
      message: `${groupResource(subject)} ${quoted(name)} not found`,
    }),

  methodNotAllowed: (subject: Subject, verb: string): ApiError =>
    apiErrors.about(subject, '', {
      code: 405,
      reason: 'MethodNotAllowed',
      message: `${verb} is not supported on resources of kind ${quoted(groupResource(subject))}`,
    }),

  notAcceptable: (accepted: readonly string[]): ApiError =>
    new ApiError({
      code: 406,
      reason: 'NotAcceptable',
      message: `only the following media types are accepted: ${accepted.join(', ')}`,
    }),

  alreadyExists: (subject: Subject, name: string): ApiError =>
    apiErrors.about(subject, name, {
      code: 409,
      reason: 'AlreadyExists',
      message: `${groupResource(subject)} ${quoted(name)} already exists`,
    }),

  conflict: (subject: Subject, name: string, why: string): ApiError =>
    apiErrors.about(subject, name, {
      code: 409,
      reason: 'Conflict',
      message: `Operation cannot be fulfilled on ${groupResource(subject)} ${quoted(name)}: ${why}`,
    }),

  /** The object has changed since the client read it. */
  changed: (subject: Subject, name: string): ApiError =>
    apiErrors.conflict(
      subject,
      name,
      'the object has been modified; please apply your changes to the latest version and try again',
    ),

  expired: (message: string, token?: string): ApiError =>
    new ApiError({ code: 410, reason: 'Expired', message, continue: token }),

  tooLarge: (message: string): ApiError =>
    new ApiError({ code: 413, reason: 'RequestEntityTooLarge', message }),

  unsupportedMediaType: (sent: string, accepted: readonly string[]): ApiError =>
    new ApiError({
      code: 415,
      reason: 'UnsupportedMediaType',
      message: `the body of the request was in an unknown format - accepted media types include: ${accepted.join(', ')}${sent === '' ? '' : ` (sent: ${sent})`}`,
    }),

  /** The object breaks a rule. `causes` has at least one. */
  invalid: (
    subject: Pick<Subject, 'group' | 'kind'>,
    name: string,
    causes: readonly (Cause | RefusalCause)[],
  ): ApiError => {
    const { group, kind } = subject;
    const texts = causes.map(({ field, message }) => `${field}: ${message}`);
    const [only = ''] = texts;
    const why = texts.length === 1 ? only : `[${[...new Set(texts)].join(', ')}]`;
    return new ApiError({
      code: 422,
      reason: 'Invalid',
      message: `${group === '' ? kind : `${kind}.${group}`} ${quoted(name)} is invalid: ${why}`,
      details: {
        name,
        ...(group === '' ? {} : { group }),
        kind,
        causes: causes.map(({ reason, message, field }) => ({ reason, message, field })),
      },
    });
  },

  tooManyRequests: (
    retryAfterSeconds: number,
    message = 'Too many requests, please try again later.',
  ): ApiError =>
    new ApiError({
      code: 429,
      reason: 'TooManyRequests',
      message,
      details: { retryAfterSeconds },
    }),

  internal: (message: string, cause?: unknown): ApiError =>
    new ApiError(
      { code: 500, reason: 'InternalError', message: `Internal error occurred: ${message}` },
      cause,
    ),

  unavailable: (message: string): ApiError =>
    new ApiError({ code: 503, reason: 'ServiceUnavailable', message, details: { retryAfterSeconds: 1 } }),

  timeout: (message: string): ApiError =>
    new ApiError({ code: 504, reason: 'Timeout', message, details: { retryAfterSeconds: 1 } }),
};

function quoted(text: string): string {
  return JSON.stringify(text);
}
