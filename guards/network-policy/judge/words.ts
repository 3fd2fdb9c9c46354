/** Puts a decision of the judge into words: which policy, which of its rules, and what that allows. */
import type { LabelSelectorObject } from '../../../lib/kube/selectors/selectors.ts';
import { objectKey, type PeerObject, type PolicyObject, type PortObject } from '../engine/objects.ts';
import type { Direction, PolicyKey } from '../engine/rules.ts';
import { type Decision, type Fit, type NearMiss, rulesOf } from './judge.ts';

/** The names of both ends of a packet, as shown to people. */
export interface SideNames {
  /** The end whose policies decide: a pod (`namespace/name`) or an address. */
  readonly own: string;
  readonly peer: string;
  /** `80/TCP` */
  readonly port: string;
}

const peersField = { ingress: 'from', egress: 'to' } as const satisfies Record<Direction, string>;

/** The path of a rule in its policy: `spec.ingress[0]`. */
export function ruleField(direction: Direction, { rule }: Pick<Fit, 'rule'>): string {
  return `spec.${direction}[${rule}]`;
}

/** One or two sentences about a decision. `policies` are looked up for what their rules allow; one that is missing is only named. */
export function decisionWords(
  direction: Direction,
  decision: Decision,
  names: SideNames,
  policies: Iterable<PolicyObject>,
): string {
  switch (decision.verdict) {
    case 'not isolated':
      return `No policy isolates ${names.own} for ${direction}, so all is allowed.`;
    case 'own node':
      return 'A node can always reach its own pods, whatever the policies.';
    case 'allowed': {
      const rule = ruleOf(direction, decision, policies);
      const [peers, ports] = [peersField[direction], 'ports'].map((field, at) => {
        const index = at === 0 ? decision.peer : decision.port;
        return index === undefined ? '' : ` (${field}[${index}])`;
      });
      const peer = rule === undefined ? names.peer : onePeerWords(rule.peers, decision.peer, decision.policy);
      const port = rule === undefined ? names.port : onePortWords(rule.ports, decision.port);
      return `Policy ${decision.policy} allows it by ${ruleField(direction, decision)}: ${peersField[direction]} ${peer}${peers}, ${port}${ports}.`;
    }
    case 'refused':
    case 'would-refuse': {
      const { verdict, policies: isolating, nearest, monitoringNode } = decision;
      const isOne = isolating.length === 1;
      const who = isOne ? `Policy ${isolating[0]} isolates` : `Policies ${isolating.join(', ')} isolate`;
      const none = isOne ? 'none of its rules allow this' : 'none of their rules allow this';
      const monitored =
        monitoringNode === undefined
          ? `${isOne ? 'The policy is' : 'These policies are'} in monitor mode`
          : `Node ${monitoringNode} is in monitor mode`;
      const passes = verdict === 'refused' ? '' : ` ${monitored}, so this passes.`;
      const near = nearest === undefined ? '' : ` ${nearestWords(direction, nearest, names, policies)}`;
      return `${who} ${names.own} for ${direction}, and ${none}.${passes}${near}`;
    }
  }
}

/** The closest rule, and the part of it that does not match. */
function nearestWords(
  direction: Direction,
  nearest: NearMiss,
  { peer, port }: SideNames,
  policies: Iterable<PolicyObject>,
): string {
  const at = `Closest rule: ${nearest.policy} ${ruleField(direction, nearest)} allows`;
  const rule = ruleOf(direction, nearest, policies);
  const preposition = peersField[direction];
  if (nearest.fits === 'peer') {
    const allowed = rule === undefined ? '' : `only ${listWords(rule.ports.map(portWords))}, `;
    return `${at} traffic ${preposition} ${peer}, but ${allowed}not ${port}.`;
  }
  const allowed =
    rule === undefined
      ? ''
      : `only ${preposition} ${listWords(rule.peers.map((one) => peerWords(one, namespaceOf(nearest.policy))))}, `;
  return `${at} ${port}, but ${allowed}not ${preposition} ${peer}.`;
}

function ruleOf(
  direction: Direction,
  { policy: key, rule: index }: Pick<Fit, 'policy' | 'rule'>,
  policies: Iterable<PolicyObject>,
): ReturnType<typeof rulesOf>[number] | undefined {
  const policy = [...policies].find((one) => objectKey(one) === key);
  return policy && rulesOf(policy, direction)[index];
}

function onePeerWords(peers: readonly PeerObject[], index: number | undefined, policy: PolicyKey): string {
  const peer = index === undefined ? undefined : peers[index];
  return peer === undefined ? 'everyone' : peerWords(peer, namespaceOf(policy));
}

function onePortWords(ports: readonly PortObject[], index: number | undefined): string {
  const port = index === undefined ? undefined : ports[index];
  return port === undefined ? 'every port' : portWords(port);
}

/** @param namespace - The policy's namespace. */
function peerWords({ podSelector, namespaceSelector, ipBlock }: PeerObject, namespace: string): string {
  if (ipBlock !== undefined && ipBlock !== null) {
    const holes = ipBlock.except ?? [];
    return holes.length === 0 ? ipBlock.cidr : `${ipBlock.cidr} except ${holes.join(', ')}`;
  }
  const pods = selectorWords(podSelector ?? {}, 'all pods', 'pods with ');
  if (namespaceSelector === undefined || namespaceSelector === null) return `${pods} in ${namespace}`;
  return `${pods} in ${selectorWords(namespaceSelector, 'all namespaces', 'namespaces with ')}`;
}

function portWords({ protocol, port, endPort }: PortObject): string {
  const name = protocol ?? 'TCP';
  if (port === undefined || port === null) return `every port of ${name}`;
  const range = endPort === undefined || endPort === null ? String(port) : `${port}-${endPort}`;
  return `${range}/${name}`;
}

function selectorWords(
  { matchLabels, matchExpressions }: LabelSelectorObject,
  empty: string,
  before: string,
): string {
  const labels = Object.entries(matchLabels ?? {}).map(([key, value]) => `${key}=${value}`);
  const expressions = (matchExpressions ?? []).map(({ key, operator, values }) =>
    operator === 'Exists' || operator === 'DoesNotExist'
      ? `${key} ${operator}`
      : `${key} ${operator} (${(values ?? []).join(', ')})`,
  );
  const all = [...labels, ...expressions];
  return all.length === 0 ? empty : `${before}${all.join(', ')}`;
}

/** Longer lists are truncated. */
const SHOWN = 5;

function listWords(words: readonly string[]): string {
  if (words.length <= SHOWN) return words.join(' or ');
  return `${words.slice(0, SHOWN).join(' or ')} or ${words.length - SHOWN} more`;
}

function namespaceOf(key: PolicyKey): string {
  return key.split('/')[0] ?? '';
}
