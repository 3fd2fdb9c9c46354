/** Packets with a source that is not the sender's. */
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';

import type { Host, Network } from './network.fixture.ts';
import type { RefusalVerdict } from '../../guards/network-policy/engine/rules.ts';
import { sourceTableName } from '../../guards/network-policy/dataplane/nftables/names.ts';
import { Nftables } from '../../guards/network-policy/dataplane/nftables/nftables.ts';
import { until } from '../../lib/testing/until.fixture.ts';

/** Free addresses by family: in the network of pods, and outside of it. */
export const unusedAddress = { 4: '10.1.0.200', 6: 'fd00:1::200' } as const;
export const foreignAddress = { 4: '10.7.0.200', 6: 'fd00:7::200' } as const;

/** Gives the host one more address. */
export function takeAddress({ namespace }: Host, address: string): void {
  namespace.ip(
    address.includes(':')
      ? `addr replace ${address}/128 dev eth0 nodad`
      : `addr replace ${address}/32 dev eth0`,
  );
}

export function dropAddress({ namespace }: Host, address: string): void {
  namespace.ip(`addr del ${address}/${address.includes(':') ? 128 : 32} dev eth0`);
}

/** The table that checks sources; empty if it does not exist. */
export function sourceTableOf({ node }: Network): string {
  using nft = node.namespace.run(() => new Nftables());
  return nft.list('list tables').includes(`${sourceTableName}\n`)
    ? nft.list(`list table ${sourceTableName}`)
    : '';
}

/** Packets that it has refused, or has let pass in monitor mode, of all pods. */
export function refusedSources(network: Network, verdict: RefusalVerdict = 'refused'): number {
  const counts = sourceTableOf(network).matchAll(/counter (would-refuse-)?pod-out-\w+ \{\s*packets (\d+) /g);
  return [...counts]
    .filter(([, passed]) => (passed !== undefined) === (verdict === 'would-refuse'))
    .reduce((sum, [, , packets]) => sum + Number(packets), 0);
}

/** Between two datagrams: the first may wait for a neighbour that does not answer. */
const PAUSE_MS = 50;

/**
 * Sends datagrams to port 80 of a pod. Their fate is observed: one arrives, or a counter of the node grows.
 *
 * @param isIntroduced - It has sent a neighbour solicitation in its own name before.
 */
export async function sendAs(
  network: Network,
  from: Host,
  source: string,
  to: Host,
  isIntroduced = true,
): Promise<'arrived' | 'refused'> {
  const family = source.includes(':') ? 6 : 4;
  let arrived = false;
  using _watch = network.watchUdp(to.name, (address) => (arrived ||= address === source), family);
  await using stack = new AsyncDisposableStack();
  const open = async (address: string): Promise<Socket> => {
    const socket = createSocket(`udp${family}`).on('error', () => {});
    stack.defer(() => void socket.close());
    const bound = once(socket, 'listening');
    await from.namespace.runTick(() => socket.bind({ address }));
    await bound;
    return socket;
  };
  const sockets = [...(isIntroduced ? [await open(from.addresses[family])] : []), await open(source)];
  const before = refusedSources(network);
  const send = (): void => {
    for (const socket of sockets) socket.send('?', 80, to.addresses[family], () => {});
  };
  const timer = setInterval(send, PAUSE_MS);
  stack.defer(() => clearInterval(timer));
  send();
  return await until('what becomes of it', () => {
    if (arrived) return 'arrived';
    return refusedSources(network) > before ? 'refused' : undefined;
  });
}
