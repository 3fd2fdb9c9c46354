/** Network policies with nftables: one table of ours, changed by transactions. */
import { libnftables } from '../../../../lib/ebpf/ffi.ts';
import { KeptNamespace } from '../namespace.ts';
import { readCounters } from './named-counters.ts';
import { Nftables } from './nftables.ts';
import { NftablesChanges } from './nftables-changes.ts';
import { NETLINK_NETFILTER, NetlinkSocket } from '../../../../lib/netlink/socket.ts';
import { sleep, systemClock } from '../../../../lib/time/clock.ts';
import {
  type Address,
  type NodeRules,
  noRules,
  type PeersKey,
  type PodKey,
  policiesNaming,
  type RulesChange,
} from '../../engine/rules.ts';
import {
  type ChainOwner,
  type Dataplane,
  type DataplaneOptions,
  defaultDataplaneOptions,
  type Drift,
  type LoggedEnds,
  type Programmed,
  type Refused,
} from '../dataplane.ts';
import { parseLogPrefix } from '../log-prefix.ts';
import { compileBase, compileClass, tracking } from './compile.ts';
import { bareTableName, directions, parseCounterName, podName, tableName, unknownChain } from './names.ts';
import {
  type Command,
  commandsAnew,
  commandsBetween,
  objectKey,
  objectsOf,
  sameObject,
  type TableObject,
  type TableObjects,
} from './objects.ts';
import {
  classOwner,
  flat,
  mapObjects,
  nothing,
  type Owned,
  peersObjects,
  podObjects,
  podOwner,
  podsOf,
  policyObjects,
} from './owned-objects.ts';
import { elementChanges, type ElementChanges } from './peer-sets.ts';
import { type ClassChange, type PodClass, PodClasses } from './pod-classes.ts';
import { RefusedCommands, TableProgram } from './program.ts';
import { Refusals } from './refusals.ts';
import { isEnforcing, isRefusal, readTable } from './table.ts';

/**
 * Works in the current network namespace of the calling thread.
 *
 * @throws {RampartError} `UNSUPPORTED` without libnftables.
 */
export function openNftablesDataplane(options: Partial<DataplaneOptions> = {}): Dataplane {
  // Throws without the library, before anything is opened.
  libnftables();
  return new NftablesDataplane({ ...defaultDataplaneOptions, ...options });
}

/** The kernel's reports of changes; undefined if it does not report any. */
function openChanges(): NftablesChanges | undefined {
  try {
    return new NftablesChanges(bareTableName);
  } catch (error) {
    if (isRefusal(error)) return undefined;
    throw error;
  }
}

/** Interval between two reads of the kernel's notifications. */
const NOTICE_MS = 1000;

class NftablesDataplane implements Dataplane {
  readonly #namespace = new KeptNamespace();
  readonly #program = new TableProgram();
  readonly #changes = openChanges();
  readonly #options: DataplaneOptions;
  /** Our objects in the kernel, as of the last change. */
  #owned: Owned = new Map();
  #rules: NodeRules = noRules;
  readonly #refusals = new Refusals();
  /** Whether the kernel's state is unknown: before the first change, and when one was interrupted. */
  #isUnknown = true;
  /** The owner of each counter, keyed by the counter's name without the verdict, see parseCounterName. */
  readonly #countOwners = new Map<string, Omit<ChainOwner, 'verdict'>>();
  readonly #classes = new PodClasses();
  /** Computed for the first logged packet, and valid for these rules only. */
  #podAt: { readonly rules: NodeRules; readonly pods: ReadonlyMap<Address, PodKey> } | undefined;

  constructor(options: DataplaneOptions) {
    this.#options = options;
  }

