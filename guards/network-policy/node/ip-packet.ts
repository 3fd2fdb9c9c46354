/** Parses the beginning of an IP packet: addresses, protocol and ports. */

export interface IpPacket {
  readonly family: 4 | 6;
  readonly source: bigint;
  readonly destination: bigint;
  /** IANA's number: 6 TCP, 17 UDP, 132 SCTP. For IPv6, the protocol after the extension headers. */
  readonly protocol: number;
  /** Undefined if the protocol has no ports, or if the packet is a fragment that does not contain them. */
  readonly sourcePort: number | undefined;
  readonly destinationPort: number | undefined;
}

const withPorts: ReadonlySet<number> = new Set([6, 17, 33, 132, 136]);
/** Extension headers with a length in units of 8 bytes (RFC 8200); 44 is the fragment header. */
const extensions: ReadonlySet<number> = new Set([0, 43, 60, 135, 139, 140]);
const FRAGMENT = 44;
/** The authentication header, whose length is in units of 4 bytes (RFC 4302). */
const AUTHENTICATION = 51;
/** No legitimate packet has more headers. */
const MAX_EXTENSIONS = 16;

/** @param protocol - IANA's number. */
export function hasPorts(protocol: number): boolean {
  return withPorts.has(protocol);
}

/** Undefined if it is not an IP packet, or is truncated within its header. Ports that were cut off are undefined. */
export function parseIpPacket(bytes: Buffer): IpPacket | undefined {
  const version = (bytes[0] ?? 0) >> 4;
  if (version === 4) return parseIpv4(bytes);
  if (version === 6) return parseIpv6(bytes);
  return undefined;
}

function parseIpv4(bytes: Buffer): IpPacket | undefined {
  const headerBytes = ((bytes[0] ?? 0) & 0xf) * 4;
  if (bytes.length < 20 || headerBytes < 20) return undefined;
  const isFirst = (bytes.readUInt16BE(6) & 0x1fff) === 0;
  const protocol = bytes.readUInt8(9);
  return {
    family: 4,
    source: BigInt(bytes.readUInt32BE(12)),
    destination: BigInt(bytes.readUInt32BE(16)),
    protocol,
    ...portsAt(bytes, headerBytes, protocol, isFirst),
  };
}

function parseIpv6(bytes: Buffer): IpPacket | undefined {
  if (bytes.length < 40) return undefined;
  const wide = (at: number): bigint => (bytes.readBigUInt64BE(at) << 64n) | bytes.readBigUInt64BE(at + 8);
  let protocol = bytes.readUInt8(6);
  let at = 40;
  let isFirst = true;
  for (let count = 0; count < MAX_EXTENSIONS && at + 8 <= bytes.length; count++) {
    const next = bytes.readUInt8(at);
    if (protocol === FRAGMENT) {
      isFirst &&= (bytes.readUInt16BE(at + 2) & 0xfff8) === 0;
      at += 8;
    } else if (protocol === AUTHENTICATION) at += (bytes.readUInt8(at + 1) + 2) * 4;
    else if (extensions.has(protocol)) at += (bytes.readUInt8(at + 1) + 1) * 8;
    else break;
    protocol = next;
  }
  return {
    family: 6,
    source: wide(8),
    destination: wide(24),
    protocol,
    ...portsAt(bytes, at, protocol, isFirst),
  };
}

function portsAt(
  bytes: Buffer,
  at: number,
  protocol: number,
  isFirst: boolean,
): Pick<IpPacket, 'sourcePort' | 'destinationPort'> {
  if (!isFirst || !hasPorts(protocol) || at + 4 > bytes.length)
    return { sourcePort: undefined, destinationPort: undefined };
  return { sourcePort: bytes.readUInt16BE(at), destinationPort: bytes.readUInt16BE(at + 2) };
}
