/**
 * Which requests go through a proxy, by the conventions of the environment variables HTTP_PROXY, HTTPS_PROXY and NO_PROXY (Go's
 * golang.org/x/net/http/httpproxy). The `proxyEnv` of Node.js knows no networks in NO_PROXY, such as 10.0.0.0/8, which clusters need.
 */
import { BlockList, isIP, isIPv4, type LookupFunction } from 'node:net';

import { errorCodes, RampartError } from '../errors/errors.ts';
import { isLoopback, withoutBrackets } from './address-rules.ts';

/** URLs, or `host:port`; '' and undefined: none. */
export interface ProxySettings {
  readonly http?: string | undefined;
  readonly https?: string | undefined;
  /** Hosts that are called directly: `localhost,.internal.example,10.0.0.0/8,registry.example:5000`; `*`: all. */
  readonly none?: string | undefined;
}

/** The settings in the environment: `HTTP_PROXY` wins over `http_proxy`. */
export function proxiesOf(environment: Readonly<Record<string, string | undefined>>): ProxySettings {
  const of = (name: string): string | undefined => environment[name] || environment[name.toLowerCase()];
  return { http: of('HTTP_PROXY'), https: of('HTTPS_PROXY'), none: of('NO_PROXY') };
}

/**
 * The proxy for a request, or undefined if its host is called directly. Loopback addresses are never called through a proxy.
 *
 * @throws {RampartError} `INPUT` for a proxy that cannot be used
 * @example
 * proxyFor(new URL('https://registry.example/v2/'), { https: 'http://proxy.example:3128', none: '.internal.example' }); // http://proxy.example:3128/
 */
export function proxyFor(url: URL, { http, https, none = '' }: ProxySettings): URL | undefined {
  const text = (url.protocol === 'https:' ? https : http) ?? '';
  if (text === '') return undefined;
  const host = withoutBrackets(url.hostname).toLowerCase();
  if (host === 'localhost' || isLoopback(host)) return undefined;
  const port = url.port === '' ? (url.protocol === 'https:' ? '443' : '80') : url.port;
  const isDirect = none
    .split(',')
    .map((entry) => entry.trim().toLowerCase())
    .some((entry) => entry !== '' && covers(entry, host, port));
  return isDirect ? undefined : proxyUrl(text);
}

/** @throws {RampartError} `INPUT` */
export function proxyUrl(text: string): URL {
  const full = /^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `http://${text}`;
  const url = URL.canParse(full) ? new URL(full) : undefined;
  if (url !== undefined && (url.protocol === 'http:' || url.protocol === 'https:')) return url;
  throw new RampartError(errorCodes.INPUT, {
    what: 'a proxy cannot be used',
    // The URL may have a password.
    why: url === undefined ? 'it is not a URL' : `${url.protocol}// is not supported`,
    next: 'Set HTTP_PROXY, HTTPS_PROXY, or proxies in sources.yml, to http://HOST:PORT',
  });
}

/** The `proxyEnv` for an agent that uses exactly this proxy, whatever the environment of the process says. */
export function proxyEnvOf(proxy: URL | undefined): Record<string, string> {
  return proxy === undefined ? {} : { HTTP_PROXY: proxy.href, HTTPS_PROXY: proxy.href };
}

/**
 * Checks the addresses of a host before a proxy is asked to call it: an address that a rule refuses must not be reached through the proxy
 * either. A name that only the proxy can resolve passes.
 *
 * @throws the error of `lookup` for addresses that are refused
 */
export async function checkProxied(host: string, lookup: LookupFunction): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  lookup(withoutBrackets(host), { all: true }, (error) => {
    if (error !== null && error.code === 'RAMPART_ADDRESS_REFUSED') reject(error);
    else resolve();
  });
  await promise;
}

function covers(entry: string, host: string, port: string): boolean {
  if (entry === '*') return true;
  if (entry.includes('/')) return isWithin(host, entry);
  const [, name = entry, ownPort] = /^(\[[^\]]*\]|[^:]*):(\d+)$/.exec(entry) ?? [];
  if (ownPort !== undefined && ownPort !== port) return false;
  const plain = withoutBrackets(name);
  if (isIP(host) !== 0 || isIP(plain) !== 0) return plain === host;
  if (plain.startsWith('.') || plain.startsWith('*.')) return host.endsWith(plain.replace(/^\*/, ''));
  return host === plain || host.endsWith(`.${plain}`);
}

function isWithin(host: string, network: string): boolean {
  const [address = '', length = ''] = network.split('/');
  const bits = isIPv4(address) ? 32 : 128;
  if (isIP(host) === 0 || isIP(address) === 0 || !/^\d{1,3}$/.test(length) || Number(length) > bits)
    return false;
  const familyOf = (one: string): 'ipv4' | 'ipv6' => (isIPv4(one) ? 'ipv4' : 'ipv6');
  const list = new BlockList();
  list.addSubnet(address, Number(length), familyOf(address));
  return list.check(host, familyOf(host));
}
