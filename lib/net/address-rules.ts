/**
 * Which addresses a URL that users choose may lead to.
 *
 * The author of a policy chooses it, and the request comes from the agent on the node or from the operator:
 * without rules it would reach what only the node can reach, above all the metadata service with the
 * credentials of the machine. The check applies to the address that is connected to: it is part
 * of the resolution of names, whose result goes straight into connect(2), so a name that changes its address
 * between check and use gains nothing.
 */
import { lookup as systemLookup, type LookupAddress, type LookupOptions } from 'node:dns';
import { BlockList, isIP, isIPv4, type LookupFunction } from 'node:net';

import { errorCodes, RampartError } from '../errors/errors.ts';

export interface AddressRulesOptions {
  /**
   * Addresses, networks (`10.0.0.0/8`) and host names that are called although a rule refuses them. A name is
   * allowed whatever it resolves to.
   */
  readonly allow?: readonly string[];
  /** Further addresses and networks that are refused, e.g. those of the nodes. `allow` wins. */
  readonly refuse?: readonly string[];
  /** How to allow a host all the same, for messages: `start the agent with --allow-callback HOST`. */
  readonly exception: (host: string) => string;
  /** Resolves names, like `lookup` of node:dns with `all`, which is the default. */
  readonly resolve?: Resolve;
}

