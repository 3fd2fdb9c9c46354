/** Ethernet frames as a pod with NET_RAW may send them: what is in their headers is up to the sender. */
import { execFileSync } from 'node:child_process';

import { addressValue } from '../../guards/network-policy/engine/addresses.ts';
import { protocolNumbers } from '../../guards/network-policy/dataplane/kernel-packet.ts';
import { libc } from '../../lib/ebpf/ffi.ts';
import { type Host, type Network, podNames } from './network.fixture.ts';

const AF_PACKET = 17;
const SOCK_RAW = 3;
/** struct sockaddr_ll */
const ADDRESS_BYTES = 20;

export const etherTypes = {
  4: 0x0800,
  6: 0x86dd,
  vlan: 0x8100,
  serviceVlan: 0x88a8,
  experimental: 0x88b5,
} as const;

interface Interface {
  readonly index: number;
  readonly mac: Buffer;
}

export function interfaceOf({ namespace }: Host, device = 'eth0'): Interface {
  const shown = namespace.run(() => execFileSync('ip', ['-o', 'link', 'show', device], { encoding: 'utf8' }));
  const [, index, mac = ''] = /^(\d+):.* link\/ether (\S+) /.exec(shown) ?? [];
  if (index === undefined) throw new Error(`no ${device}: ${shown}`);
  return { index: Number(index), mac: Buffer.from(mac.replaceAll(':', ''), 'hex') };
}

/** To whom a pod has to send what is for another one: to it, or to the node. */
export function macTowards({ node }: Network, from: Host, to: Host, isBridged: boolean): Buffer {
  return (isBridged ? interfaceOf(to) : interfaceOf(node, `pod${podNames.indexOf(from.name)}`)).mac;
}

/**
 * From eth0, with its MAC address.
 *
 * @param types - Of VLAN tags, whose ID is 0 (a priority, and no VLAN), and then of the payload.
 */
export function sendFrame(from: Host, toMac: Buffer, types: readonly number[], payload: Buffer): void {
  const { index, mac } = interfaceOf(from);
  const header = types.flatMap((type, at) => [...(at === 0 ? [] : [0, 0]), type >> 8, type & 0xff]);
  const frame = Buffer.concat([toMac, mac, Buffer.from(header), payload]);
  const address = Buffer.alloc(ADDRESS_BYTES);
  address.writeUInt16LE(AF_PACKET, 0);
  address.writeInt32LE(index, 4);
  from.namespace.run(() => {
    const fd = libc.socket(AF_PACKET, SOCK_RAW, 0);
    if (fd < 0) throw new Error('no packet socket');
    try {
      if (libc.bind(fd, address, address.length) < 0) throw new Error('no eth0');
      if (libc.send(fd, frame, frame.length, 0) < 0) throw new Error('the frame was not sent');
    } finally {
      libc.close(fd);
    }
  });
}

/** An IP packet with a datagram. */
export function datagram(
  source: string,
  destination: string,
  [fromPort, toPort]: readonly [number, number] = [40_000, 80],
  payload = Buffer.from('?'),
): Buffer {
  const udp = Buffer.concat([Buffer.alloc(8), payload]);
  udp.writeUInt16BE(fromPort, 0);
  udp.writeUInt16BE(toPort, 2);
  udp.writeUInt16BE(udp.length, 4);
  udp.writeUInt16BE(0, 6);
  return ipPacket(source, destination, protocolNumbers.UDP, udp, 6);
}

/** An IP packet with flags of TCP that exclude each other: conntrack finds it invalid (net/netfilter/nf_conntrack_proto_tcp.c, tcp_valid_flags). */
export function synFin(
  source: string,
  destination: string,
  [fromPort, toPort]: readonly [number, number] = [40_000, 80],
): Buffer {
  const tcp = Buffer.alloc(20);
  tcp.writeUInt16BE(fromPort, 0);
  tcp.writeUInt16BE(toPort, 2);
  tcp.writeUInt8(5 << 4, 12);
  tcp.writeUInt8(0x03, 13);
  return ipPacket(source, destination, protocolNumbers.TCP, tcp, 16);
}

/** @param sumAt - Where the payload has its checksum, which is over the addresses too. */
export function ipPacket(
  source: string,
  destination: string,
  protocol: number,
  payload: Buffer,
  sumAt: number,
  hopLimit = 64,
): Buffer {
  const isSix = source.includes(':');
  const ends = Buffer.concat([bytesOf(source), bytesOf(destination)]);
  const filled = Buffer.from(payload);
  const pseudo = Buffer.alloc(8);
  pseudo.writeUInt32BE(payload.length, 0);
  pseudo.writeUInt8(protocol, 7);
  filled.writeUInt16BE(checksum(Buffer.concat([ends, pseudo, filled])) || 0xffff, sumAt);
  if (isSix) {
    const header = Buffer.of(0x60, 0, 0, 0, 0, 0, protocol, hopLimit);
    header.writeUInt16BE(payload.length, 4);
    return Buffer.concat([header, ends, filled]);
  }
  const start = Buffer.of(0x45, 0, 0, 0, 0, 0, 0, 0, hopLimit, protocol, 0, 0);
  start.writeUInt16BE(20 + payload.length, 2);
  const header = Buffer.concat([start, ends]);
  header.writeUInt16BE(checksum(header), 10);
  return Buffer.concat([header, filled]);
}

/** An ICMPv6 packet by which its sender becomes a router of its link, with a prefix that others take addresses from (RFC 4861). */
export function routerAdvertisement(source: string, prefix: string): Buffer {
  const header = Buffer.alloc(16);
  header.set([134, 0, 0, 0, 64]);
  header.writeUInt16BE(100, 6);
  const option = Buffer.alloc(16);
  option.set([3, 4, 64, 0xc0]);
  option.writeUInt32BE(3600, 4);
  option.writeUInt32BE(3600, 8);
  const message = Buffer.concat([header, option, bytesOf(prefix)]);
  return ipPacket(source, 'ff02::1', protocolNumbers.ICMPv6, message, 2, 255);
}

/** To whom it goes (RFC 2464, 7). */
export const allNodesMac = Buffer.from('333300000001', 'hex');

function bytesOf(address: string): Buffer {
  if (!address.includes(':')) return Buffer.from(address.split('.').map(Number));
  return Buffer.from(addressValue(address).toString(16).padStart(32, '0'), 'hex');
}

/** RFC 1071 */
export function checksum(bytes: Buffer): number {
  const even = bytes.length % 2 === 0 ? bytes : Buffer.concat([bytes, Buffer.of(0)]);
  let sum = 0;
  for (let at = 0; at < even.length; at += 2) sum += even.readUInt16BE(at);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  return ~sum & 0xffff;
}
