/** The connections of a server, shared among the addresses that they come from. */
import type { Server, Socket } from 'node:net';

import { type FairLimits, FairShares, type Share } from './fair-shares.ts';

interface ConnectionLimits extends FairLimits {
  /** A connection that is still counted after this time is closed. Default: never. */
  readonly withinMs?: number;
}

/**
 * A new connection beyond the limits closes the oldest one of the address with the most connections, so a client that opens
 * thousands closes its own. Unix sockets have no address and are not counted.
 */
export class ConnectionShares {
  readonly #shares: FairShares;
  readonly #byPeer = new Map<string, Share>();

  constructor(server: Server, { withinMs, ...limits }: ConnectionLimits) {
    this.#shares = new FairShares(limits);
    server.on('connection', (socket: Socket) => this.#take(socket, withinMs));
  }

  get count(): number {
    return this.#shares.used;
  }

  /** The share of the connection with this peer, whether plain or TLS; `undefined` once it has ended. */
  of(socket: Pick<Socket, 'remoteAddress' | 'remotePort'>): Share | undefined {
    return this.#byPeer.get(peerOf(socket));
  }

  #take(socket: Socket, withinMs: number | undefined): void {
    const { remoteAddress } = socket;
    if (remoteAddress === undefined) return;
    const peer = peerOf(socket);
    const share = this.#shares.open(sourceOf(remoteAddress), () => socket.destroy());
    this.#byPeer.set(peer, share);
    const late = withinMs === undefined ? undefined : setTimeout(() => share.revoke(), withinMs).unref();
    socket.once('close', () => {
      clearTimeout(late);
      share[Symbol.dispose]();
      if (this.#byPeer.get(peer) === share) this.#byPeer.delete(peer);
    });
    if (!share.grow(1)) socket.destroy();
  }
}

function peerOf({ remoteAddress, remotePort }: Pick<Socket, 'remoteAddress' | 'remotePort'>): string {
  return `${remoteAddress} ${remotePort}`;
}

/** The source that an address counts for. Addresses that a single client can use are one source: 127.0.0.0/8, and a /64 of IPv6. */
export function sourceOf(address: string): string {
  const ipv4 = /^(?:::ffff:)?(\d+)\.\d+\.\d+\.\d+$/i.exec(address);
  if (ipv4 !== null) return ipv4[1] === '127' ? 'loopback' : address.replace(/^::ffff:/i, '');
  if (address === '::1') return 'loopback';
  const [head = '', tail = ''] = address.replace(/%.*$/, '').split('::', 2);
  const groups = head === '' ? [] : head.split(':');
  if (!address.includes('::')) return groups.slice(0, 4).join(':');
  const rest = tail === '' ? [] : tail.split(':');
  const zeros = Array.from({ length: 8 - groups.length - rest.length }, () => '0');
  return [...groups, ...zeros, ...rest].slice(0, 4).join(':');
}
