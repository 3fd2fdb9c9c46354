/** Whether one end may connect to another, and which rules decide it: pure, computed from the objects of the cluster. */
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { parseAddress } from '../engine/addresses.ts';
import { type NamespaceObject, objectKey, type PodObject, type PolicyObject } from '../engine/objects.ts';
import { misreadMonitor, namespaceWarning } from '../engine/monitor.ts';
import { parsePolicy } from '../engine/parsed-policy.ts';
import type {
  Address,
  Direction,
  Family,
  PodKey,
  PolicyKey,
  PolicyProblem,
  PolicyWarning,
} from '../engine/rules.ts';
import { type Decision, isRefusal, judge } from '../judge/judge.ts';
import { partiesOf, type Party } from '../judge/parties.ts';
import { decisionWords, ruleField } from '../judge/words.ts';

export interface Question {
  /** A pod (`namespace/name`) or an address. */
  readonly from: string;
  readonly to: string;
  /** `TCP`, `UDP`, `SCTP`, or another one, which has no ports. */
  readonly protocol: string;
  /**
   * Port of the destination: a number or the name of a port of the pod. Undefined: a protocol without ports.
   */
  readonly port?: number | string | undefined;
  readonly family?: Family | undefined;
}

/** A pod, with the fields that only an explanation needs. */
export interface ExplainedPod extends PodObject {
  readonly status?: PodObject['status'] & {
    readonly hostIP?: string | null | undefined;
    readonly hostIPs?: readonly { readonly ip?: string | null | undefined }[] | null | undefined;
  };
}

export interface ClusterObjects {
  readonly policies: readonly PolicyObject[];
  readonly pods: readonly ExplainedPod[];
  readonly namespaces: readonly NamespaceObject[];
  /** Nodes whose agents run with `--network-policy-mode monitor`, as far as that is known. */
  readonly monitoringNodes?: ReadonlySet<string>;
}

export interface ExplainedEnd {
  readonly address: Address;
  /** Undefined: the address belongs to no pod that policies could select. */
  readonly pod: PodKey | undefined;
  readonly node: string | undefined;
}

/** The decision of the policies of one end. */
export interface ExplainedSide {
  readonly direction: Direction;
  /** `itself`: a pod reaches itself whatever its policies say, for example through a Service. */
  readonly verdict: Decision['verdict'] | 'itself';
  /** If allowed: the policy that allows it. If it is refused, or would be: the policy that came closest. */
  readonly policy?: PolicyKey;
  /** `spec.ingress[0]` */
  readonly field?: string;
  /** Index in the rule's `from` or `to`; undefined if the rule has no peers, or none matches. */
  readonly peer?: number;
  /** Index in the rule's `ports`. */
  readonly port?: number;
  /** Set for the closest rule: which part of it matches. */
  readonly fits?: 'peer' | 'port';
  /** If it is refused, or would be: the policies that isolate the pod. */
  readonly policies?: readonly PolicyKey[];
  readonly words: string;
}

export interface Explanation {
  readonly allowed: boolean;
  /** Whether it is allowed only because of monitor mode, at either end. */
  readonly wouldRefuse: boolean;
  readonly from: ExplainedEnd;
  readonly to: ExplainedEnd;
  readonly protocol: string;
  readonly port: number | undefined;
  /** Whether the packet comes from the destination's own node. */
  readonly fromOwnNode: boolean;
  readonly egress: ExplainedSide;
  readonly ingress: ExplainedSide;
  /** Fields that cannot be expressed, of the policies that isolate either end: they allow nothing. */
  readonly problems: readonly PolicyProblem[];
  /** Fields of these policies that apply in another way than their text suggests. */
  readonly warnings: readonly PolicyWarning[];
}

