/** Which requests are not answered, whatever they ask for. */
import type { IncomingMessage } from 'node:http';

export interface Refusal {
  readonly status: 401 | 403 | 404 | 405 | 500 | 503;
  readonly why: string;
}

/** Where the page is, as browsers name it. */
export interface Site {
  /** For `Host`, in lower case, without its port: with `ssh -L`, the other side has another one. */
  readonly isOwnName: (name: string) => boolean;
  /** The remedy for another name. */
  readonly names: string;
  readonly schemes: readonly ('http' | 'https')[];
  /** Whether other sites may link to the page, which holds nothing without a session. */
  readonly takesLinks: boolean;
}

export const localSite: Site = {
  isOwnName: (name) => name === '127.0.0.1' || name === 'localhost',
  names: 'open the page as 127.0.0.1 or localhost',
  schemes: ['http'],
  takesLinks: false,
};

const hostHeader = /^(?:\[([0-9a-f:.]+)\]|([\w.-]+))(?::\d{1,5})?$/i;

/**
 * A page of another site may send requests to any address that its browser reaches, and by DNS rebinding under its own name: then `Host` is
 * that name. `Origin` and `Sec-Fetch-Site` say which page sent a request.
 */
export function refusalOf(
  { method, headers }: Pick<IncomingMessage, 'headers' | 'method'>,
  { isOwnName, names, schemes, takesLinks }: Site,
): Refusal | undefined {
  const { host = '', origin, 'sec-fetch-site': site = 'none' } = headers;
  const [, address, name = address] = hostHeader.exec(host) ?? [];
  if (name === undefined || !isOwnName(name.toLowerCase())) return { status: 403, why: names };
  if (origin !== undefined && !schemes.some((scheme) => origin === `${scheme}://${host}`))
    return { status: 403, why: 'the request comes from a page of another origin' };
  const isLink = headers['sec-fetch-mode'] === 'navigate' && headers['sec-fetch-dest'] === 'document';
  if (site !== 'none' && site !== 'same-origin' && !(takesLinks && isLink))
    return { status: 403, why: 'the request comes from a page of another site' };
  if (method !== 'GET') return { status: 405, why: 'the page only reads' };
  return undefined;
}
