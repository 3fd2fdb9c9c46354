/**
 * Checks that pods of this node send with their own addresses, and tells the engine the link-local ones of their interfaces.
 *
 * Needed as soon as there is a policy anywhere in the cluster: what a pod here sends as another one may be allowed on another node.
 * A pod whose interface is not known is not checked. What fails here leaves the policies in force.
 */
import { isIPv4 } from 'node:net';

import { messageOf } from '../../../../lib/errors/errors.ts';
import type { Logger } from '../../../../lib/telemetry/log.ts';
import { isLinkLocal } from '../../engine/addresses.ts';
import type { PolicyEngine } from '../../engine/engine.ts';
import type { Address, LocalPod, PodKey } from '../../engine/rules.ts';
import { type KnownInterface, matchInterfaces, type PodInterface } from './pod-interfaces.ts';
import { readNetwork } from './read-interfaces.ts';
import type { CheckedPod } from './source-rules.ts';
import { SourceTable } from './source-table.ts';

/**
 * A pod with this label may send with any address, if its Namespace has the label too: whoever may create pods in a namespace may usually not
 * change the Namespace itself.
 */
export const anySourceLabel = 'rampart.dev/any-source';

export interface SourceCheckOptions {
  readonly engine: PolicyEngine;
  readonly logger: Logger;
  /** Whether somebody depends on it. */
  readonly isNeeded: () => boolean;
  readonly logGroup: number;
  /** Runs code in the node's network namespace. Default: that of the calling thread. */
  readonly inNetwork?: (<T>(work: () => T) => T) | undefined;
}

export class SourceCheck {
  readonly #options: SourceCheckOptions;
  readonly #inNetwork: <T>(work: () => T) => T;
  readonly #table: SourceTable;
  /** Undefined: what an earlier process has left was not read yet. */
  #interfaces: ReadonlyMap<PodKey, KnownInterface | PodInterface> | undefined;
  #found: ReadonlyMap<PodKey, PodInterface> = new Map();
  #nodeAddresses: readonly Address[] = [];
  /** The sets that follow from these. */
  #taken: { readonly of: readonly unknown[]; readonly sets: Record<4 | 6, Set<Address>> } | undefined;
  #isLeftoverRemoved = false;
  /** By what failed. */
  readonly #problems = new Map<'look' | 'program' | 'read', string>();
  #unchecked: readonly PodKey[] = [];

  constructor(options: SourceCheckOptions) {
    this.#options = options;
    this.#inNetwork = options.inNetwork ?? ((work) => work());
    this.#table = new SourceTable(this.#inNetwork, options.logGroup);
  }

  get isProgrammed(): boolean {
    return this.#table.isProgrammed;
  }

  /** Why nothing is checked. */
  get problem(): string | undefined {
    return this.#problems.values().next().value;
  }

  /** Pods of this node that may send with any address. */
  get unchecked(): readonly PodKey[] {
    return this.#unchecked;
  }

  /**
   * Looks for the interfaces of pods: of those that have none yet, or of all. To be called before the engine is asked for a change.
   */
  look(all: boolean): void {
    if (!this.#options.isNeeded()) return;
    this.#attempt('look', () => {
      const { pods } = this.#options.engine.rules;
      this.#interfaces ??= this.#table.adopted(pods.keys());
      const isSettled =
        this.#found.size === pods.size && [...pods.keys()].every((pod) => this.#found.has(pod));
      if (isSettled && !all) return;
      const { interfaces, nodeAddresses } = this.#inNetwork(readNetwork);
      this.#nodeAddresses = nodeAddresses;
      const own = new Map([...pods].map(([key, pod]) => [key, addressesOf(pod)]));
      this.#found = this.#interfaces = matchInterfaces(own, interfaces, this.#interfaces);
    });
    const { engine } = this.#options;
    for (const pod of engine.rules.pods.keys())
      engine.setLinkLocal(pod, this.#found.get(pod)?.linkLocal ?? []);
  }

  /** Programs what follows from the rules of the engine. */
  program(): void {
    if (!this.#options.isNeeded()) return this.#removeAll();
    this.#isLeftoverRemoved = false;
    const { pods } = this.#options.engine.rules;
    const checked = new Map<PodKey, CheckedPod>();
    const unchecked: PodKey[] = [];
    for (const [key, { addresses, ingress, egress }] of pods) {
      const link = this.#found.get(key);
      if (link === undefined || this.#mayUseAny(key)) unchecked.push(key);
      else checked.set(key, { link, addresses, isIsolated: ingress !== undefined || egress !== undefined });
    }
    this.#unchecked = unchecked;
    this.#attempt('program', () => this.#table.program({ pods: checked, taken: this.#takenAddresses() }));
  }

  /** Looks whether somebody has changed the table. Whether it was as it should be. */
  verify(): boolean {
    let isIntact = true;
    this.#attempt('read', () => (isIntact = this.#table.isIntact()));
    if (!isIntact) this.#table.forget();
    return isIntact;
  }

  counters(): ReturnType<SourceTable['counters']> {
    let counts: ReturnType<SourceTable['counters']> = [];
    if (this.isProgrammed) this.#attempt('read', () => (counts = this.#table.counters()));
    return counts;
  }

  /** Which pod sent a packet that was logged with this prefix; undefined: it is not one of these. */
  podOfLog(prefix: string): PodKey | undefined {
    return this.#table.podOfLog(prefix);
  }

  #removeAll(): void {
    this.#unchecked = [];
    if (this.#isLeftoverRemoved) return;
    this.#attempt('program', () => {
      this.#table.remove();
      this.#isLeftoverRemoved = true;
    });
    this.#found = this.#interfaces = new Map();
  }

  #mayUseAny(key: PodKey): boolean {
    const labels = this.#options.engine.labelsOf(key);
    return labels?.pod[anySourceLabel] === 'true' && labels.namespace[anySourceLabel] === 'true';
  }

  #takenAddresses(): Record<4 | 6, Set<Address>> {
    const of = [this.#options.engine.podAddresses, this.#nodeAddresses, this.#found];
    if (this.#taken?.of.every((one, at) => one === of[at]) !== true) {
      const linkLocal = [...this.#found.values()].flatMap((each) => each.linkLocal);
      const all = [...this.#options.engine.podAddresses, ...this.#nodeAddresses, ...linkLocal];
      const sets = { 4: new Set(all.filter((a) => isIPv4(a))), 6: new Set(all.filter((a) => !isIPv4(a))) };
      this.#taken = { of, sets };
    }
    return this.#taken.sets;
  }

  #attempt(part: 'look' | 'program' | 'read', work: () => void): void {
    try {
      work();
      this.#problems.delete(part);
    } catch (error) {
      const problem = messageOf(error);
      if (problem !== this.#problems.get(part))
        this.#options.logger.warn(`the sources of packets from pods are not checked: ${problem}; retrying`);
      this.#problems.set(part, problem);
    }
  }
}

/** Those of its status: link-local ones were found at its interface. */
function addressesOf({ addresses }: LocalPod): Address[] {
  return [...addresses[4], ...addresses[6].filter((address) => !isLinkLocal(address))];
}