/** @throws {RampartError} `INPUT` for ends that are unknown, or have no address family in common. */
export function explain(
  { policies, pods, namespaces, monitoringNodes }: ClusterObjects,
  question: Question,
): Explanation {
  const { from, to, protocol, family } = question;
  const { source, destination } = partiesOf(pods, { from, to, protocol, family });
  const port = portNumber(question, destination);
  const fromOwnNode = isFromOwnNode(pods, question, source, destination);
  const packet = { from, to, family: source.address.family, protocol, port };
  const judgement = judge(policies, pods, namespaces, packet, {
    fromNode: fromOwnNode,
    ...(monitoringNodes && { monitoringNodes }),
  });
  const ends = { egress: [source, destination], ingress: [destination, source] } as const;
  const portText = port === undefined ? protocol : `${port}/${protocol}`;
  const isItself = source.pod !== undefined && source.pod === destination.pod;
  const [egress, ingress] = (['egress', 'ingress'] as const).map((direction): ExplainedSide => {
    if (isItself) {
      const words = 'A pod can always reach itself, whatever the policies.';
      return { direction, verdict: 'itself', words };
    }
    const [own, peer] = ends[direction];
    const names = { own: nameOf(own), peer: nameOf(peer), port: portText };
    return sideOf(
      direction,
      judgement[direction],
      own,
      decisionWords(direction, judgement[direction], names, policies),
    );
  }) as [ExplainedSide, ExplainedSide];
  const isolating = new Set([egress, ingress].flatMap(({ policy, policies: all = [] }) => [policy, ...all]));
  const parsed = policies.filter((policy) => isolating.has(objectKey(policy))).map(parsePolicy);
  const allowed = judgement.allowed || isItself;
  return {
    allowed,
    wouldRefuse: allowed && [egress, ingress].some(({ verdict }) => verdict === 'would-refuse'),
    from: endOf(source),
    to: endOf(destination),
    protocol,
    port,
    fromOwnNode,
    egress,
    ingress,
    problems: parsed.flatMap(({ problems }) => problems),
    warnings: parsed.flatMap(({ key, namespace, warnings }) => {
      const place = namespaces.find(({ metadata }) => metadata.name === namespace);
      const misread = place && misreadMonitor(place.metadata);
      return misread === undefined ? warnings : [...warnings, namespaceWarning(key, misread)];
    }),
  };
}

function sideOf(direction: Direction, decision: Decision, own: Party, words: string): ExplainedSide {
  if (isRefusal(decision)) {
    const { verdict, policies, nearest } = decision;
    if (nearest === undefined) return { direction, verdict, policies, words };
    const { policy, peer, port, fits } = nearest;
    return {
      direction,
      verdict,
      policies,
      policy,
      field: ruleField(direction, nearest),
      fits,
      ...(peer !== undefined && { peer }),
      ...(port !== undefined && { port }),
      words,
    };
  }
  const { verdict } = decision;
  switch (verdict) {
    case 'not isolated':
      return {
        direction,
        verdict,
        words:
          own.pod === undefined
            ? `${own.address.text} does not belong to a pod, so no policy selects it.`
            : words,
      };
    case 'own node':
      return { direction, verdict, words };
    case 'allowed':
      return {
        direction,
        verdict,
        policy: decision.policy,
        field: ruleField(direction, decision),
        ...(decision.peer !== undefined && { peer: decision.peer }),
        ...(decision.port !== undefined && { port: decision.port }),
        words,
      };
  }
}

/** The number of a port. A name is looked up on the destination, as for a Service; undefined if the destination has no such port. */
function portNumber({ port, protocol }: Question, { pod }: Party): number | undefined {
  if (typeof port !== 'string') return port;
  const ports = (pod?.spec?.containers ?? []).flatMap(({ ports: own }) => own ?? []);
  const found = ports.find(({ name, protocol: of }) => name === port && (of ?? 'TCP') === protocol);
  if (found !== undefined) return found.containerPort;
  throw new RampartError(errorCodes.INPUT, {
    what: `no port ${JSON.stringify(port)}`,
    why:
      pod === undefined
        ? 'the destination is not a pod'
        : `${objectKey(pod)} has no port of that name for ${protocol}`,
    next: 'Give the port number',
  });
}

/** Whether the source is the destination's node: its address, or a pod in the network of that node. */
function isFromOwnNode(
  pods: readonly ExplainedPod[],
  { from }: Question,
  source: Party,
  destination: Party,
): boolean {
  const target = destination.pod as ExplainedPod | undefined;
  if (target === undefined || source.pod !== undefined) return false;
  const { hostIP, hostIPs } = target.status ?? {};
  const own = [hostIP, ...(hostIPs ?? []).map(({ ip }) => ip)];
  if (own.some((text) => parseAddress(text ?? '')?.text === source.address.text)) return true;
  const named = pods.find((pod) => objectKey(pod) === from);
  return named?.spec?.nodeName !== undefined && named.spec.nodeName === target.spec?.nodeName;
}

function nameOf({ address, pod }: Party): string {
  return pod === undefined ? address.text : objectKey(pod);
}

function endOf({ address, pod }: Party): ExplainedEnd {
  return {
    address: address.text,
    pod: pod === undefined ? undefined : objectKey(pod),
    node: pod?.spec?.nodeName ?? undefined,
  };
}
