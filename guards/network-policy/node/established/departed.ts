/** Forgets the connections of pods that are gone: a pod that gets the address of such a pod must not inherit what that pod was allowed. */
import { Conntrack, type TrackedFlow } from '../conntrack/conntrack.ts';
import type { Flow } from '../conntrack/flow.ts';
import { messageOf } from '../../../../lib/errors/errors.ts';
import type { Logger } from '../../../../lib/telemetry/log.ts';
import { Backoff } from '../../../../lib/time/backoff.ts';
import { type Clock, sleep, systemClock } from '../../../../lib/time/clock.ts';
import { LoopSlice } from '../../../../lib/time/loop-slice.ts';
import { addressValue } from '../../engine/addresses.ts';
import {
  type Address,
  type Family,
  type LocalPod,
  type NodeRules,
  noRules,
  type PodKey,
} from '../../engine/rules.ts';
import { flowsAllowedBy } from './allowed-flow.ts';

export interface DepartedOptions {
  readonly logger: Logger;
  readonly signal: AbortSignal;
  /** Called with the number of connections. */
  readonly onForgotten: (flows: number) => void;
  /** Runs code that opens sockets in the node's network namespace. Default: that of the calling thread. */
  readonly inNetwork?: <T>(work: () => T) => T;
  /** Default: that of the system. */
  readonly clock?: Clock;
}

/** Limit of the addresses that are kept while the kernel refuses to remove connections: more than a node has in use. */
const MAX_ADDRESSES = 4096;
const RETRY = { baseMs: 100, maxMs: 60_000 };
const SLICE_MS = 4;
/** Connections are read this long after a peer's address was left. */
const PEERS_MS = 1000;
/**
 * Reads for peers take at most this share of the time, while pods of other nodes keep leaving: the kernel walks its hash table with softirqs off
 * (net/netfilter/nf_conntrack_netlink.c, ctnetlink_dump_table), and nothing else runs on that CPU meanwhile, 14 to 20 ms for 262,144 buckets.
 */
const PEERS_SHARE = 1 / 500;
const MAX_PEERS_MS = 10_000;

/** Reads all connections once for all addresses that pods have left since the last read. */
export class Departed {
  readonly #options: DepartedOptions;
  readonly #slice = new LoopSlice(SLICE_MS);
  #rules: NodeRules = noRules;
  /** Addresses whose connections have yet to be removed. */
  #left = new Set<Address>();
  /** Addresses of pods on other nodes whose connections have yet to be removed. */
  #leftPeers = new Set<Address>();
  #pausing: AbortController | undefined;
  #problem: string | undefined;
  #running: Promise<void> | undefined;
  /** From when on connections may be read for peers. */
  #peersFromMs = -Infinity;
  readonly #clock: Clock;

  constructor(options: DepartedOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  /** Why connections of pods that are gone have not been removed. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /**
   * Called when the kernel has these rules, or when it needs none.
   *
   * @param changed - Pods that may have changed since the last call. Default: any pod.
   * @param gonePeers - Addresses that rules allowed and that no longer belong to a pod.
   */
  programmed(rules: NodeRules, changed?: ReadonlySet<PodKey>, gonePeers: readonly Address[] = []): void {
    const { pods } = this.#rules;
    this.#rules = rules;
    for (const key of changed ?? pods.keys()) {
      const [pod, now] = [pods.get(key), rules.pods.get(key)];
      if (pod === undefined || now === pod) continue;
      const kept = new Set(now === undefined ? [] : addressesOf(now));
      for (const address of addressesOf(pod)) if (!kept.has(address)) this.#left.add(address);
    }
    for (const address of gonePeers) this.#leftPeers.add(address);
    if (this.#left.size > 0) this.#pausing?.abort();
    if (this.#isLeft) this.#running ??= this.#run().finally(() => (this.#running = undefined));
  }

  /** Resolves when nothing is left to forget. */
  async settled(): Promise<void> {
    await this.#running;
  }

  get #isLeft(): boolean {
    return this.#left.size + this.#leftPeers.size > 0;
  }

  /** Waits only if all addresses are of peers: these may be all pods of a cluster, some of which are gone at any time. */
  async #pause(): Promise<void> {
    if (this.#left.size > 0) return;
    this.#pausing = new AbortController();
    const signal = AbortSignal.any([this.#options.signal, this.#pausing.signal]);
    const waitMs = Math.max(PEERS_MS, this.#peersFromMs - this.#clock.monotonicMs());
    await sleep(this.#clock, waitMs, signal).catch(() => undefined);
    this.#pausing = undefined;
  }

  async #run(): Promise<void> {
    const { signal, logger, onForgotten } = this.#options;
    const backoff = new Backoff(RETRY);
    while (this.#isLeft && !signal.aborted) {
      await this.#pause();
      const left = this.#left.union(this.#leftPeers);
      this.#left = new Set();
      this.#leftPeers = new Set();
      try {
        const beganMs = this.#clock.monotonicMs();
        const flows = await this.#forget(left);
        const endedMs = this.#clock.monotonicMs();
        this.#peersFromMs = endedMs + Math.min((endedMs - beganMs) / PEERS_SHARE, MAX_PEERS_MS);
        this.#problem = undefined;
        backoff.reset();
        if (flows === 0) continue;
        onForgotten(flows);
        logger.info({ flows, addresses: left.size }, 'forgot the connections of pods that are gone');
      } catch (error) {
        this.#left = new Set([...left, ...this.#left].slice(-MAX_ADDRESSES));
        const problem = messageOf(error);
        if (problem !== this.#problem) {
          logger.warn(`a pod may inherit the connections of one that is gone: ${problem}; retrying`);
        }
        this.#problem = problem;
        await sleep(this.#clock, backoff.nextMs(), signal).catch(() => undefined);
      }
    }
  }

  /** @returns the number of connections that were forgotten */
  async #forget(addresses: ReadonlySet<Address>): Promise<number> {
    const { signal, inNetwork = (run) => run() } = this.#options;
    using conntrack = inNetwork(() => new Conntrack());
    const values = valuesOf(addresses);
    const found: TrackedFlow[] = [];
    for await (const flows of conntrack.flows()) {
      found.push(...flows.filter((flow) => endsOf(flow).some((end) => values[flow.family].has(end))));
      if (this.#slice.over) await this.#slice.next();
      if (signal.aborted) return 0;
    }
    // Another pod may already have the address, and connections of its own that are allowed.
    const inUse = valuesOf([...this.#rules.pods.values()].flatMap(addressesOf));
    const isAllowed = flowsAllowedBy(this.#rules, () => false);
    let forgotten = 0;
    for (const flow of found) {
      const isOfNobody = endsOf(flow).some(
        (end) => values[flow.family].has(end) && !inUse[flow.family].has(end),
      );
      if ((isOfNobody || !isAllowed(flow)) && conntrack.delete(flow)) forgotten++;
      if (this.#slice.over) await this.#slice.next();
    }
    return forgotten;
  }
}

function addressesOf({ addresses }: LocalPod): readonly Address[] {
  return [...addresses[4], ...addresses[6]];
}

function valuesOf(addresses: Iterable<Address>): Readonly<Record<Family, ReadonlySet<bigint>>> {
  const of = (family: Family): Set<bigint> =>
    new Set([...addresses].filter((one) => one.includes(':') === (family === 6)).map(addressValue));
  return { 4: of(4), 6: of(6) };
}

function endsOf({ original, reply }: Flow): readonly bigint[] {
  return [original.source, original.destination, reply.source, reply.destination];
}
