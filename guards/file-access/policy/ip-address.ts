/** Canonical IP addresses, so that different spellings of one address are equal. */
import { isIPv4, isIPv6 } from 'node:net';

const mapped = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/;

/**
 * The canonical text of an address: IPv6 as in RFC 5952, an IPv4-mapped one as the IPv4 address.
 *
 * @returns undefined for an invalid address; an address with a zone (`fe80::1%eth0`) is never a pod's.
 */
export function canonicalIp(text: string): string | undefined {
  if (isIPv4(text)) return text;
  if (!isIPv6(text) || text.includes('%')) return undefined;
  // The URL standard serializes IPv6 addresses as RFC 5952 does, except that it never writes the end as an IPv4
  // address.
  const address = new URL(`http://[${text}]/`).hostname.slice(1, -1);
  const [, high, low] = mapped.exec(address) ?? [];
  if (high === undefined || low === undefined) return address;
  const [a, b] = [parseInt(high, 16), parseInt(low, 16)];
  return `${a >> 8}.${a & 255}.${b >> 8}.${b & 255}`;
}
