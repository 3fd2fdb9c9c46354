/**
 * `ip()`, `cidr()`, `url()` and their functions (apiserver `pkg/cel/library/ip.go`, `cidr.go`, `urls.go`).
 *
 * @module
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

/** A URL in its parts, none of them decoded but the query. */
class Url {
  readonly text: string;
  readonly scheme: string;
  /** With the port. */
  readonly host: string;
  readonly path: string;
  readonly #query: string;

  constructor(text: string) {
    const [, scheme = '', authority = '', path = '', query = ''] =
      /^(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?:\/\/([^/?]*))?([^?]*)(?:\?(.*))?$/s.exec(text) ?? [];
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
    .type('K8sUrl', Url)
    .add('isURL(string): bool', isUri)
    .add('url(string): K8sUrl', (text: string) => {
      if (!isUri(text))
        throw failure(
          `URL parse error during conversion from string: parse ${goQuote(text)}: invalid URI for request`,
        );
      return new Url(text);
    })
    .add('K8sUrl.getScheme(): string', (url: Url) => url.scheme)
    .add('K8sUrl.getHost(): string', (url: Url) => url.host)
    .add('K8sUrl.getHostname(): string', (url: Url) => url.hostname)
    .add('K8sUrl.getPort(): string', (url: Url) => url.port)
    .add('K8sUrl.getEscapedPath(): string', (url: Url) => url.escapedPath)
    .add('K8sUrl.getQuery(): map<string, list<string>>', (url: Url) => url.query);
}

function addAddresses(library: Library): void {
  library
    .type('K8sIp', IpAddress)
    .add('isIP(string): bool', (text: string) => IpAddress.parse(text) !== undefined)
    .add('ip(string): K8sIp', ip)
    .add('ip.isCanonical(string): bool', (text: string) => ip(text).toString() === text)
    .add('string(K8sIp): string', String)
    .add('K8sIp.family(): int', (address: IpAddress) => BigInt(address.family))
    .add('K8sIp.isUnspecified(): bool', (address: IpAddress) => address.isUnspecified)
    .add('K8sIp.isLoopback(): bool', (address: IpAddress) => address.isLoopback)
    .add('K8sIp.isLinkLocalMulticast(): bool', (address: IpAddress) => address.isLinkLocalMulticast)
    .add('K8sIp.isLinkLocalUnicast(): bool', (address: IpAddress) => address.isLinkLocalUnicast)
    .add('K8sIp.isGlobalUnicast(): bool', (address: IpAddress) => address.isGlobalUnicast);
}

function addNetworks(library: Library): void {
  library
    .type('K8sCidr', Network)
    .add('isCIDR(string): bool', (text: string) => Network.parse(text) !== undefined)
    .add('cidr(string): K8sCidr', cidr)
    .add('string(K8sCidr): string', String)
    .add('K8sCidr.containsIP(string): bool', (network: Network, text: string) => network.contains(ip(text)))
    .add('K8sCidr.containsIP(K8sIp): bool', (network: Network, address: IpAddress) =>
      network.contains(address),
    )
    .add('K8sCidr.containsCIDR(string): bool', (network: Network, text: string) =>
      network.containsNetwork(cidr(text)),
    )
    .add('K8sCidr.containsCIDR(K8sCidr): bool', (network: Network, other: Network) =>
      network.containsNetwork(other),
    )
    .add('K8sCidr.ip(): K8sIp', (network: Network) => network.address)
    .add('K8sCidr.masked(): K8sCidr', (network: Network) => network.masked)
    .add('K8sCidr.prefixLength(): int', (network: Network) => BigInt(network.prefixLength));
}
