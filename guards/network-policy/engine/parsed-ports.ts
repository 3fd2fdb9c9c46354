import { exactList } from './exact-list.ts';
import type { PortObject } from './objects.ts';
import type { Refuse } from './parsed-selector.ts';
import type { PortRange, Protocol } from './rules.ts';

export interface NamedPort {
  /** Index of the port in the rule's list. */
  readonly index: number;
  readonly protocol: Protocol;
  readonly name: string;
}

export interface Ports {
  /** Sorted, and merged if they overlap or touch. */
  readonly ports: 'any' | readonly PortRange[];
  readonly names: readonly NamedPort[];
}

const [firstPort, lastPort] = [1, 65_535];
const consequence = 'the port allows nothing';

/** An empty list means any port; a list with only malformed ports means none. */
export function parsePorts(ports: readonly PortObject[], path: string, refuse: Refuse): Ports {
  if (ports.length === 0) return { ports: 'any', names: [] };
  const ranges: PortRange[] = [];
  const names: NamedPort[] = [];
  for (const [index, port] of ports.entries()) {
    const parsed = parsePort(port, index, `${path}[${index}]`, refuse);
    if (parsed === undefined) continue;
    if ('name' in parsed) names.push(parsed);
    else ranges.push(parsed);
  }
  return { ports: exactList(joined(ranges)), names: exactList(names) };
}

function parsePort(
  { protocol: written, port, endPort }: PortObject,
  index: number,
  path: string,
  refuse: Refuse,
): PortRange | NamedPort | undefined {
  const wrong = (field: string, why: string) => {
    refuse(`${path}.${field}`, `${why}: ${consequence}.`);
    return undefined;
  };
  const protocol = protocolOf(written);
  if (protocol === undefined) {
    return wrong('protocol', `${JSON.stringify(written)} is not one of TCP, UDP and SCTP`);
  }
  if (port === undefined || port === null) {
    if (typeof endPort === 'number') return wrong('endPort', 'endPort requires port, the start of the range');
    return { protocol, first: 0, last: lastPort };
  }
  if (typeof port === 'string') {
    if (!isPortName(port)) return wrong('port', `${JSON.stringify(port)} cannot be the name of a port`);
    if (typeof endPort === 'number') return wrong('endPort', 'endPort requires a numeric port');
    return { index, protocol, name: port };
  }
  if (!isPort(port)) return wrong('port', `${port} is not a port from ${firstPort} to ${lastPort}`);
  const last = endPort ?? port;
  if (!isPort(last)) return wrong('endPort', `${last} is not a port from ${firstPort} to ${lastPort}`);
  if (last < port) return wrong('endPort', `endPort ${last} is below port ${port}`);
  return { protocol, first: port, last };
}

/** The protocol of a port: TCP by default, undefined if it is not a protocol with ports. */
export function protocolOf(written: string | null | undefined): Protocol | undefined {
  const protocol = written ?? 'TCP';
  return protocol === 'TCP' || protocol === 'UDP' || protocol === 'SCTP' ? protocol : undefined;
}

function isPort(port: number): boolean {
  return Number.isInteger(port) && port >= firstPort && port <= lastPort;
}

/** IANA_SVC_NAME of the API: a letter somewhere, no `-` at the ends and no two in a row. */
function isPortName(name: string): boolean {
  return name.length <= 15 && /^(?=.*[a-z])[a-z0-9]+(?:-[a-z0-9]+)*$/.test(name);
}

function joined(ranges: readonly PortRange[]): readonly PortRange[] {
  if (ranges.length < 2) return ranges;
  const sorted = ranges.toSorted(
    (a, b) => a.protocol.localeCompare(b.protocol, 'en') || a.first - b.first || a.last - b.last,
  );
  const result: PortRange[] = [];
  for (const next of sorted) {
    const before = result.at(-1);
    if (before === undefined || before.protocol !== next.protocol || next.first > before.last + 1) {
      result.push(next);
    } else if (next.last > before.last) result[result.length - 1] = { ...before, last: next.last };
  }
  return result;
}
