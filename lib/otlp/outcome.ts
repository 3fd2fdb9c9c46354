/**
 * The meaning of an answer to an export: pure, no I/O.
 * https://opentelemetry.io/docs/specs/otlp/#otlphttp-response
 *
 * - 2xx: taken, except for the records that a partial success rejects; these must not be sent again.
 * - 429, 502, 503, 504, and no answer: sent again, after `Retry-After` if it is given.
 * - 413 for several records: sent again as smaller requests.
 * - 3xx: not followed. Sent again, because the operator of a moved receiver can mend that.
 * - all others: must not be sent again.
 */
import { parseRetryAfter } from '../net/retry-after.ts';
import type { Answer } from '../net/kept-connection.ts';

export type Outcome =
  | { readonly kind: 'taken'; readonly rejected: number; readonly why: string }
  | { readonly kind: 'too-large' }
  | { readonly kind: 'refused'; readonly why: string }
  | { readonly kind: 'failed'; readonly why: string; readonly retryAfterMs?: number };

const retryable: ReadonlySet<number> = new Set([429, 502, 503, 504]);
/** Limit for the receiver's error text in the log. */
const MAX_REPORTED_CHARACTERS = 500;

/** @param records - How many were sent. @param nowMs - Milliseconds since 1970. */
export function outcomeOf({ status, headers, body }: Answer, records: number, nowMs: number): Outcome {
  if (status >= 200 && status < 300) return taken(body, records);
  if (status === 413 && records > 1) return { kind: 'too-large' };
  const said = messageIn(body);
  const why = said === '' ? `HTTP ${status}` : `HTTP ${status}: ${said}`;
  if (retryable.has(status)) {
    const retryAfterMs = parseRetryAfter(headers['retry-after'], nowMs);
    return { kind: 'failed', why, ...(retryAfterMs !== undefined && { retryAfterMs }) };
  }
  if (status < 400) return { kind: 'failed', why: `HTTP ${status}: redirects are not followed` };
  return { kind: 'refused', why };
}

function taken(body: Buffer | undefined, records: number): Outcome {
  const { partialSuccess } = objectIn(body) as { partialSuccess?: unknown };
  const { rejectedLogRecords, errorMessage } = fields(partialSuccess);
  // A 64-bit integer: a string in JSON, though some receivers send a number.
  const rejected = Number(rejectedLogRecords ?? 0);
  return {
    kind: 'taken',
    rejected: Number.isSafeInteger(rejected) ? Math.min(Math.max(rejected, 0), records) : 0,
    why: textOf(errorMessage),
  };
}

/** `Status.message`; some receivers answer with a plain text. */
function messageIn(body: Buffer | undefined): string {
  return textOf(fields(objectIn(body))['message']);
}

function objectIn(body: Buffer | undefined): object {
  try {
    return fields(JSON.parse(body?.toString() ?? ''));
  } catch {
    return {};
  }
}

function fields(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value.slice(0, MAX_REPORTED_CHARACTERS) : '';
}
