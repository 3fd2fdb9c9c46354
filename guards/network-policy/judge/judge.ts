/**
 * Decides whether a packet is allowed, by which rule of which policy, or what refuses it. Reads the objects
 * directly, one rule after the other, and shares only keys and address parsing with the engine: it is the
 * basis of `rampart network explain`, and the engine is tested against it.
 */
import {
  type NamespaceObject,
  objectKey,
  type PodObject,
  type PolicyObject,
  type PortObject,
} from '../engine/objects.ts';
import { monitorModeOf, type PolicyMode } from '../engine/monitor.ts';
import type { Direction, PolicyKey, RefusalVerdict } from '../engine/rules.ts';
import { partiesOf, type Party } from './parties.ts';
import { peerFits, selectsTarget, targetsAreKnown } from './peers.ts';
import type { Packet } from './packet.ts';

export interface Judgement {
  readonly allowed: boolean;
  /** The decision of the destination's policies. */
  readonly ingress: Decision;
  /** The decision of the source's policies. */
  readonly egress: Decision;
}

export type Decision =
  /** No policy selects the pod in this direction, or the end is not a pod. */
  | { readonly verdict: 'not isolated' }
  | { readonly verdict: 'own node' }
  | ({ readonly verdict: 'allowed' } & Fit)
  | RefusalDecision;

/** `would-refuse`: the packet passes, because all policies that isolate the pod are in monitor mode, or its node is. */
export interface RefusalDecision {
  readonly verdict: RefusalVerdict;
  /** The policies that isolate the pod, sorted. */
  readonly policies: readonly PolicyKey[];
  /** The closest rule: undefined if no part of any rule matches. */
  readonly nearest: NearMiss | undefined;
  /** The node in monitor mode that lets the packet pass, whatever the mode of the policies. */
  readonly monitoringNode?: string;
}

export function isRefusal(decision: Decision): decision is RefusalDecision {
  return decision.verdict === 'refused' || decision.verdict === 'would-refuse';
}

/** Indexes in the policy. Undefined if the rule has no such list, so that every peer or port matches. */
export interface Fit {
  readonly policy: PolicyKey;
  readonly rule: number;
  readonly peer: number | undefined;
  readonly port: number | undefined;
}

export interface NearMiss extends Fit {
  /** Which part of the rule matches; the other part does not. */
  readonly fits: 'peer' | 'port';
}

/**
 * @param options - `fromNode`: the packet comes from the destination's node, which reaches its own pods whatever
 * the policies say. `monitoringNodes`: nodes on which all policies are in monitor mode.
 * @throws {RampartError} for a pod that is unknown or has no address of the family.
 */
export function judge(
  policies: Iterable<PolicyObject>,
  pods: Iterable<PodObject>,
  namespaces: Iterable<NamespaceObject>,
  packet: Packet,
  {
    fromNode = false,
    monitoringNodes = new Set(),
  }: { readonly fromNode?: boolean; readonly monitoringNodes?: ReadonlySet<string> } = {},
): Judgement {
  const { source, destination } = partiesOf([...pods], packet);
  const sorted = [...policies].toSorted((a, b) => (objectKey(a) < objectKey(b) ? -1 : 1));
  const known = [...namespaces];
  const decide = (direction: Direction) =>
    decisionOf(sorted, known, packet, direction, { source, destination }, monitoringNodes);
  const ingress: Decision = fromNode ? { verdict: 'own node' } : decide('ingress');
  const egress = decide('egress');
  return { allowed: ingress.verdict !== 'refused' && egress.verdict !== 'refused', ingress, egress };
}

function decisionOf(
  policies: readonly PolicyObject[],
  namespaces: readonly NamespaceObject[],
  packet: Packet,
  direction: Direction,
  { source, destination }: { readonly source: Party; readonly destination: Party },
  monitoringNodes: ReadonlySet<string>,
): Decision {
  const [target, peer] = direction === 'ingress' ? [destination, source] : [source, destination];
  const isolating = policies.filter((policy) => isolates(policy, direction, target));
  if (isolating.length === 0) return { verdict: 'not isolated' };
  const misses: NearMiss[] = [];
  for (const policy of isolating.filter(targetsAreKnown)) {
    for (const [rule, { peers, ports }] of rulesOf(policy, direction).entries()) {
      const at = { policy: objectKey(policy), rule };
      const namespace = policy.metadata.namespace ?? '';
      const whichPeer = firstThat(peers, (one) => peerFits(one, namespace, peer, namespaces));
      const whichPort = firstThat(ports, (one) => portFits(one, packet, destination.pod));
      const [peerIndex, portIndex] = [whichPeer.index, whichPort.index];
      if (whichPeer.fits && whichPort.fits) {
        return { verdict: 'allowed', ...at, peer: peerIndex, port: portIndex };
      }
      if (whichPeer.fits) misses.push({ ...at, peer: peerIndex, port: undefined, fits: 'peer' });
      if (whichPort.fits) misses.push({ ...at, peer: undefined, port: portIndex, fits: 'port' });
    }
  }
  // A matching peer is more informative than a matching port.
  const nearest = misses.find(({ fits }) => fits === 'peer') ?? misses[0];
  const refusal = { policies: isolating.map(objectKey), nearest };
  const node = target.pod?.spec?.nodeName ?? '';
  if (monitoringNodes.has(node)) return { verdict: 'would-refuse', monitoringNode: node, ...refusal };
  const isMonitored = isolating.every((policy) => modeOf(policy, namespaces) === 'monitor');
  return { verdict: isMonitored ? 'would-refuse' : 'refused', ...refusal };
}

/** The policy's own annotation decides, or else that of its Namespace. */
function modeOf({ metadata }: PolicyObject, namespaces: readonly NamespaceObject[]): PolicyMode {
  const own = namespaces.find((one) => one.metadata.name === metadata.namespace)?.metadata;
  return own !== undefined && monitorModeOf(own) === 'monitor' ? 'monitor' : monitorModeOf(metadata);
}

function isolates(policy: PolicyObject, direction: Direction, target: Party): boolean {
  if (target.pod === undefined || !selectsTarget(policy, target.pod)) return false;
  const types = (policy.spec?.policyTypes ?? []).filter((type) => type === 'Ingress' || type === 'Egress');
  if (types.length > 0) return types.includes(direction === 'ingress' ? 'Ingress' : 'Egress');
  return direction === 'ingress' || (policy.spec?.egress ?? []).length > 0;
}

export function rulesOf({ spec }: PolicyObject, direction: Direction) {
  return direction === 'ingress'
    ? (spec?.ingress ?? []).map(({ from, ports }) => ({ peers: from ?? [], ports: ports ?? [] }))
    : (spec?.egress ?? []).map(({ to, ports }) => ({ peers: to ?? [], ports: ports ?? [] }));
}

/** The first item that fits; an empty list fits everything. */
function firstThat<T>(
  list: readonly T[],
  holds: (item: T) => boolean,
): { readonly fits: boolean; readonly index: number | undefined } {
  if (list.length === 0) return { fits: true, index: undefined };
  const index = list.findIndex(holds);
  return index === -1 ? { fits: false, index: undefined } : { fits: true, index };
}

/** @param destination - Undefined if the destination is not a pod: then a named port does not match. */
function portFits(
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
