/**
 * Whether a port is in use, from the kernel's list of sockets: trying to listen could take the port from a process that is just starting.
 */
import { readFileSync } from 'node:fs';

/** TCP_LISTEN of include/net/tcp_states.h. */
const LISTEN = '0A';
const families = ['tcp', 'tcp6'] as const;

/** Reads /proc/net/NAME; undefined if the kernel has no such protocol. */
type ReadSockets = (name: (typeof families)[number]) => string | undefined;

/**
 * Whether a process of this network namespace listens at an IPv4 address and port, or at all addresses: then the port is taken. A listener
 * on `::` counts too, although it may not accept IPv4 (IPV6_V6ONLY): the list does not say.
 *
 * @param address - Such as `127.0.0.1`.
 */
export function isListening(address: string, port: number, read: ReadSockets = readSockets): boolean {
  const wanted = Buffer.from(address.split('.').map(Number));
  const mapped = Buffer.concat([Buffer.alloc(10), Buffer.from([0xff, 0xff]), wanted]);
  return families.some((name) =>
    (read(name) ?? '')
      .split('\n')
      .slice(1)
      .some((line) => {
        const [, local = '', , state] = line.trim().split(/\s+/);
        const [host = '', hexPort = ''] = local.split(':');
        if (state !== LISTEN || Number.parseInt(hexPort, 16) !== port) return false;
        const bytes = bytesOf(host);
        return bytes.every((byte) => byte === 0) || bytes.equals(wanted) || bytes.equals(mapped);
      }),
  );
}

/** The list has addresses as words in the machine's byte order (proc(5)): little endian wherever this runs. */
function bytesOf(hex: string): Buffer {
  return Buffer.from(hex, 'hex').swap32();
}

function readSockets(name: string): string | undefined {
  try {
    // `/proc/net` would be that of the main thread, which may be in another namespace.
    return readFileSync(`/proc/thread-self/net/${name}`, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