export type Resolve = (
  host: string,
  options: LookupOptions & { readonly all: true },
  done: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

/**
 * IANA's special-purpose registries (RFC 6890), and what clouds document as their metadata services: AWS, GCP and
 * most others at 169.254.169.254, AWS also fd00:ec2::254, GCP fd20:ce::254, Alibaba 100.100.100.200, Oracle
 * 192.0.0.192, Azure's platform address 168.63.129.16.
 */
const refusedNetworks: readonly (readonly [network: string, what: string])[] = [
  ['0.0.0.0/8', 'unspecified'],
  ['127.0.0.0/8', 'loopback'],
  ['169.254.0.0/16', 'link-local'],
  ['100.100.100.200/32', 'a metadata service'],
  ['168.63.129.16/32', 'a metadata service'],
  ['192.0.0.192/32', 'a metadata service'],
  ['224.0.0.0/4', 'multicast'],
  ['240.0.0.0/4', 'reserved'],
  ['::/128', 'unspecified'],
  ['::1/128', 'loopback'],
  ['fe80::/10', 'link-local'],
  ['ff00::/8', 'multicast'],
  ['fd00:ec2::/32', 'a metadata service'],
  ['fd20:ce::/32', 'a metadata service'],
];

/** IPv6 that a gateway or the kernel turns into the IPv4 address at this byte: mapped, compatible, NAT64, 6to4. */
const embeddings: readonly (readonly [prefix: string, at: number])[] = [
  ['00000000000000000000ffff', 12],
  ['000000000000000000000000', 12],
  ['0064ff9b0000000000000000', 12],
  ['2002', 2],
];

export class AddressRules {
  readonly #allowedHosts = new Set<string>();
  readonly #allowed = new BlockList();
  readonly #refused: { readonly list: BlockList; readonly what: string }[] = [];
  readonly #resolve: Resolve;
  readonly #exception: (host: string) => string;

  /** @throws {RampartError} `INPUT` for an invalid network. */
  constructor(options: AddressRulesOptions) {
    this.#exception = options.exception;
    this.#resolve = options.resolve ?? systemLookup;
    for (const [network, what] of refusedNetworks) this.#refuse(network, what);
    for (const network of options.refuse ?? []) this.#refuse(network, 'blocked by the configuration');
    for (const entry of options.allow ?? []) {
      if (isIP(entry.split('/', 1)[0] ?? '') !== 0) addNetwork(this.#allowed, entry);
      else this.#allowedHosts.add(checkHostName(entry));
    }
  }

  /** Why this address is not called, or undefined if it is: `169.254.169.254 is link-local`. */
  refusal(address: string): string | undefined {
    const plain = address.split('%', 1)[0] ?? '';
    if (isIP(plain) === 0) return `${JSON.stringify(address)} is not an IP address`;
    const same = [plain, ...embeddedIPv4(plain)];
    if (same.some((one) => this.#allowed.check(one, familyOf(one)))) return undefined;
    for (const one of same) {
      const rule = this.#refused.find(({ list }) => list.check(one, familyOf(one)));
      if (rule !== undefined) return `${plain} is ${rule.what}`;
    }
    return undefined;
  }

  /** The refusal of a host that is an address; a name is checked only when it is resolved. */
  refusalOfHost(host: string): string | undefined {
    const address = withoutBrackets(host);
    return isIP(address) === 0 ? undefined : this.refusal(address);
  }

  /** For `lookup` of a connection. Returns only addresses that may be called, and fails without any. */
  readonly lookup: LookupFunction = (host, options, done) => {
    this.#resolve(host, { ...options, all: true }, (error, addresses) => {
      if (error !== null) {
        done(error, '', 0);
        return;
      }
      const free = this.#allowedHosts.has(host.toLowerCase());
      const good = free ? addresses : addresses.filter(({ address }) => this.refusal(address) === undefined);
      const [first] = good;
      if (first === undefined) {
        const why = addresses.map(({ address }) => this.refusal(address)).join(', ');
        done(
          new AddressRefused(
            why === '' ? `${host} has no address` : `${host}: ${why}; to call it, ${this.#exception(host)}`,
          ),
          '',
          0,
        );
      } else if (options.all === true) {
        done(null, good);
      } else {
        done(null, first.address, first.family);
      }
    });
  };

  #refuse(network: string, what: string): void {
    const list = new BlockList();
    addNetwork(list, network);
    this.#refused.push({ list, what });
  }
}

/** All addresses of a host are refused. */
class AddressRefused extends Error {
  readonly code = 'RAMPART_ADDRESS_REFUSED';
}

/** URL writes IPv6 addresses in brackets, connections take them without. */
export function withoutBrackets(host: string): string {
  return host.replace(/^\[(.*)\]$/, '$1');
}

/** Whether a host is a loopback address. Names are not resolved: none counts, not even `localhost`. */
export function isLoopback(host: string): boolean {
  const address = withoutBrackets(host);
  return address === '::1' || (isIPv4(address) && address.startsWith('127.'));
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIPv4(address) ? 'ipv4' : 'ipv6';
}

function addNetwork(list: BlockList, entry: string): void {
  const [address = '', prefix, ...rest] = entry.split('/');
  const bits = isIPv4(address) ? 32 : 128;
  const length = prefix === undefined ? bits : /^\d{1,3}$/.test(prefix) ? Number(prefix) : -1;
  if (isIP(address) === 0 || rest.length > 0 || length < 0 || length > bits) throw badNetwork(entry);
  list.addSubnet(address, length, familyOf(address));
}

function checkHostName(entry: string): string {
  if (/^[a-z0-9_]([a-z0-9_.-]*[a-z0-9_.])?$/i.test(entry) && !/^[\d.]+$/.test(entry))
    return entry.toLowerCase();
  throw badNetwork(entry);
}

function badNetwork(entry: string): RampartError {
  return new RampartError(errorCodes.INPUT, {
    what: `${JSON.stringify(entry)} is not an address, a network or a host name`,
    next: 'Write 127.0.0.1, 10.0.0.0/8, fd00::/8 or receiver.example.com',
  });
}

function embeddedIPv4(address: string): readonly string[] {
  if (isIPv4(address)) return [];
  const hex = hexOf(address);
  const found: string[] = [];
  for (const [prefix, at] of embeddings) {
    if (!hex.startsWith(prefix)) continue;
    const bytes = [0, 1, 2, 3].map((byte) =>
      Number.parseInt(hex.slice((at + byte) * 2, (at + byte) * 2 + 2), 16),
    );
    found.push(bytes.join('.'));
  }
  // ::1 and :: have rules of their own, and would read as 0.0.0.1 and 0.0.0.0.
  return hex.startsWith('0'.repeat(30)) ? [] : found;
}

/** The 32 hexadecimal digits of an IPv6 address. */
function hexOf(address: string): string {
  // The URL parser turns any form into the shortest one, without dots.
  const [head = '', tail] = new URL(`http://[${address}]`).hostname.slice(1, -1).split('::');
  const groups = (text: string): string[] => (text === '' ? [] : text.split(':'));
  const before = groups(head);
  const after = groups(tail ?? '');
  const zeros = Array.from({ length: 8 - before.length - after.length }, () => '0');
  return [...before, ...zeros, ...after].map((group) => group.padStart(4, '0')).join('');
}
