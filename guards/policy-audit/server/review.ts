/** Requests and responses: AdmissionReviews of admission.k8s.io/v1, and "raw" reviews of anything else. */
import { visibleText } from '../../../lib/output/printable.ts';
import { isObject } from '../../../lib/json/json.ts';
import type { JsonObject, PolicyRequest, Verdict } from '../engine/evaluator.ts';
import { diffJson } from './json-diff.ts';
import type { ServedPolicy } from './served-policy.ts';

/** The body is not a review, and is answered with 422. */
export class ShapeError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'ShapeError';
  }
}

export interface AdmissionStatus {
  readonly message?: string;
  readonly code?: number;
  readonly reason?: string;
  readonly details?: { readonly causes: readonly { readonly field?: string; readonly message: string }[] };
}

export interface AdmissionResponse {
  readonly uid: string;
  readonly allowed: boolean;
  readonly status?: AdmissionStatus;
  /** A JSON patch in base64. */
  readonly patch?: string;
  readonly patchType?: 'JSONPatch';
  readonly auditAnnotations?: Readonly<Record<string, string>>;
  readonly warnings?: readonly string[];
}

const operations: ReadonlySet<unknown> = new Set(['CREATE', 'UPDATE', 'DELETE', 'CONNECT']);

/** @throws {ShapeError} */
export function requestOfReview(body: unknown): PolicyRequest {
  if (!isObject(body)) throw new ShapeError('the body is not a JSON object');
  const { request } = body;
  if (!isObject(request)) throw new ShapeError('request: missing, or not an object');
  if (typeof request['uid'] !== 'string') throw new ShapeError('request.uid: missing, or not a string');
  if (!operations.has(request['operation'])) {
    throw new ShapeError('request.operation: not one of CREATE, UPDATE, DELETE, CONNECT');
  }
  texts(request['kind'], ['group', 'version', 'kind'], 'request.kind');
  texts(request['resource'], ['group', 'version', 'resource'], 'request.resource');
  for (const name of ['name', 'namespace', 'subResource'] as const) {
    const value = request[name] ?? '';
    if (typeof value !== 'string') throw new ShapeError(`request.${name}: not a string`);
  }
  for (const name of ['object', 'oldObject', 'options', 'userInfo'] as const) {
    const value = request[name] ?? null;
    if (value !== null && !isObject(value)) throw new ShapeError(`request.${name}: not an object`);
  }
  return { ...request, userInfo: request['userInfo'] ?? {} } as unknown as PolicyRequest;
}

/**
 * The value of `request`, which may be anything. Policies for raw reviews know its meaning.
 *
 * @throws {ShapeError}
 */
export function requestOfRawReview(body: unknown): PolicyRequest {
  if (!isObject(body)) throw new ShapeError('the body is not a JSON object');
  const { request } = body;
  if (!isObject(request)) throw new ShapeError('request: missing, or not an object');
  const uid = request['uid'] ?? '';
  if (typeof uid !== 'string') throw new ShapeError('request.uid: not a string');
  return { ...request } as unknown as PolicyRequest;
}

/**
 * The response for a verdict. Its texts may contain names of objects, which kubectl prints unchanged, so invisible
 * characters are escaped. In a raw review, the entire request may be mutated.
 *
 * @param isRaw - For `validate_raw`.
 */
export function responseOf(verdict: Verdict, request: PolicyRequest, isRaw = false): AdmissionResponse {
  const { allowed, message, code, reason, causes, mutated, warnings, auditAnnotations } = verdict;
  const status: AdmissionStatus = {
    ...(message !== undefined && { message: visibleText(message) }),
    ...(code !== undefined && { code }),
    ...(reason !== undefined && { reason }),
    ...(causes !== undefined &&
      causes.length > 0 && {
        details: { causes: causes.map((cause) => ({ ...cause, message: visibleText(cause.message) })) },
      }),
  };
  const original: unknown = isRaw ? request : request.object;
  const patch = mutated === undefined ? [] : diffJson(original ?? null, mutated);
  return {
    uid: uidOf(request),
    allowed,
    ...(!allowed && { status }),
    ...(patch.length > 0 && {
      patch: Buffer.from(JSON.stringify(patch)).toString('base64'),
      patchType: 'JSONPatch' as const,
    }),
    ...(auditAnnotations && { auditAnnotations }),
    ...(warnings && warnings.length > 0 && { warnings: warnings.map(visibleText) }),
  };
}

/** The response if there is no verdict. */
export function failureOf(request: PolicyRequest, message: string): AdmissionResponse {
  return { uid: uidOf(request), allowed: false, status: { message: visibleText(message), code: 500 } };
}

/**
 * The response of `/validate`: with the policy's own message, according to the policy's mode, and without changes
 * that the policy may not make.
 */
export function constrained(response: AdmissionResponse, policy: ServedPolicy): AdmissionResponse {
  if (policy.mode === 'monitor') {
    const { uid, auditAnnotations, warnings } = response;
    return {
      uid,
      allowed: true,
      ...(auditAnnotations && { auditAnnotations }),
      ...(warnings && { warnings }),
    };
  }
  if (response.patch !== undefined && !policy.mayMutate) {
    const { patch: _patch, patchType: _type, ...rest } = response;
    // The API server treats a patch from a validating webhook as an error.
    return {
      ...rest,
      allowed: false,
      status: {
        message: `Request rejected by policy ${policy.id}. The policy attempted to mutate the request, but it is currently configured to not allow mutations.`,
      },
    };
  }
  if (response.allowed || policy.message === undefined) return response;
  const { message = '', details } = response.status ?? {};
  return {
    ...response,
    status: {
      ...response.status,
      message: policy.message,
      details: { causes: [...(details?.causes ?? []), { message }] },
    },
  };
}

/** The body of a response. */
export function reviewOf(response: AdmissionResponse, isRaw = false): JsonObject {
  return isRaw ? { response } : { apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', response };
}

function uidOf(request: PolicyRequest): string {
  return typeof request.uid === 'string' ? request.uid : '';
}

function texts(value: unknown, keys: readonly string[], what: string): void {
  if (!isObject(value)) throw new ShapeError(`${what}: missing, or not an object`);
  for (const key of keys)
    if (typeof value[key] !== 'string') throw new ShapeError(`${what}.${key}: missing, or not a string`);
}