  sync(rules: NodeRules, signal?: AbortSignal): Promise<Programmed> {
    return promised(() => this.#sync(rules), signal);
  }

  #sync(asked: NodeRules): Programmed {
    this.#isUnknown = true;
    this.#refusals.forget();
    for (;;) {
      const rules = this.#refusals.without(asked);
      try {
        return { ...this.#syncAll(rules), ...this.#refused(asked) };
      } catch (error) {
        // One rejected rule must not block all others. The rest is tried again, until no further rule is rejected.
        if (!(error instanceof RefusedCommands) || !this.#refusals.learn(error, rules)) throw error;
      }
    }
  }

  #refused(rules: NodeRules): Pick<Programmed, 'refused'> {
    const refused = this.#refusals.problems(rules);
    return refused.length === 0 ? {} : { refused };
  }

  #syncAll(rules: NodeRules): Programmed {
    const owned: Owned = new Map([['base', objectsOf(compileBase(rules, this.#options))]]);
    for (const key of rules.peers.keys()) owned.set(key, peersObjects(rules, key));
    for (const pod of rules.pods.keys()) owned.set(podOwner(pod), podObjects(rules, pod));
    this.#classes.clear();
    const classes = this.#classes.change([], rules.pods.values());
    for (const of of classes.come) owned.set(classOwner(of), this.#classObjects(of));
    for (const key of rules.policies.keys()) owned.set(key, policyObjects(rules, key));
    this.#changes?.follow();
    const programmed = this.#replace(this.#read(), flat(owned.values(), mapObjects(rules.pods)));
    this.#owned = owned;
    this.#rules = rules;
    classes.done();
    this.#countOwners.clear();
    for (const pod of [undefined, ...rules.pods.keys()]) this.#remember(pod);
    this.#isUnknown = false;
    return programmed;
  }

  /** Applies the difference from the kernel's state; if the kernel refuses it, creates the whole table again. */
  #replace(actual: TableObjects | undefined, wanted: TableObjects): Programmed {
    let reason = 'a chain or set of ours has the wrong type';
    const commands = actual === undefined ? commandsAnew(wanted) : commandsBetween(actual, wanted);
    if (commands !== undefined) {
      try {
        this.#run(commands);
        return { commands: commands.length };
      } catch (error) {
        if (actual === undefined || !isRefusal(error)) throw error;
        reason = error.message;
      }
    }
    const anew = commandsAnew(wanted);
    this.#run(anew);
    return { commands: anew.length, replacedBecause: reason };
  }

  apply(rules: NodeRules, change: RulesChange, signal?: AbortSignal): Promise<Programmed> {
    return promised(() => this.#apply(rules, change), signal);
  }

  #apply(asked: NodeRules, change: RulesChange): Programmed {
    if (this.#isUnknown) return this.#sync(asked);
    this.#isUnknown = true;
    this.#refusals.forget(change);
    const rules = this.#refusals.without(asked);
    const { changed, elements, classes } = this.#plan(rules, change);
    const before = [...changed.keys()].map((owner) => this.#owned.get(owner) ?? nothing);
    const mapsOf = ({ pods }: NodeRules): TableObjects =>
      change.pods.size === 0 ? nothing : mapObjects(pods, change.pods);
    const commands = commandsBetween(
      flat([...before, objectsOf(elements.flatMap(({ gone }) => gone))], mapsOf(this.#rules)),
      flat([...changed.values(), objectsOf(elements.flatMap(({ come }) => come))], mapsOf(rules)),
    );
    try {
      if (commands === undefined) return this.#sync(asked);
      this.#run(commands);
    } catch (error) {
      // Another program has changed our objects, or a rule is rejected.
      if (!isRefusal(error)) throw error;
      return { replacedBecause: error.message, ...this.#sync(asked) };
    }
    for (const { done } of [...elements, classes]) done();
    for (const [owner, objects] of changed) {
      if (objects.size === 0) this.#owned.delete(owner);
      else this.#owned.set(owner, objects);
    }
    this.#rules = rules;
    for (const pod of change.pods) {
      if (rules.pods.has(pod)) this.#remember(pod);
      else for (const direction of directions) this.#countOwners.delete(podName(direction, pod));
    }
    this.#isUnknown = false;
    return { commands: commands.length, ...this.#refused(asked) };
  }

  /** Objects that are replaced as a whole, and changed elements of sets that stay. */
  #plan(
    rules: NodeRules,
    change: RulesChange,
  ): {
    readonly changed: Owned;
    readonly elements: readonly ElementChanges[];
    readonly classes: ClassChange;
  } {
    const changed: Owned = new Map();
    if (change.podCidrs) changed.set('base', objectsOf(compileBase(rules, this.#options)));
    for (const pod of change.pods) changed.set(podOwner(pod), podObjects(rules, pod));
    const classes = this.#classes.change(
      podsOf(this.#rules.pods, change.pods),
      podsOf(rules.pods, change.pods),
    );
    for (const of of classes.come) changed.set(classOwner(of), this.#classObjects(of));
    for (const of of classes.gone) changed.set(classOwner(of), nothing);
    const elements: ElementChanges[] = [];
    const reshaped = new Set<PeersKey>();
    for (const [key, peersChange] of change.peers) {
      const stays = this.#rules.peers.has(key) && rules.peers.has(key);
      const sets = this.#owned.get(key) ?? nothing;
      const edits = stays && peersChange ? elementChanges(sets, peersChange) : undefined;
      if (edits !== undefined) elements.push(edits);
      else {
        changed.set(key, peersObjects(rules, key));
        reshaped.add(key);
      }
    }
    // Policies with these peers change too: their rules name the sets, some of which are new or gone.
    for (const key of change.policies.union(new Set(policiesNaming(reshaped, rules)))) {
      changed.set(key, policyObjects(rules, key));
    }
    return { changed, elements, classes };
  }

  isEnforcing(signal?: AbortSignal): Promise<boolean> {
    return promised(() => this.#reading(isEnforcing), signal);
  }

  idle(signal?: AbortSignal): Promise<void> {
    return promised(() => {
      this.#forget();
      this.#replace(this.#read(), objectsOf([tracking]));
    }, signal);
  }

  verify(signal?: AbortSignal): Promise<readonly Drift[]> {
    return promised(() => {
      this.#changes?.follow();
      const wanted = flat(this.#owned.values(), mapObjects(this.#rules.pods));
      const actual = this.#read() ?? new Map<string, TableObject>();
      const drift: Drift[] = [];
      for (const [key, object] of wanted) {
        const found = actual.get(key);
        if (found === undefined) drift.push({ what: this.#describe(object), how: 'missing' });
        else if (!sameObject(found, object)) drift.push({ what: this.#describe(object), how: 'changed' });
      }
      for (const [key, object] of actual) {
        if (!wanted.has(key)) drift.push({ what: this.#describe(object), how: 'added' });
      }
      return drift;
    }, signal);
  }

  isUndisturbed(): boolean {
    return !this.#isUnknown && this.#changes?.isFollowed() === true;
  }

  async disturbed(signal: AbortSignal): Promise<boolean> {
    while (!signal.aborted) {
      if (this.#changes?.take() === true) return true;
      await sleep(systemClock, this.#changes === undefined ? 60 * NOTICE_MS : NOTICE_MS, signal).catch(
        () => undefined,
      );
    }
    return false;
  }

  counters(signal?: AbortSignal): Promise<readonly Refused[]> {
    return promised(() => {
      using socket = this.#namespace.run(() => new NetlinkSocket({ protocol: NETLINK_NETFILTER }));
      const counts = readCounters(socket, 'inet', bareTableName);
      return [...counts].flatMap(([name, count]) => {
        const { chain, verdict } = parseCounterName(name);
        const owner = this.#countOwners.get(chain);
        return owner === undefined ? [] : [{ ...owner, verdict, ...count }];
      });
    }, signal);
  }

  remove(signal?: AbortSignal): Promise<readonly string[]> {
    return promised(() => {
      const there = this.#read();
      this.#forget();
      if (there === undefined) return [];
      this.#run([{ do: 'delete table' }]);
      return [`table ${tableName}`, ...[...there.keys()].map((key) => `${key} in it`)];
    }, signal);
  }

  #forget(): void {
    this.#isUnknown = true;
    this.#owned.clear();
    this.#classes.clear();
    this.#rules = noRules;
  }

  ownerOfLog(prefix: string, packet: LoggedEnds): ChainOwner | undefined {
    const logged = parseLogPrefix(prefix);
    if (logged === undefined) return undefined;
    const { verdict, words } = logged;
    const chain = words[0] ?? '';
    for (const direction of directions) {
      if (chain === unknownChain(direction)) return { pod: undefined, direction, verdict };
    }
    const direction = this.#classes.get(chain)?.direction;
    if (direction === undefined) return undefined;
    const pod = this.#podsByAddress().get(direction === 'egress' ? packet.source : packet.destination);
    return pod === undefined ? undefined : { pod, direction, verdict };
  }

  #podsByAddress(): ReadonlyMap<Address, PodKey> {
    if (this.#podAt?.rules !== this.#rules) {
      const pods = new Map<Address, PodKey>();
      // As in the maps: of two pods with the same address, the isolated one has it.
      for (const pod of this.#rules.pods.values()) {
        const isIsolated = directions.some((direction) => pod[direction] !== undefined);
        if (isIsolated)
          for (const address of [...pod.addresses[4], ...pod.addresses[6]]) pods.set(address, pod.pod);
      }
      this.#podAt = { rules: this.#rules, pods };
    }
    return this.#podAt.pods;
  }

  [Symbol.dispose](): void {
    this.#namespace[Symbol.dispose]();
    this.#program[Symbol.dispose]();
    this.#changes?.[Symbol.dispose]();
  }

  #classObjects(of: PodClass): TableObjects {
    return objectsOf(compileClass(of, this.#options));
  }

  #remember(pod: PodKey | undefined): void {
    for (const direction of directions) {
      const name = pod === undefined ? unknownChain(direction) : podName(direction, pod);
      this.#countOwners.set(name, { pod, direction });
    }
  }

  #describe(object: TableObject): string {
    const pod = this.#countOwners.get(object.name)?.pod;
    const comment = pod ?? (object.kind === 'chain' ? object.comment : undefined);
    return comment === undefined ? objectKey(object) : `${objectKey(object)} (${comment})`;
  }

  #read(): TableObjects | undefined {
    return this.#reading(readTable);
  }

  /** Runs `work` with a context of its own: libnftables keeps all elements that it has read for as long as a context is open. */
  #reading<T>(work: (nft: Nftables) => T): T {
    using nft = this.#namespace.run(() => new Nftables());
    return work(nft);
  }

  #run(commands: readonly Command[]): void {
    const run = (): void => this.#program.run(commands);
    if (this.#changes === undefined) run();
    else this.#changes.own(run);
  }
}

/** libnftables is synchronous, but the interface is not: the iptables dataplane waits for programs. */
async function promised<T>(work: () => T, signal: AbortSignal | undefined): Promise<T> {
  signal?.throwIfAborted();
  return work();
}
