/** Which requests are not answered, whatever they ask for. */
import type { IncomingMessage } from 'node:http';

export interface Refusal {
  readonly status: 403 | 405;
  readonly why: string;
}

/** Any port: of `ssh -L` another one is on this side. */
const ownHost = /^(?:127\.0\.0\.1|localhost)(?::\d{1,5})?$/;

/**
 * A page of another site may send requests to 127.0.0.1, and by DNS rebinding under its own name: then `Host` is that name.
 * `Origin` and `Sec-Fetch-Site` say which page sent a request.
 */
export function refusalOf({
  method,
  headers,
}: Pick<IncomingMessage, 'headers' | 'method'>): Refusal | undefined {
  const { host = '', origin, 'sec-fetch-site': site = 'none' } = headers;
  if (!ownHost.test(host)) return { status: 403, why: 'open the page as 127.0.0.1 or localhost' };
  if (origin !== undefined && origin !== `http://${host}`)
    return { status: 403, why: 'the request comes from a page of another origin' };
  if (site !== 'none' && site !== 'same-origin')
    return { status: 403, why: 'the request comes from a page of another site' };
  if (method !== 'GET') return { status: 405, why: 'the page only reads' };
  return undefined;
}
