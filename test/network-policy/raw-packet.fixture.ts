/** Packets that no socket of the kernel would send: by a raw socket, before whose payload the kernel puts the IP header. */
import { addressValue } from '../../guards/network-policy/engine/addresses.ts';
import { libc } from '../../lib/ebpf/ffi.ts';
import type { Host } from './listeners.fixture.ts';

const AF_INET = 2;
const AF_INET6 = 10;
const SOCK_RAW = 3;

/** An immediate refusal is irrelevant to a test. */
export function sendRaw({ namespace }: Host, to: string, protocol: number, payload: Buffer): void {
  namespace.run(() => {
    const address = to.includes(':') ? address6(to) : address4(to);
    const fd = libc.socket(address.readUInt16LE(0), SOCK_RAW, protocol);
    if (fd < 0) throw new Error('no raw socket');
    try {
      if (libc.connect(fd, address, address.length) < 0) throw new Error(`no way to ${to}`);
      libc.send(fd, payload, payload.length, 0);
    } finally {
      libc.close(fd);
    }
  });
}

/** struct sockaddr_in */
function address4(to: string): Buffer {
  const address = Buffer.alloc(16);
  address.writeUInt16LE(AF_INET, 0);
  Buffer.from(to.split('.').map(Number)).copy(address, 4);
  return address;
}

/** struct sockaddr_in6 */
function address6(to: string): Buffer {
  const address = Buffer.alloc(28);
  address.writeUInt16LE(AF_INET6, 0);
  address.writeBigUInt64BE(addressValue(to) >> 64n, 8);
  address.writeBigUInt64BE(addressValue(to) & 0xffff_ffff_ffff_ffffn, 16);
  return address;
}
