/**
 * IP addresses and networks as Go's `net/netip` parses and formats them, without zones and without IPv4 in IPv6
 * (apiserver `pkg/cel/library/ip.go`, `cidr.go`).
 */
import { isIP } from 'node:net';

export class IpAddress {
  readonly family: 4 | 6;
  readonly bits: bigint;

  constructor(family: 4 | 6, bits: bigint) {
    this.family = family;
    this.bits = bits;
  }

  /** `undefined` if it is not an address. */
  static parse(text: string): IpAddress | undefined {
    const version = isIP(text);
    if (version === 4) return new IpAddress(4, ofGroups(text.split('.').map(Number), 8n));
    if (version !== 6 || text.includes('%')) return undefined;
    const bits = ofGroups(groupsOf(text), 16n);
    // ::ffff:0:0/96 contains IPv4-mapped addresses, which are refused.
    return bits >> 32n === 0xffffn ? undefined : new IpAddress(6, bits);
  }

  get width(): number {
    return this.family === 4 ? 32 : 128;
  }

  /** Whether the first bits match a prefix. */
  startsWith(prefix: bigint, length: number): boolean {
    return this.bits >> BigInt(this.width - length) === prefix >> BigInt(this.width - length);
  }

  equals(other: unknown): boolean {
    return other instanceof IpAddress && other.family === this.family && other.bits === this.bits;
  }

  get isUnspecified(): boolean {
    return this.bits === 0n;
  }

  get isLoopback(): boolean {
    return this.family === 4 ? this.bits >> 24n === 127n : this.bits === 1n;
  }

  get isLinkLocalMulticast(): boolean {
    return this.family === 4 ? this.bits >> 8n === 0xe00000n : isLinkScope(this.bits);
  }

  get isLinkLocalUnicast(): boolean {
    return this.family === 4 ? this.bits >> 16n === 0xa9fen : this.bits >> 118n === 0x3fan;
  }

  get isMulticast(): boolean {
    return this.family === 4 ? this.bits >> 28n === 0xen : this.bits >> 120n === 0xffn;
  }

  get isGlobalUnicast(): boolean {
    const broadcast = this.family === 4 && this.bits === 0xffffffffn;
    return (
      !broadcast && !this.isUnspecified && !this.isLoopback && !this.isMulticast && !this.isLinkLocalUnicast
    );
  }

  /** The canonical form (RFC 5952). */
  toString(): string {
    if (this.family === 4) return [24n, 16n, 8n, 0n].map((shift) => (this.bits >> shift) & 0xffn).join('.');
    const groups = Array.from({ length: 8 }, (_, index) => (this.bits >> BigInt(112 - 16 * index)) & 0xffffn);
    let [start, length] = [-1, 1];
    for (let from = 0; from < 8; from++) {
      let to = from;
      while (to < 8 && groups[to] === 0n) to++;
      if (to - from > length) [start, length] = [from, to - from];
    }
    const hex = groups.map((group) => group.toString(16));
    if (start < 0) return hex.join(':');
    return `${hex.slice(0, start).join(':')}::${hex.slice(start + length).join(':')}`;
  }
}

/** Whether an IPv6 multicast address is link-local, by its scope in the low four bits of the second byte. */
function isLinkScope(bits: bigint): boolean {
  return bits >> 120n === 0xffn && ((bits >> 112n) & 0xfn) === 2n;
}

function ofGroups(groups: readonly number[], width: bigint): bigint {
  return groups.reduce((bits, group) => (bits << width) | BigInt(group), 0n);
}

/** The eight groups of an IPv6 address that `isIP` accepts. */
function groupsOf(text: string): number[] {
  let plain = text;
  const dotted = /^(.*:)(\d+)\.(\d+)\.(\d+)\.(\d+)$/.exec(text);
  if (dotted !== null) {
    const [a = 0, b = 0, c = 0, d = 0] = dotted.slice(2).map(Number);
    plain = `${dotted[1]}${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
  }
  const [head = '', tail] = plain.split('::');
  const hex = (part: string): number[] =>
    part === '' ? [] : part.split(':').map((group) => Number.parseInt(group, 16));
  const [before, after] = [hex(head), hex(tail ?? '')];
  if (tail === undefined) return before;
  return [...before, ...Array.from({ length: 8 - before.length - after.length }, () => 0), ...after];
}

export class Network {
  readonly address: IpAddress;
  readonly prefixLength: number;

  constructor(address: IpAddress, prefixLength: number) {
    this.address = address;
    this.prefixLength = prefixLength;
  }

  /** `192.168.0.1/24`; the bits after the prefix are kept. `undefined` if it is not a network. */
  static parse(text: string): Network | undefined {
    const slash = text.lastIndexOf('/');
    const [address, length] = [IpAddress.parse(text.slice(0, Math.max(slash, 0))), text.slice(slash + 1)];
    if (address === undefined || !/^(?:0|[1-9]\d{0,2})$/.test(length)) return undefined;
    return Number(length) <= address.width ? new Network(address, Number(length)) : undefined;
  }

  contains(address: IpAddress): boolean {
    return address.family === this.address.family && address.startsWith(this.address.bits, this.prefixLength);
  }

  containsNetwork(other: Network): boolean {
    return this.prefixLength <= other.prefixLength && this.contains(other.address);
  }

  get masked(): Network {
    const rest = BigInt(this.address.width - this.prefixLength);
    return new Network(
      new IpAddress(this.address.family, (this.address.bits >> rest) << rest),
      this.prefixLength,
    );
  }

  equals(other: unknown): boolean {
    return (
      other instanceof Network &&
      other.prefixLength === this.prefixLength &&
      other.address.equals(this.address)
    );
  }

  toString(): string {
    return `${this.address.toString()}/${this.prefixLength}`;
  }
}
