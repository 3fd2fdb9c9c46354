/**
 * Ends connections that are no longer allowed, after the rules have changed (`--network-policy-established cut`).
 */
import { networkInterfaces } from 'node:os';

import { Conntrack, type TrackedFlow } from '../conntrack/conntrack.ts';
import { seenFlow } from '../conntrack/flow.ts';
import { Nftables } from '../../dataplane/nftables/nftables.ts';
import type { Logger } from '../../../../lib/telemetry/log.ts';
import { LoopSlice } from '../../../../lib/time/loop-slice.ts';
import { parseAddress } from '../../engine/addresses.ts';
import { type Address, directions, isEnforced, type NodeRules } from '../../engine/rules.ts';
import { protocolNumbers } from '../../dataplane/kernel-packet.ts';
import { flowsAllowedBy } from './allowed-flow.ts';
import { refuseFlows, removeIdleCutTable } from './cut-table.ts';
import { messageOf } from '../../../../lib/errors/errors.ts';

export interface CutterOptions {
  readonly logger: Logger;
  readonly signal: AbortSignal;
  /** Called with the number of ended flows. */
  readonly onCut: (flows: number) => void;
  /** Runs code that opens sockets and reads addresses in the node's network namespace. Default: that of the calling thread. */
  readonly inNetwork?: <T>(work: () => T) => T;
}

/** Reading 100,000 flows takes some hundred milliseconds: timers and sockets get their turn in between. */
const SLICE_MS = 4;

/** One check at a time; changes that arrive meanwhile are checked after it. */
export class Cutter implements Disposable {
  readonly #options: CutterOptions;
  readonly #slice = new LoopSlice(SLICE_MS);
  readonly #nft: Nftables | undefined;
  /** Rules that have yet to be checked. */
  #rules: NodeRules | undefined;
  /** The rules that are in the kernel. */
  #programmed: NodeRules | undefined;
  /** TCP connections whose ends are being notified, by the kernel's key for them. */
  #reporting = new Set<string>();
  /** Connections whose ends have been notified, to be removed from conntrack at the next check. */
  #reported: ReadonlySet<string> = new Set();
  #running: Promise<void> | undefined;

  constructor(options: CutterOptions) {
    this.#options = options;
    try {
      this.#nft = this.#inNetwork(() => new Nftables());
    } catch (error) {
      options.logger.warn(`a server may resume a connection that was cut: ${messageOf(error)}`);
    }
  }

  /** Called when the kernel has these rules: ends the connections that they do not allow. */
  programmed(rules: NodeRules): void {
    this.#programmed = rules;
    this.#look(rules);
  }

  #look(rules: NodeRules): void {
    this.#rules = rules;
    this.#running ??= this.#run().finally(() => (this.#running = undefined));
  }

  /** Resolves when nothing is left to check. */
  async settled(): Promise<void> {
    await this.#running;
  }

  /** Once a minute: forgets connections whose ends have been notified, and removes what is no longer needed. */
  tidy(): void {
    try {
      if (this.#reporting.size > 0 && this.#programmed !== undefined) {
        this.#reported = this.#reporting;
        this.#look(this.#programmed);
        return;
      }
      if (this.#nft !== undefined) removeIdleCutTable(this.#nft);
    } catch (error) {
      this.#options.logger.warn({ err: error }, 'cannot remove the rules that cut connections; retrying');
    }
  }

  async #run(): Promise<void> {
    const { signal, logger } = this.#options;
    while (this.#rules !== undefined && !signal.aborted) {
      const rules = this.#rules;
      this.#rules = undefined;
      try {
        const isNeeded = [...rules.pods.values()].some((pod) =>
          directions.some((direction) => isEnforced(pod, direction)),
        );
        if (isNeeded) await this.#cut(rules);
      } catch (error) {
        logger.error(
          { err: error },
          'cannot cut connections that are no longer allowed; retrying with the next change',
        );
      }
    }
  }

  async #cut(rules: NodeRules): Promise<void> {
    const { signal, logger, onCut } = this.#options;
    const own = this.#inNetwork(ownAddresses);
    using conntrack = this.#inNetwork(() => new Conntrack());
    const isAllowed = flowsAllowedBy(rules, (address) => own.has(address));
    const refused: TrackedFlow[] = [];
    for await (const flows of conntrack.flows()) {
      refused.push(...flows.filter((flow) => !flow.isOver && !isAllowed(flow)));
      if (this.#slice.over) await this.#slice.next();
      if (signal.aborted) return;
    }
    const reporting = this.#notify(refused.filter(({ protocol }) => protocol === protocolNumbers.TCP));
    let cut = 0;
    for (const flow of refused) {
      const name = nameOf(flow);
      const isNew = !this.#reporting.has(name);
      // conntrack has to know the connection until its ends have been notified: otherwise the rules would drop the notification.
      const isOver = this.#reported.has(name) || !reporting.has(name);
      if (isOver && !conntrack.delete(flow)) continue;
      if (isOver) reporting.delete(name);
      if (isNew) cut++;
      if (this.#slice.over) await this.#slice.next();
    }
    this.#reported = new Set();
    this.#reporting = reporting;
    if (cut === 0) return;
    onCut(cut);
    logger.info({ flows: cut }, 'cut connections that are no longer allowed');
  }

  /** @returns the names of the flows whose ends are notified; all others can only be removed from conntrack */
  #notify(flows: readonly TrackedFlow[]): Set<string> {
    if (flows.length === 0 || this.#nft === undefined) return new Set();
    try {
      refuseFlows(this.#nft, flows.map(seenFlow));
      return new Set(flows.map(nameOf));
    } catch (error) {
      this.#options.logger.warn(
        { err: error },
        'cannot reset connections that are no longer allowed; they are removed from conntrack, and a server may resume one',
      );
      return new Set();
    }
  }

  #inNetwork<T>(work: () => T): T {
    const { inNetwork = (run) => run() } = this.#options;
    return inNetwork(work);
  }

  [Symbol.dispose](): void {
    this.#nft?.[Symbol.dispose]();
  }
}

function nameOf({ handle }: TrackedFlow): string {
  return handle.toString('latin1');
}

function ownAddresses(): Set<Address> {
  const all = Object.values(networkInterfaces()).flatMap((addresses = []) => addresses);
  // Node.js appends the interface to a link-local address, after a `%`.
  return new Set(all.flatMap(({ address }) => parseAddress(address.split('%')[0] ?? '')?.text ?? []));
}
