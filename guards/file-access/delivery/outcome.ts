/**
 * The meaning of an answer to a POST: pure, no I/O.
 *
 * - 2xx: delivered.
 * - 3xx: not followed, because its target has passed no check. Tried again.
 * - 4xx about the receiver as a whole (401, 403, 404, ... and 408, 425, 429): tried again until the alert
 *   is too old. An expired token or a missing route is fixed by people, and then nothing is lost.
 * - other 4xx (400, 413, 422, ...): the receiver refuses this alert. Tried a few times, then dropped and
 *   counted, so that one alert does not hold up all that follow.
 * - 5xx, anything else, and no answer: tried again until the alert is too old.
 */

import { parseRetryAfter } from '../../../lib/net/retry-after.ts';

export type Outcome =
  | { readonly kind: 'delivered' }
  /** The receiver has examined this alert and refuses it. */
  | { readonly kind: 'unwanted'; readonly why: string }
  /** The receiver cannot be reached, or not now. */
  | {
      readonly kind: 'failed';
      readonly why: string;
      readonly retryAfterMs?: number;
      /** Credentials are missing, or the two sides do not take each other's. */
      readonly aboutCredentials?: true;
    };

/** RFC 9110, 15.5, RFC 6585, RFC 7725: those that do not depend on what the body says. */
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
