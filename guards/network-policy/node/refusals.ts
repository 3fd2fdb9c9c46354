/** Reports refusals: each packet that the rules log becomes a line, and sometimes an event on its pod. */
import type { NodeContext } from '../../../guard/context.ts';
import { FindingLimiter } from '../../../guard/stream/finding-limiter.ts';
import { referenceTo } from '../../../lib/kube/events/event-object.ts';
import type { EventRecorder } from '../../../lib/kube/events/event-recorder.ts';
import { pods } from '../../../lib/kube/object/object.ts';
import { type IpPacket, parseIpPacket } from './ip-packet.ts';
import { type LoggedPacket, type Nflog, openNflog } from './nflog.ts';
import { messageOf } from '../../../lib/errors/errors.ts';
import { type Clock, systemClock } from '../../../lib/time/clock.ts';
import { addressText } from '../engine/addresses.ts';
import type { PolicyEngine } from '../engine/engine.ts';
import type { PolicyMode } from '../engine/monitor.ts';
import type { Address, PodKey } from '../engine/rules.ts';
import { isRefusal } from '../judge/judge.ts';
import { decisionWords, ruleField } from '../judge/words.ts';
import { lineEnd, portText } from '../line-ends.ts';
import { type Refusal, refusalLine } from '../refusal-line.ts';
import type { ChainOwner, Dataplane } from '../dataplane/dataplane.ts';
import { protocolName } from '../dataplane/kernel-packet.ts';
import type { NodeCounts } from './metrics.ts';
import { type DecidingObjects, packetDecision } from './packet-decision.ts';
import type { SourceCheck } from './sources/source-check.ts';
import type { Sender } from './sources/source-table.ts';

export interface RefusalsOptions {
  readonly context: Pick<NodeContext, 'nodeName' | 'logger' | 'sink'>;
  readonly recorder: Pick<EventRecorder, 'record'>;
  readonly dataplane: Pick<Dataplane, 'ownerOfLog'>;
  readonly sources: Pick<SourceCheck, 'ownerOfLog'>;
  readonly engine: PolicyEngine;
  readonly objects: DecidingObjects;
  readonly counts: NodeCounts;
  /** Mode of the node. Default: `enforce`. */
  readonly mode?: PolicyMode | undefined;
  /** The NFLOG group that the dataplane logs to. */
  readonly group: number;
  /** Runs code that opens the group in the node's network namespace. Default: that of the calling thread. */
  readonly inNetwork?: <T>(work: () => T) => T;
  readonly clock?: Clock;
}

const LOST_MS = 60_000;

const eventKinds = {
  refused: { type: 'Warning', reason: 'Refused' },
  'would-refuse': { type: 'Normal', reason: 'WouldRefuse' },
} as const;

/** Starts with {@link open}, which is called again if it failed. Dispose it to release the group. */
export class Refusals implements Disposable {
  readonly #options: RefusalsOptions;
  readonly #clock: Clock;
  /** At most one Event a minute for each pod and verdict. */
  readonly #events: FindingLimiter;
  #log: Nflog | undefined;
  #problem: string | undefined;
  #lostReportedMs = -Infinity;
  #lostUnreported = 0;

  constructor(options: RefusalsOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#events = new FindingLimiter({ limit: 1, clock: this.#clock });
  }

  /** Takes the group unless it is held already. If another program has the group, this is reported once; verdicts do not change. */
  open(): void {
    if (this.#log?.isOpen === true) return;
    const { group, inNetwork = (run) => run(), context } = this.#options;
    try {
      this.#log = inNetwork(() =>
        openNflog({
          group,
          onPacket: (packet) => this.#packet(packet),
          onLost: (packets) => this.#lost(packets),
          onError: (error) => context.logger.error({ err: error }, 'cannot report a refused packet'),
        }),
      );
      if (this.#problem !== undefined) context.logger.info('reporting refused packets again');
      this.#problem = undefined;
    } catch (error) {
      const problem = messageOf(error);
      if (problem !== this.#problem)
        context.logger.warn(`refused packets are counted but not reported: ${problem}; retrying`);
      this.#problem = problem;
    }
  }

  /** Why refused packets are not reported; undefined if they are, or if there was nothing to report yet. */
  get problem(): string | undefined {
    return this.#problem;
  }

  #packet({ prefix, payload }: LoggedPacket): void {
    const packet = parseIpPacket(payload);
    if (packet === undefined) return;
    const sender = this.#options.sources.ownerOfLog(prefix);
    const { from: source, to: destination } = endsOf(packet);
    const owner =
      sender === undefined ? this.#options.dataplane.ownerOfLog(prefix, { source, destination }) : undefined;
    if (sender !== undefined) {
      const forged = this.#forged(sender, packet);
      this.#notify(forged);
      this.#event(sender.pod, forged, `It sent as ${forged.source.address}, which is not its address`);
    } else if (owner !== undefined) {
      const refusal = this.#refusal(owner, packet);
      this.#notify(refusal);
      if (owner.pod !== undefined) this.#event(owner.pod, refusal, eventNote(owner.pod, refusal));
    }
  }

  #notify(refusal: Refusal): void {
    this.#options.counts.refusalsReported++;
    this.#options.context.sink(
      refusalLine(refusal, { nodeName: this.#options.context.nodeName, timeMs: this.#clock.wallMs() }),
    );
  }

  /** The report of a packet that a pod sent with a source address other than its own. */
  #forged({ pod: sender, verdict }: Sender, packet: IpPacket): Refusal {
    const { engine } = this.#options;
    const { from, to, protocol } = endsOf(packet);
    const owner = engine.podAt(from);
    const whose = owner === undefined ? 'which is not its address' : `which is the address of ${owner}`;
    const isOwn = engine.rules.pods.get(sender)?.addresses[packet.family].includes(from) === true;
    return {
      ...{ verdict, direction: 'egress', protocol, policies: [] },
      source: lineEnd(from, sender, packet.sourcePort),
      destination: lineEnd(to, engine.podAt(to), packet.destinationPort),
      reason: isOwn
        ? `${sender} sent this with another MAC address or a VLAN tag, as a router of its link, or into a tunnel of its node.`
        : `${sender} sent this as ${from}, ${whose}.`,
    };
  }

