/** Why lists and watches of a reflector fail, and what follows from it. */
import { errorCodes, RampartError } from '../../errors/errors.ts';
import { isGone, isUnreachable, KubeError } from '../client/client-errors.ts';

/** A server that asks for more time than this does not get it. */
const MAX_ASKED_MS = 60_000;

/** A list is of an older state than what is known. */
export class StaleListError extends RampartError {
  constructor(version: string, known: string) {
    super(errorCodes.EXPIRED, {
      what: 'a list from the Kubernetes API is out of date',
      why: `it has version ${version}, but ${known} or later is known`,
    });
    this.name = 'StaleListError';
  }
}

/** How long the server asks to wait, up to a minute. */
export function askedForMs(error: unknown): number {
  return error instanceof KubeError ? Math.min(error.retryAfterMs ?? 0, MAX_ASKED_MS) : 0;
}

/** Answers to a watch that say that its version is of no use: it cannot be read, or the server is not there yet. */
export function asksForList(error: unknown): boolean {
  if (!(error instanceof KubeError)) return false;
  if (error.status === 400 || error.status === 422) return true;
  // apimachinery's CauseTypeResourceVersionTooLarge, which is the `reason` of a cause in JSON.
  return (error.details?.causes ?? []).some(({ reason }) => reason === 'ResourceVersionTooLarge');
}

/** For metrics: one of a few. */
export function reasonOf(error: unknown): string {
  if (isGone(error)) return 'expired';
  if (error instanceof StaleListError) return 'stale';
  if (error instanceof KubeError) {
    const { status } = error;
    return Number.isInteger(status) && status >= 400 && status <= 599 ? `http_${status}` : 'http_other';
  }
  if (isUnreachable(error)) return 'unreachable';
  return error instanceof RampartError && error.code === errorCodes.LIMIT ? 'limit' : 'other';
}
