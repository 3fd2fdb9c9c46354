/** SCTP as far as a kernel without its sockets has it: the first packet of an association, by a raw socket. */
import { protocolNumbers } from '../../guards/network-policy/dataplane/kernel-packet.ts';
import type { Host } from './listeners.fixture.ts';
import { sendRaw } from './raw-packet.fixture.ts';

/** Sends an INIT. */
export function sendSctpInit(from: Host, to: string, fromPort: number, port: number): void {
  sendRaw(from, to, protocolNumbers.SCTP, initPacket(fromPort, port));
}

/** RFC 9260: a common header and an INIT chunk. With a wrong checksum it would be of no connection for conntrack. */
function initPacket(fromPort: number, port: number): Buffer {
  const packet = Buffer.alloc(32);
  packet.writeUInt16BE(fromPort, 0);
  packet.writeUInt16BE(port, 2);
  packet.writeUInt8(1, 12);
  packet.writeUInt16BE(20, 14);
  packet.writeUInt32BE(0x1234567, 16);
  packet.writeUInt32BE(65_536, 20);
  packet.writeUInt16BE(1, 24);
  packet.writeUInt16BE(1, 26);
  packet.writeUInt32BE(1, 28);
  packet.writeUInt32LE(crc32c(packet), 8);
  return packet;
}

function crc32c(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0x82f63b78 : 0);
  }
  return (crc ^ 0xffffffff) >>> 0;
}
