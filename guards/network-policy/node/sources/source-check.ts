/**
 * Checks that pods of this node send with their own addresses, and passes the link-local ones of their interfaces
 * to the engine. Needed as soon as there is a policy anywhere in the cluster: another node may allow packets that
 * a pod of this node sends with the address of another pod. A pod whose interface is unknown is not checked. If
 * this check fails, the policies stay in force.
 */
import { messageOf } from '../../../../lib/errors/errors.ts';
import { noTunnels } from '../../../../lib/netlink/tunnels.ts';
import type { Logger } from '../../../../lib/telemetry/log.ts';
import type { PolicyEngine } from '../../engine/engine.ts';
import type { PolicyMode } from '../../engine/monitor.ts';
import { type Address, directions, isEnforced, type LocalPod, type PodKey } from '../../engine/rules.ts';
import { InterfaceSearch } from './interface-search.ts';
import type { CheckedPod } from './source-rules.ts';
import { type ForgedSources, type Sender, SourceTable } from './source-table.ts';
import { TakenAddresses } from './taken-addresses.ts';

/**
 * A pod with this label may send with any address, if its Namespace has the label too: users who may create pods in a
 * namespace usually may not change the Namespace itself.
 */
export const anySourceLabel = 'rampart.dev/any-source';

export interface SourceCheckOptions {
  readonly engine: PolicyEngine;
  readonly logger: Logger;
  /** Whether the check is needed. */
  readonly isNeeded: () => boolean;
  readonly logGroups: readonly number[];
  /** `monitor`: nothing is refused; packets that would be are reported. Default: `enforce`. */
  readonly mode?: PolicyMode | undefined;
  /** Runs code in the node's network namespace. Default: that of the calling thread. */
  readonly inNetwork?: (<T>(work: () => T) => T) | undefined;
}

/** Dispose it after use: programmed rules stay. */
export class SourceCheck implements Disposable {
  readonly #options: SourceCheckOptions;
  readonly #inNetwork: <T>(work: () => T) => T;
  readonly #taken = new TakenAddresses();
  readonly #table: SourceTable;
  /** Undefined while it is not needed. */
  #search: InterfaceSearch | undefined;
  /** Pods for which the programmed checks may have to change. */
  readonly #touched = new Set<PodKey>();
  #nodeAddresses: readonly Address[] = [];
  #areLinksChanged = true;
  #isLeftoverRemoved = false;
  /** Keyed by what failed. */
  readonly #problems = new Map<'look' | 'program' | 'read', string>();
  readonly #unchecked = new Set<PodKey>();

  constructor(options: SourceCheckOptions) {
    this.#options = options;
    this.#inNetwork = options.inNetwork ?? ((work) => work());
    const verdict = options.mode === 'monitor' ? 'would-refuse' : 'refused';
    this.#table = new SourceTable(this.#inNetwork, options.logGroups, this.#taken, verdict);
  }

  get isProgrammed(): boolean {
    return this.#table.isProgrammed;
  }

  /** Why nothing is checked; undefined if the check works or is not needed. */
  get problem(): string | undefined {
    return this.#problems.values().next().value;
  }

  /** Pods of this node that may send with any address. */
  get unchecked(): ReadonlySet<PodKey> {
    return this.#unchecked;
  }

