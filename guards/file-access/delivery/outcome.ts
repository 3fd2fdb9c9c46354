/**
 * Interprets the response to a POST. Pure: no I/O.
 *
 * - 2xx: delivered.
 * - 3xx: not followed, because the new target has not been checked. Tried again.
 * - 4xx about the receiver as a whole (401, 403, 404, ... and 408, 425, 429): tried again until the alert is too old. An expired token or a
 *   missing route gets fixed, and then nothing is lost.
 * - other 4xx (400, 413, 422, ...): the receiver refuses this alert. Tried a few times, then dropped and counted, so that one alert does
 *   not block all that follow.
 * - 5xx, anything else, and no response: tried again until the alert is too old.
 */

import { parseRetryAfter } from '../../../lib/net/retry-after.ts';

export type Outcome =
  | { readonly kind: 'delivered' }
  /** The receiver refuses this particular alert. */
  | { readonly kind: 'unwanted'; readonly why: string }
  /** The receiver cannot be reached, or does not accept alerts now. */
  | {
      readonly kind: 'failed';
      readonly why: string;
      readonly retryAfterMs?: number;
      /** Credentials are missing, or one of the two sides does not accept those of the other. */
      readonly aboutCredentials?: true;
    };

/** RFC 9110, 15.5, RFC 6585, RFC 7725: status codes that do not depend on the body of the request. */
const aboutTheReceiver: ReadonlySet<number> = new Set([
  401, 402, 403, 404, 405, 407, 408, 410, 421, 423, 425, 426, 429, 451,
]);

/**
 * @param retryAfter The header of that name, if there is one.
 * @param nowMs Milliseconds since 1970.
 */
export function outcomeOf(status: number, retryAfter: string | undefined, nowMs: number): Outcome {
  if (status >= 200 && status < 300) return { kind: 'delivered' };
  if (status >= 400 && status < 500 && !aboutTheReceiver.has(status)) {
    return { kind: 'unwanted', why: `HTTP ${status}` };
  }
  const why = status >= 300 && status < 400 ? `HTTP ${status}: redirects are not followed` : `HTTP ${status}`;
  const retryAfterMs = parseRetryAfter(retryAfter, nowMs);
  return {
    kind: 'failed',
    why,
    ...(retryAfterMs !== undefined && { retryAfterMs }),
    ...((status === 401 || status === 403) && { aboutCredentials: true }),
  };
}
