/** The on-disk name of the queue of one callback. Alerts with different Secrets have different queues. */
import { createHash } from 'node:crypto';

import type { QueueName } from '../../../lib/spool/segment-header.ts';

/** Limit of a callback's URL, as UTF-8. */
export const MAX_CALLBACK_BYTES = 4096;
/** `namespace/name`, at most 63 and 253 characters. */
const MAX_SECRET_BYTES = 63 + 1 + 253;
/** A DNS label, a slash and a DNS subdomain (RFC 1123). */
const secretForm =
  /^[a-z0-9]([-a-z0-9]*[a-z0-9])?\/[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

/** Queues with a Secret have another kind, so that versions without support for Secrets do not send their alerts without credentials. */
const kinds = { plain: 'RAMPALRT', withSecret: 'RAMPALRS' } as const;

export interface CallbackQueue {
  readonly callback: string;
  /** `namespace/name` of the Secret; empty without one. */
  readonly secret: string;
}

/** Whether this can name a Secret: `namespace/name`. */
export function isSecretName(text: string): boolean {
  return text.length <= MAX_SECRET_BYTES && secretForm.test(text);
}

export function queueName({ callback, secret }: CallbackQueue): QueueName {
  return secret === ''
    ? { kind: kinds.plain, text: callback }
    : { kind: kinds.withSecret, text: `${secret}\n${callback}` };
}

/** Undefined if it is not the name of a callback's queue. */
export function parseQueueName({ kind, text }: QueueName): CallbackQueue | undefined {
  if (kind === kinds.plain) return { callback: text, secret: '' };
  if (kind !== kinds.withSecret) return undefined;
  const secret = text.slice(0, Math.max(0, text.indexOf('\n')));
  return isSecretName(secret) ? { callback: text.slice(secret.length + 1), secret } : undefined;
}

/**
 * The base name of a queue's files, since URLs contain characters that file names cannot. The same callback with a Secret has another
 * queue: alerts of a policy without the Secret must never be sent with it.
 */
export function keyOf(callback: string, secret = ''): string {
  // No URL starts with a bracket, so two different queues are never hashed from the same text.
  const name = secret === '' ? callback : JSON.stringify([callback, secret]);
  return createHash('sha256').update(name).digest('hex').slice(0, 32);
}
