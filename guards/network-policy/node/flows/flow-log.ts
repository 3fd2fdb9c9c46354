/**
 * Logs connections that are allowed (`--network-flow-log`): each new one with an end at a pod of this node, up to
 * a limit per second. The others are counted. Logging never delays a connection.
 */
import type { NodeContext } from '../../../../guard/context.ts';
import { messageOf } from '../../../../lib/errors/errors.ts';
import { type Clock, systemClock } from '../../../../lib/time/clock.ts';
import { addressText } from '../../engine/addresses.ts';
import type { PolicyEngine } from '../../engine/engine.ts';
import { type Direction, directions, type PodKey, type PolicyKey } from '../../engine/rules.ts';
import { flowLine, type NetworkFlow } from '../../flow-line.ts';
import { lineEnd } from '../../line-ends.ts';
import { type Flow, type SeenFlow, seenFlow } from '../conntrack/flow.ts';
import { NewFlows, type NewFlowsOptions, throwIfSwitchedOff } from '../conntrack/new-flows.ts';
import { hasPorts } from '../ip-packet.ts';
import { protocolName } from '../../dataplane/kernel-packet.ts';
import type { NodeCounts } from '../metrics.ts';
import { type DecidingObjects, packetDecision } from '../packet-decision.ts';
import { FairLimit } from './fair-limit.ts';

export interface FlowLogOptions extends Pick<NewFlowsOptions, 'receiveBytes'> {
  readonly context: Pick<NodeContext, 'nodeName' | 'logger' | 'sink'>;
  readonly engine: PolicyEngine;
  readonly objects: DecidingObjects;
  readonly counts: Pick<NodeCounts, 'flowsLogged' | 'flowsLost' | 'flowsNotLogged'>;
  readonly perSecond: number;
  /** Runs code that opens sockets in the node's network namespace. Default: that of the calling thread. */
  readonly inNetwork?: (<T>(work: () => T) => T) | undefined;
  readonly clock?: Clock;
}

const CHECK_MS = 60_000;

/** The ends of a connection that are pods, on any node. */
type Pods = Readonly<Record<Direction, PodKey | undefined>>;

/** Starts with {@link open}, which has to be called at intervals. Dispose it to stop. */
export class FlowLog implements Disposable {
  readonly #options: FlowLogOptions;
  readonly #clock: Clock;
  readonly #limit: FairLimit;
  #flows: NewFlows | undefined;
  #checkedMs = -Infinity;
  #problem: string | undefined;

  constructor(options: FlowLogOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#limit = new FairLimit({ perSecond: options.perSecond, clock: this.#clock });
  }

  /** Why connections are not logged. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** Begins to follow connections unless it does already. Checks at intervals whether the kernel still reports them. */
  open(): void {
    const nowMs = this.#clock.monotonicMs();
    const isOpen = this.#flows?.isOpen === true;
    if (isOpen && nowMs - this.#checkedMs < CHECK_MS) return;
    this.#checkedMs = nowMs;
    const { context, counts, receiveBytes, inNetwork = (work) => work() } = this.#options;
    try {
      if (isOpen) inNetwork(throwIfSwitchedOff);
      else {
        this.#flows = inNetwork(
          () =>
            new NewFlows({
              onFlow: (flow) => this.#flow(flow),
              onLost: (flows) => (counts.flowsLost += flows),
              onError: (error) => context.logger.error({ err: error }, 'cannot log a connection'),
              ...(receiveBytes !== undefined && { receiveBytes }),
            }),
        );
      }
      if (this.#problem !== undefined) context.logger.info('logging allowed connections again');
      this.#problem = undefined;
    } catch (error) {
      const problem = messageOf(error);
      if (problem !== this.#problem)
        context.logger.warn(`allowed connections are not logged: ${problem}; retrying`);
      this.#problem = problem;
    }
  }

  #flow(flow: Flow): void {
    const { engine, counts, context } = this.#options;
    const seen = seenFlow(flow);
    const pods: Pods = { ingress: engine.podAt(seen.to), egress: engine.podAt(seen.from) };
    const first = directions.find((direction) => this.#isLocal(pods[direction]));
    if (first === undefined) return;
    const folded = this.#limit.take(pods[first] ?? '');
    if (folded === undefined) {
      counts.flowsNotLogged++;
      return;
    }
    const { direction, policy } = this.#allowedBy(flow, seen, pods) ?? {
      direction: first,
      policy: undefined,
    };
    const line = flowLine(describe(flow, seen, pods, direction, folded), {
      ...{ policy, nodeName: context.nodeName, timeMs: this.#clock.wallMs() },
    });
    context.sink(line);
    counts.flowsLogged++;
  }

  #isLocal(pod: PodKey | undefined): boolean {
    return pod !== undefined && this.#options.engine.rules.pods.has(pod);
  }

  /**
   * The policy that allows the connection. Undefined if no policy isolates its pods, or if none allows it: the
   * policies may have changed, and a connection that belongs to another one passes because of that one.
   */
  #allowedBy(
    flow: Flow,
    { from, to, port }: SeenFlow,
    pods: Pods,
  ): { readonly direction: Direction; readonly policy: PolicyKey } | undefined {
    if (flow.isExpected) return undefined;
    const { engine, objects } = this.#options;
    const packet = {
      ...{ from, to, family: flow.family, protocol: protocolName(flow.protocol) },
      port: hasPorts(flow.protocol) ? port : undefined,
    };
    for (const direction of directions) {
      const isolating = engine.rules.pods.get(pods[direction] ?? '')?.[direction];
      if (isolating === undefined) continue;
      const { decision } = packetDecision(objects, {
        ...{ direction, isolating, pods: [pods.egress, pods.ingress], packet },
      });
      if (decision?.verdict === 'allowed') return { direction, policy: decision.policy };
    }
    return undefined;
  }

  [Symbol.dispose](): void {
    this.#flows?.[Symbol.dispose]();
    this.#flows = undefined;
  }
}

function describe(
  { family, protocol, original }: Flow,
  { from, fromPort, to, port }: SeenFlow,
  pods: Pods,
  direction: Direction,
  folded: number,
): NetworkFlow {
  const portOf = (number: number): number | undefined => (hasPorts(protocol) ? number : undefined);
  const target = addressText(family, original.destination);
  const isTranslated = target !== to || original.destinationPort !== port;
  return {
    direction,
    protocol: protocolName(protocol),
    source: lineEnd(from, pods.egress, portOf(fromPort)),
    destination: {
      ...lineEnd(to, pods.ingress, portOf(port)),
      ...(isTranslated && { translatedFrom: lineEnd(target, undefined, portOf(original.destinationPort)) }),
    },
    folded,
  };
}
