/** Which URLs a callback may have. */
import { type AddressRules, isLoopback, withoutBrackets } from '../../../lib/net/address-rules.ts';
import { keyOf, MAX_CALLBACK_BYTES } from './callback-queue.ts';

/**
 * The URL of a callback, or the reason in words why it may not be used. Host names are resolved at each connection, and the addresses are
 * checked then.
 */
export function parseCallback(callback: string, rules: AddressRules): URL | string {
  if (Buffer.byteLength(callback) > MAX_CALLBACK_BYTES)
    return `it is longer than ${MAX_CALLBACK_BYTES} bytes`;
  const url = URL.parse(callback);
  if (url === null) return 'it is not a URL';
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return 'it is neither http nor https';
  if (url.username !== '' || url.password !== '') return 'it contains a user name or password';
  const refusal = rules.refusalOfHost(url.hostname);
  if (refusal === undefined) return url;
  return `${refusal}, refused by default; to call it, ${callbackException(withoutBrackets(url.hostname))}`;
}

export function callbackException(host: string): string {
  return `start the agent with --allow-callback ${host}`;
}

/**
 * The name of a queue in logs, metrics and errors: the origin of its callback, and a part of its file name to distinguish queues with the
 * same origin. Paths and queries of webhooks are often secret.
 */
export function displayName(callback: string, secret = ''): string {
  return `${URL.parse(callback)?.origin ?? 'invalid'}#${keyOf(callback, secret).slice(0, 8)}`;
}

/** Whether data sent there cannot be read on the way. */
export function isPrivateWay(url: URL): boolean {
  return url.protocol === 'https:' || isLoopback(url.hostname);
}
