/**
 * ICMP by raw sockets: pings, and errors that no router has sent: each is about a datagram without a
 * connection, and carries its sender's data.
 */
import { protocolNumbers } from '../../guards/network-policy/dataplane/kernel-packet.ts';
import { checksum } from './frames.fixture.ts';
import type { Host } from './listeners.fixture.ts';
import { sendRaw } from './raw-packet.fixture.ts';

/** Types of errors: RFC 792 and RFC 4443. */
export const icmpErrors = { 4: [3, 11, 12], 6: [1, 2, 3, 4] } as const;

/** @param lost - What it is about: an IP packet. */
export function sendIcmpError(
  from: Host,
  to: string,
  type: number,
  lost = lostDatagram(to.includes(':')),
): void {
  const { ICMP, ICMPv6 } = protocolNumbers;
  const isSix = to.includes(':');
  const message = Buffer.concat([Buffer.of(type, 0, 0, 0, 0, 0, 0, 0), lost, Buffer.alloc(64, 'x')]);
  // The kernel itself makes the checksum of ICMPv6.
  if (!isSix) message.writeUInt16BE(checksum(message), 2);
  sendRaw(from, to, isSix ? ICMPv6 : ICMP, message);
}

/** An echo request: RFC 792 and RFC 4443. */
export function sendPing(from: Host, to: string): void {
  const { ICMP, ICMPv6 } = protocolNumbers;
  const isSix = to.includes(':');
  const message = Buffer.of(isSix ? 128 : 8, 0, 0, 0, 0, 1, 0, 1);
  if (!isSix) message.writeUInt16BE(checksum(message), 2);
  sendRaw(from, to, isSix ? ICMPv6 : ICMP, message);
}

/** An IP header, and that of UDP. */
function lostDatagram(isSix: boolean): Buffer {
  const header = Buffer.alloc(isSix ? 40 : 20);
  if (isSix) {
    header.set([0x60, 0, 0, 0, 0, 72, protocolNumbers.UDP, 64, 0x20, 0x01, 0x0d, 0xb8]);
    header.set([0x20, 0x01, 0x0d, 0xb8], 24);
    header[39] = 1;
  } else {
    header.set([0x45, 0, 0, 92, 0, 0, 0, 0, 64, protocolNumbers.UDP, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    header.writeUInt16BE(checksum(header), 10);
  }
  return Buffer.concat([header, Buffer.of(0x30, 0x39, 0x30, 0x3a, 0, 72, 0, 0)]);
}
