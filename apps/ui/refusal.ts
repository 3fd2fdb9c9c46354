/** Which requests are refused, whatever they request. */
import type { IncomingMessage } from 'node:http';

export interface Refusal {
  readonly status: 401 | 403 | 404 | 405 | 500 | 503;
  readonly why: string;
}

/** How browsers address the page. */
export interface Site {
  /** Whether a host name of the `Host` header is the page's own. In lower case, without the port, which `ssh -L` may have changed. */
  readonly isOwnName: (name: string) => boolean;
  /** What to do if `Host` is another name. */
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
 * A page of another site can make its browser send requests to any address that the browser reaches; with DNS rebinding even under its own
 * name, and then `Host` is that name. `Origin` and `Sec-Fetch-Site` say which page sent a request.
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