  /**
   * Looks for the interfaces of pods. Call it before the engine is asked for a change.
   *
   * @param all - Whether interfaces that were found are read again, too.
   */
  look(all: boolean): void {
    if (!this.#options.isNeeded()) return;
    const { engine } = this.#options;
    const { pods } = engine.rules;
    const isAll = all || this.#search === undefined;
    const changed = new Set([...engine.touchedPods, ...(isAll ? pods.keys() : [])]);
    for (const key of changed) this.#touched.add(key);
    this.#attempt('look', () => {
      this.#search ??= new InterfaceSearch({
        known: this.#table.adopted(pods.keys()),
        inNetwork: this.#inNetwork,
      });
      const found = isAll ? this.#search.searchAll(pods) : this.#search.search(pods, [...changed]);
      for (const key of found) changed.add(key);
      this.#areLinksChanged ||= found.size > 0;
    });
    for (const key of changed) {
      this.#touched.add(key);
      engine.setLinkLocal(key, pods.has(key) ? (this.#search?.linkOf(key)?.linkLocal ?? []) : []);
    }
  }

  /** Programs the checks that follow from the engine's rules. */
  program(): void {
    if (!this.#options.isNeeded()) return this.#removeAll();
    this.#isLeftoverRemoved = false;
    this.#attempt('program', () => {
      this.#takeAddresses();
      const changes = new Map<PodKey, CheckedPod | undefined>();
      for (const key of this.#touched) changes.set(key, this.#checked(key));
      if (changes.size > 0) this.#touched.clear();
      this.#table.program(changes);
    });
  }

  /** The check of a pod; undefined if the pod is gone, or may send with any address. */
  #checked(key: PodKey): CheckedPod | undefined {
    const pod = this.#options.engine.rules.pods.get(key);
    this.#unchecked.delete(key);
    if (pod === undefined) return undefined;
    const link = this.#search?.linkOf(key);
    if (link === undefined || this.#mayUseAny(key)) {
      this.#unchecked.add(key);
      return undefined;
    }
    const tunnels = this.#search?.tunnels ?? noTunnels;
    return { link, addresses: pod.addresses, tunnels, isIsolated: this.#isIsolated(pod) };
  }

  /** Checks whether another program has changed the table. Returns whether it is intact. */
  verify(): boolean {
    let isIntact = true;
    this.#attempt('read', () => (isIntact = this.#table.isIntact()));
    if (!isIntact) this.#table.forget();
    return isIntact;
  }

  counters(): readonly ForgedSources[] {
    let counts: readonly ForgedSources[] = [];
    if (this.isProgrammed) this.#attempt('read', () => (counts = this.#table.counters()));
    return counts;
  }

  /** The pod that sent a packet logged with this prefix; undefined if the prefix is not one of these rules'. */
  ownerOfLog(prefix: string): Sender | undefined {
    return this.#table.ownerOfLog(prefix);
  }

  #removeAll(): void {
    this.#unchecked.clear();
    this.#touched.clear();
    if (this.#isLeftoverRemoved) return;
    this.#attempt('program', () => {
      this.#table.remove();
      this.#isLeftoverRemoved = true;
    });
    this.#search?.[Symbol.dispose]();
    this.#search = undefined;
  }

  /**
   * Whether the pod is checked as an isolated one. Policies in monitor mode do not isolate it, since they refuse
   * nothing; but on a node in monitor mode all policies count, since everything is only reported there.
   */
  #isIsolated(pod: LocalPod): boolean {
    return this.#options.mode === 'monitor'
      ? directions.some((direction) => pod[direction] !== undefined)
      : directions.some((direction) => isEnforced(pod, direction));
  }

  #mayUseAny(key: PodKey): boolean {
    const labels = this.#options.engine.labelsOf(key);
    return labels?.pod[anySourceLabel] === 'true' && labels.namespace[anySourceLabel] === 'true';
  }

  #takeAddresses(): void {
    this.#taken.change(this.#options.engine.takeAddressChange());
    const nodeAddresses = this.#search?.nodeAddresses ?? [];
    if (!this.#areLinksChanged && nodeAddresses === this.#nodeAddresses) return;
    this.#taken.setOthers(new Set([...nodeAddresses, ...(this.#search?.linkLocal ?? [])]));
    this.#nodeAddresses = nodeAddresses;
    this.#areLinksChanged = false;
  }

  [Symbol.dispose](): void {
    this.#search?.[Symbol.dispose]();
    this.#table[Symbol.dispose]();
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
