/** Whether a port of a rule matches that of a packet. */
import type { PodObject, PortObject } from '../engine/objects.ts';
import type { Packet } from './packet.ts';

/** @param destination - Undefined: not a pod, so no name stands for any of its ports. */
export function portFits(
  { protocol, port, endPort }: PortObject,
  packet: Packet,
  destination: PodObject | undefined,
): boolean {
  const wanted = protocol ?? 'TCP';
  if (!['TCP', 'UDP', 'SCTP'].includes(wanted) || wanted !== packet.protocol) return false;
  const hasEnd = endPort !== undefined && endPort !== null;
  if (port === undefined || port === null) return !hasEnd;
  if (typeof port === 'string') {
    return !hasEnd && isName(port) && portsNamed(port, wanted, destination).includes(packet.port ?? 0);
  }
  const last = endPort ?? port;
  const inOrder = isPort(port) && isPort(last) && port <= last;
  return inOrder && packet.port !== undefined && port <= packet.port && packet.port <= last;
}

function isPort(port: number): boolean {
  return Number.isInteger(port) && port > 0 && port < 65_536;
}

function isName(name: string): boolean {
  return (
    name.length <= 15 &&
    /^[-a-z0-9]+$/.test(name) &&
    /[a-z]/.test(name) &&
    !name.includes('--') &&
    !name.startsWith('-') &&
    !name.endsWith('-')
  );
}

function portsNamed(name: string, protocol: string, pod: PodObject | undefined): number[] {
  const { containers, initContainers } = pod?.spec ?? {};
  const serving = [
    ...(containers ?? []),
    ...(initContainers ?? []).filter(({ restartPolicy }) => restartPolicy === 'Always'),
  ];
  return serving
    .flatMap(({ ports }) => ports ?? [])
    .filter((port) => port.name === name && (port.protocol ?? 'TCP') === protocol)
    .map(({ containerPort }) => containerPort);
}
