/** Who reaches whom, by packets. */
import { createSocket } from 'node:dgram';
import { connect } from 'node:net';

import type { Family } from '../../guards/network-policy/engine/rules.ts';
import type { Host } from './network.fixture.ts';

export interface ProbeOptions {
  readonly protocol?: 'TCP' | 'UDP';
  readonly port?: number;
  readonly family?: Family;
}

/**
 * By source: a datagram from a port that was used before could be of a connection that conntrack still knows, which goes on
 * whatever the rules are.
 */
const lastPorts = new WeakMap<Host, number>();
const firstPort = 10_000;

/** Both what answers and what refuses does so at once; this is for what is lost. */
const timeoutMs = 5_000;

/** Whether an answer comes from there. */
export async function reaches(from: Host, address: string, options: ProbeOptions = {}): Promise<boolean> {
  const { protocol = 'TCP', port = 80 } = options;
  return (await connects(from, address, port, protocol)) === 'answered';
}

/** `lost`: nothing was heard of it for seconds. */
type Outcome = 'answered' | 'refused' | 'lost';

/** The fate of a connection, or of a datagram. */
export async function connects(
  from: Host,
  address: string,
  port: number,
  protocol: 'TCP' | 'UDP' = 'TCP',
): Promise<Outcome> {
  const [outcome] = await from.namespace.runTick(() => [
    protocol === 'TCP' ? overTcp(address, port) : overUdp(from, address, port),
  ]);
  return (await outcome) ?? 'lost';
}

/** By `from -> to`, only those who reach. A host does not probe itself. */
export async function reachable(
  hosts: readonly Host[],
  options: ProbeOptions = {},
  from: readonly Host[] = hosts,
): Promise<Set<string>> {
  const { protocol = 'TCP', port = 80, family = 4 } = options;
  const answers: Promise<readonly [string, boolean]>[] = [];
  for (const source of from) {
    await source.namespace.runTick(() => {
      for (const target of hosts) {
        if (target === source) continue;
        const pair = `${source.name} -> ${target.name}`;
        const address = target.addresses[family];
        const probe = protocol === 'TCP' ? overTcp(address, port) : overUdp(source, address, port);
        answers.push(probe.then((outcome) => [pair, outcome === 'answered']));
      }
    });
  }
  return new Set((await Promise.all(answers)).flatMap(([pair, answered]) => (answered ? [pair] : [])));
}

function overTcp(host: string, port: number): Promise<Outcome> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: timeoutMs });
    const end = (outcome: Outcome) => () => {
      socket.destroy();
      resolve(outcome);
    };
    socket.once('connect', end('answered')).on('error', end('refused')).once('timeout', end('lost'));
  });
}

function overUdp(from: Host, host: string, port: number): Promise<Outcome> {
  return new Promise((resolve) => {
    const socket = createSocket(host.includes(':') ? 'udp6' : 'udp4');
    const timer = setTimeout(() => end('lost'), timeoutMs);
    const end = (outcome: Outcome): void => {
      clearTimeout(timer);
      socket.removeAllListeners().on('error', () => {});
      socket.close();
      resolve(outcome);
    };
    socket.on('error', () => end('refused')).once('message', () => end('answered'));
    const own = (lastPorts.get(from) ?? firstPort) + 1;
    lastPorts.set(from, own);
    socket.bind(own);
    // Connected, so that a refusal is reported.
    socket.connect(port, host, () => socket.send('?'));
  });
}
