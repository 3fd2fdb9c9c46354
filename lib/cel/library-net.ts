/**
 * `ip()`, `cidr()`, `url()` and their functions (apiserver `pkg/cel/library/ip.go`, `cidr.go`, `urls.go`).
 */
import { goQuote } from './go-text.ts';
import { isUri } from './formats.ts';
import { IpAddress, Network } from './ip.ts';
import { failure } from './failure.ts';
import type { Library } from './register.ts';

function ip(text: string): IpAddress {
  const address = IpAddress.parse(text);
  if (address === undefined)
    throw failure(`IP Address ${goQuote(text)} parse error during conversion from string`);
  return address;
}

function cidr(text: string): Network {
  const network = Network.parse(text);
  if (network === undefined) {
    throw failure(
      `network address parse error during conversion from string: netip.ParsePrefix(${goQuote(text)})`,
    );
  }
  return network;
}

/** The parts of a URL. Only the query is decoded; the fragment after a `#` is dropped. */
class Url {
  readonly text: string;
  readonly scheme: string;
  /** The host with its port. */
  readonly host: string;
  readonly path: string;
  readonly #query: string;

  constructor(text: string) {
    const [, scheme = '', authority = '', path = '', query = ''] =
      /^(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?:\/\/([^/?]*))?([^?]*)(?:\?(.*))?$/s.exec(
        text.replace(/#.*$/s, ''),
      ) ?? [];
    this.text = text;
    this.scheme = scheme.toLowerCase();
    this.host = authority.slice(authority.lastIndexOf('@') + 1);
    this.path = path;
    this.#query = query;
  }

  get hostname(): string {
    return this.host.startsWith('[')
      ? (/^\[([^\]]*)\]/.exec(this.host)?.[1] ?? '')
      : (this.host.split(':', 1)[0] ?? '');
  }

  get port(): string {
    return /:(\d*)$/.exec(this.host.replace(/^\[[^\]]*\]/, ''))?.[1] ?? '';
  }

  get escapedPath(): string {
    return this.path.replaceAll(/[^A-Za-z0-9\-_.~$&+,/:;=@%!'()*]+/g, (part) => encodeURIComponent(part));
  }

  get query(): Map<string, string[]> {
    const values = new Map<string, string[]>();
    for (const [name, value] of new URLSearchParams(this.#query)) {
      values.set(name, [...(values.get(name) ?? []), value]);
    }
    return values;
  }

  equals(other: unknown): boolean {
    return other instanceof Url && other.text === this.text;
  }
}

export function addNetwork(library: Library): void {
  addAddresses(library);
  addNetworks(library);
  library
    .type('kubernetes.URL', Url)
    .add('isURL(string): bool', isUri)
    .add('url(string): kubernetes.URL', (text: string) => {
      if (!isUri(text))
        throw failure(
          `URL parse error during conversion from string: parse ${goQuote(text)}: invalid URI for request`,
        );
      return new Url(text);
    })
    .add('kubernetes.URL.getScheme(): string', (url: Url) => url.scheme)
    .add('kubernetes.URL.getHost(): string', (url: Url) => url.host)
    .add('kubernetes.URL.getHostname(): string', (url: Url) => url.hostname)
    .add('kubernetes.URL.getPort(): string', (url: Url) => url.port)
    .add('kubernetes.URL.getEscapedPath(): string', (url: Url) => url.escapedPath)
    .add('kubernetes.URL.getQuery(): map<string, list<string>>', (url: Url) => url.query);
}

function addAddresses(library: Library): void {
  library
    .type('net.IP', IpAddress)
    .add('isIP(string): bool', (text: string) => IpAddress.parse(text) !== undefined)
    .add('ip(string): net.IP', ip)
    .add('ip.isCanonical(string): bool', (text: string) => ip(text).toString() === text)
    .add('string(net.IP): string', String)
    .add('net.IP.family(): int', (address: IpAddress) => BigInt(address.family))
    .add('net.IP.isUnspecified(): bool', (address: IpAddress) => address.isUnspecified)
    .add('net.IP.isLoopback(): bool', (address: IpAddress) => address.isLoopback)
    .add('net.IP.isLinkLocalMulticast(): bool', (address: IpAddress) => address.isLinkLocalMulticast)
    .add('net.IP.isLinkLocalUnicast(): bool', (address: IpAddress) => address.isLinkLocalUnicast)
    .add('net.IP.isGlobalUnicast(): bool', (address: IpAddress) => address.isGlobalUnicast);
}

function addNetworks(library: Library): void {
  library
    .type('net.CIDR', Network)
    .add('isCIDR(string): bool', (text: string) => Network.parse(text) !== undefined)
    .add('cidr(string): net.CIDR', cidr)
    .add('string(net.CIDR): string', String)
    .add('net.CIDR.containsIP(string): bool', (network: Network, text: string) => network.contains(ip(text)))
    .add('net.CIDR.containsIP(net.IP): bool', (network: Network, address: IpAddress) =>
      network.contains(address),
    )
    .add('net.CIDR.containsCIDR(string): bool', (network: Network, text: string) =>
      network.containsNetwork(cidr(text)),
    )
    .add('net.CIDR.containsCIDR(net.CIDR): bool', (network: Network, other: Network) =>
      network.containsNetwork(other),
    )
    .add('net.CIDR.ip(): net.IP', (network: Network) => network.address)
    .add('net.CIDR.masked(): net.CIDR', (network: Network) => network.masked)
    .add('net.CIDR.prefixLength(): int', (network: Network) => BigInt(network.prefixLength));
}