  #refusal({ pod, direction, verdict }: ChainOwner, packet: IpPacket): Refusal {
    const { engine, objects } = this.#options;
    const { from, to, protocol } = endsOf(packet);
    // The pod that the rule belongs to, even if another pod has its address by now.
    const [source, destination] = [
      direction === 'egress' ? (pod ?? engine.podAt(from)) : engine.podAt(from),
      direction === 'ingress' ? (pod ?? engine.podAt(to)) : engine.podAt(to),
    ];
    const isolating = (pod === undefined ? undefined : engine.rules.pods.get(pod)?.[direction]) ?? [];
    const { decision: decided, policies } = packetDecision(objects, {
      ...{ direction, isolating, pods: [source, destination] },
      packet: { from, to, family: packet.family, protocol, port: packet.destinationPort },
    });
    // The verdict is the kernel's: the mode of the node and the annotations at that time have decided it.
    const monitoringNode = this.#options.mode === 'monitor' ? this.#options.context.nodeName : undefined;
    const decision =
      decided !== undefined && isRefusal(decided)
        ? { ...decided, verdict, ...(monitoringNode !== undefined && { monitoringNode }) }
        : undefined;
    const nearest = decision?.nearest;
    const names = { [from]: source ?? from, [to]: destination ?? to };
    const [own, peer] = direction === 'ingress' ? [to, from] : [from, to];
    const port = packet.destinationPort === undefined ? protocol : `${packet.destinationPort}/${protocol}`;
    return {
      verdict,
      direction,
      protocol,
      source: lineEnd(from, source, packet.sourcePort),
      destination: lineEnd(to, destination, packet.destinationPort),
      policies: isolating,
      ...(nearest && {
        nearest: { policy: nearest.policy, field: ruleField(direction, nearest), fits: nearest.fits },
      }),
      reason:
        pod === undefined
          ? `${own} belongs to no known pod, and such addresses ${verdict === 'refused' ? 'are' : 'would be'} refused (--network-policy-default deny).`
          : decision === undefined
            ? 'The policies that did not allow it have changed since.'
            : decisionWords(direction, decision, { own: names[own]!, peer: names[peer]!, port }, policies),
    };
  }

  #event(key: PodKey, { verdict }: Refusal, note: string): void {
    const pod = this.#options.objects.pods.get(key);
    if (pod === undefined || this.#events.take(`${verdict} ${key}`) === undefined) return;
    this.#options.recorder.record({
      regarding: referenceTo(pods, pod),
      ...eventKinds[verdict],
      action: 'Filter',
      note,
    });
  }

  #lost(packets: number): void {
    this.#options.counts.refusalsLost += packets;
    this.#lostUnreported += packets;
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - this.#lostReportedMs < LOST_MS) return;
    this.#options.context.logger.warn(
      { packets: this.#lostUnreported },
      'refused packets arrived too fast to report each one; all are counted',
    );
    this.#lostReportedMs = nowMs;
    this.#lostUnreported = 0;
  }

  [Symbol.dispose](): void {
    this.#log?.[Symbol.dispose]();
    this.#log = undefined;
  }
}

/** The note is read by users of the pod's namespace, who need not know the pods of other namespaces: those are given by address only. */
function eventNote(key: PodKey, refusal: Refusal): string {
  const { verdict, direction, source, destination, policies } = refusal;
  const peer = direction === 'ingress' ? source : destination;
  const isSame = peer.namespace === key.split('/')[0];
  const shown = peer.pod !== undefined && isSame ? `${peer.pod} (${peer.address})` : peer.address;
  const port = portText(refusal);
  const names = policies.map((policy) => policy.split('/')[1] ?? '').join(', ');
  const by = `isolated by NetworkPolicy ${names}`;
  if (verdict === 'would-refuse') {
    return direction === 'ingress'
      ? `${shown} would be refused at port ${port}: ${by}, in monitor mode`
      : `This pod would be refused at ${shown} port ${port}: ${by}, in monitor mode`;
  }
  return direction === 'ingress'
    ? `${shown} may not connect to port ${port}: ${by}`
    : `This pod may not connect to ${shown} port ${port}: ${by}`;
}

function endsOf({ family, source, destination, protocol }: IpPacket): {
  readonly from: Address;
  readonly to: Address;
  readonly protocol: string;
} {
  return {
    from: addressText(family, source),
    to: addressText(family, destination),
    protocol: protocolName(protocol),
  };
}
