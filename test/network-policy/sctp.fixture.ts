/**
 * SCTP as far as a kernel without its sockets has it: the first packet of an association, by a raw socket. Whether it arrives, a counter of
 * the receiver says.
 */
import { libc } from '../../lib/ebpf/ffi.ts';
import { Nftables } from '../../guards/network-policy/node/nftables/nftables.ts';
import type { Host } from './network.fixture.ts';

const AF_INET = 2;
const SOCK_RAW = 3;
const IPPROTO_SCTP = 132;

/** Counts what of SCTP comes to a host, by port. */
export class SctpCounter implements Disposable {
  readonly #nft: Nftables;

  constructor({ namespace }: Host, ports: readonly number[]) {
    this.#nft = namespace.run(() => new Nftables());
    this.#nft.run(
      [
        'add table inet sctp-seen',
        'add chain inet sctp-seen input { type filter hook input priority -300; policy accept; }',
        ...ports.flatMap((port) => [
          `add counter inet sctp-seen port-${port}`,
          `add rule inet sctp-seen input sctp dport ${port} counter name port-${port} drop`,
        ]),
      ].join('\n'),
    );
  }

  count(port: number): number {
    const listing = this.#nft.list(`list counter inet sctp-seen port-${port}`);
    return Number(/packets (\d+)/.exec(listing)?.[1]);
  }

  [Symbol.dispose](): void {
    this.#nft.run('delete table inet sctp-seen');
    this.#nft[Symbol.dispose]();
  }
}

/** Sends an INIT; the kernel puts the IPv4 header before it. A refusal that was told at once is none of a test's. */
export function sendSctpInit({ namespace }: Host, to: string, fromPort: number, port: number): void {
  const packet = initPacket(fromPort, port);
  namespace.run(() => {
    const fd = libc.socket(AF_INET, SOCK_RAW, IPPROTO_SCTP);
    if (fd < 0) throw new Error('no raw socket');
    try {
      // struct sockaddr_in
      const address = Buffer.alloc(16);
      address.writeUInt16LE(AF_INET, 0);
      Buffer.from(to.split('.').map(Number)).copy(address, 4);
      if (libc.connect(fd, address, address.length) < 0) throw new Error(`no way to ${to}`);
      libc.send(fd, packet, packet.length, 0);
    } finally {
      libc.close(fd);
    }
  });
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
