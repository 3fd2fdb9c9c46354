/** Network policies with nftables: one table of ours, changed by transactions. */
import { libnftables } from '../../../../lib/ebpf/ffi.ts';
import { KeptNamespace } from '../namespace.ts';
import { readCounters } from './named-counters.ts';
import { Nftables } from './nftables.ts';
import { NftablesChanges } from './nftables-changes.ts';
import { NETLINK_NETFILTER, NetlinkSocket } from '../../../../lib/netlink/socket.ts';
import { sleep, systemClock } from '../../../../lib/time/clock.ts';
import {
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
  type Programmed,
  type Refused,
} from '../dataplane.ts';
import { parseLogPrefix } from '../log-prefix.ts';
import { compileBase, compilePod, compilePodSets, tracking } from './compile.ts';
import { bareTableName, directions, parseCounterName, podChain, tableName, unknownChain } from './names.ts';
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
import { elementChanges, type ElementChanges, peerSets } from './peer-sets.ts';
import { compilePolicy } from './policies.ts';
import { RefusedCommands, TableProgram } from './program.ts';
import { Refusals } from './refusals.ts';
import { isEnforcing, isRefusal, readTable } from './table.ts';

/**
 * What the objects belong to: `base`, `pod KEY`, or the key of a policy's rules or of peers, each with a prefix of its own. The maps
 * belong to all pods.
 */
type Owned = Map<string, TableObjects>;

/**
 * Works in the current network namespace of the calling thread.
 *
 * @throws {RampartError} `UNSUPPORTED` without libnftables.
 */
export function openNftablesDataplane(options: Partial<DataplaneOptions> = {}): Dataplane {
  // Before anything is opened.
  libnftables();
  return new NftablesDataplane({ ...defaultDataplaneOptions, ...options });
}

const trialTable = `${tableName}-trial`;

/**
 * Checks whether the kernel accepts rules like ours, in a table that the same transaction removes.
 *
 * @throws {RampartError} for what it rejected.
 */
export function tryNftables(): void {
  using nft = new Nftables();
  nft.run(`add table ${trialTable}
add set ${trialTable} peers { type ipv4_addr . inet_proto . inet_service; }
add map ${trialTable} pods { type ipv6_addr : verdict; }
add chain ${trialTable} in { type filter hook forward priority -9; policy accept; }
add rule ${trialTable} in ct state established,related accept
add rule ${trialTable} in ip6 daddr vmap @pods
add rule ${trialTable} in ip daddr . meta l4proto . th dport @peers accept
add rule ${trialTable} in fib saddr type local accept
add rule ${trialTable} in limit rate 10/minute burst 10 packets log prefix "trial" group 100
add rule ${trialTable} in meta l4proto 6 reject with tcp reset
add rule ${trialTable} in counter reject
delete table ${trialTable}`);
}

/** Undefined if the kernel does not report them. */
function openChanges(): NftablesChanges | undefined {
  try {
    return new NftablesChanges(bareTableName);
  } catch (error) {
    if (isRefusal(error)) return undefined;
    throw error;
  }
}

/** Between two reads of the kernel's notifications. */
const NOTICE_MS = 1000;

class NftablesDataplane implements Dataplane {
  readonly #namespace = new KeptNamespace();
  readonly #program = new TableProgram();
  readonly #changes = openChanges();
  readonly #options: DataplaneOptions;
  /** What the kernel has, as of the last change. */
  #owned: Owned = new Map();
  #rules: NodeRules = noRules;
  readonly #refusals = new Refusals();
  /** It is unknown what the kernel has: before the first change, and when one was interrupted. */
  #isUnknown = true;
  readonly #chainOwners = new Map<string, Omit<ChainOwner, 'verdict'>>(
    directions.map((direction) => [unknownChain(direction), { pod: undefined, direction }]),
  );

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
        // One rejected rule must not keep all others out. At some point there is nothing new.
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
    for (const pod of rules.pods.keys()) owned.set(podOwner(pod), this.#podObjects(rules, pod));
    for (const key of rules.policies.keys()) owned.set(key, policyObjects(rules, key));
    const programmed = this.#replace(this.#read(), flat(owned.values(), mapObjects(rules.pods)));
    this.#owned = owned;
    this.#rules = rules;
    this.#chainOwners.clear();
    for (const pod of [undefined, ...rules.pods.keys()]) this.#remember(pod);
    this.#isUnknown = false;
    return programmed;
  }

  /** The difference from what is there; if that is refused, everything anew. */
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
    const { changed, elements } = this.#plan(rules, change);
    const before = [...changed.keys()].map((owner) => this.#owned.get(owner) ?? nothing);
    const commands = commandsBetween(
      flat(
        [...before, objectsOf(elements.flatMap(({ gone }) => gone))],
        mapObjects(this.#rules.pods, change.pods),
      ),
      flat(
        [...changed.values(), objectsOf(elements.flatMap(({ come }) => come))],
        mapObjects(rules.pods, change.pods),
      ),
    );
    try {
      if (commands === undefined) return this.#sync(asked);
      this.#run(commands);
    } catch (error) {
      // Somebody has changed what is ours, or a rule is rejected.
      if (!isRefusal(error)) throw error;
      return { replacedBecause: error.message, ...this.#sync(asked) };
    }
    for (const { done } of elements) done();
    for (const [owner, objects] of changed) {
      if (objects.size === 0) this.#owned.delete(owner);
      else this.#owned.set(owner, objects);
    }
    this.#rules = rules;
    for (const pod of change.pods) {
      if (rules.pods.has(pod)) this.#remember(pod);
      else for (const direction of directions) this.#chainOwners.delete(podChain(direction, pod));
    }
    this.#isUnknown = false;
    return { commands: commands.length, ...this.#refused(asked) };
  }

  /** Objects that changed as a whole, and elements of sets that stay. */
  #plan(
    rules: NodeRules,
    change: RulesChange,
  ): { readonly changed: Owned; readonly elements: readonly ElementChanges[] } {
    const changed: Owned = new Map();
    if (change.podCidrs) changed.set('base', objectsOf(compileBase(rules, this.#options)));
    for (const pod of change.pods) changed.set(podOwner(pod), this.#podObjects(rules, pod));
    const elements: ElementChanges[] = [];
    const reshaped = new Set<PeersKey>();
    for (const [key, peersChange] of change.peers) {
      const [before, after] = [this.#rules.peers.get(key), rules.peers.get(key)];
      const sets = this.#owned.get(key) ?? nothing;
      const edits = before && after && peersChange && elementChanges(sets, [before, after], peersChange);
      if (edits !== undefined) elements.push(edits);
      else {
        changed.set(key, peersObjects(rules, key));
        reshaped.add(key);
      }
    }
    // Rules determine which sets are needed.
    for (const key of change.policies.union(new Set(policiesNaming(reshaped, rules)))) {
      changed.set(key, policyObjects(rules, key));
    }
    return { changed, elements };
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
        const owner = this.#chainOwners.get(chain);
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
    this.#rules = noRules;
  }

  whoseLog(prefix: string): ChainOwner | undefined {
    const logged = parseLogPrefix(prefix);
    const owner = this.#chainOwners.get(logged?.words[0] ?? '');
    return owner && logged && { ...owner, verdict: logged.verdict };
  }

  [Symbol.dispose](): void {
    this.#namespace[Symbol.dispose]();
    this.#program[Symbol.dispose]();
    this.#changes?.[Symbol.dispose]();
  }

  #podObjects(rules: NodeRules, key: PodKey): TableObjects {
    const pod = rules.pods.get(key);
    return objectsOf(pod === undefined ? [] : compilePod(pod, this.#options));
  }

  #remember(pod: PodKey | undefined): void {
    for (const direction of directions) {
      const chain = pod === undefined ? unknownChain(direction) : podChain(direction, pod);
      this.#chainOwners.set(chain, { pod, direction });
    }
  }

  #describe(object: TableObject): string {
    const pod = this.#chainOwners.get(object.name)?.pod;
    const comment = pod ?? (object.kind === 'chain' ? object.comment : undefined);
    return comment === undefined ? objectKey(object) : `${objectKey(object)} (${comment})`;
  }

  #read(): TableObjects | undefined {
    return this.#reading(readTable);
  }

  /** With a separate context: libnftables keeps all elements that it has read for as long as a context is open. */
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

function podOwner(pod: PodKey): string {
  return `pod ${pod}`;
}

function policyObjects(rules: NodeRules, key: string): TableObjects {
  const policy = rules.policies.get(key);
  return objectsOf(policy === undefined ? [] : compilePolicy(policy, rules.peers));
}

function peersObjects(rules: NodeRules, key: PeersKey): TableObjects {
  const peers = rules.peers.get(key);
  return objectsOf(peers === undefined ? [] : peerSets(key, peers));
}

/** The maps, restricted to these pods: an address belongs to one pod. */
function mapObjects(pods: NodeRules['pods'], keys: Iterable<PodKey> = pods.keys()): TableObjects {
  return objectsOf(compilePodSets([...keys].flatMap((key) => pods.get(key) ?? [])));
}

const nothing: TableObjects = new Map();

function flat(owned: Iterable<TableObjects>, maps: TableObjects): TableObjects {
  return new Map([...owned, maps].flatMap((objects) => [...objects]));
}

/** libnftables is synchronous; a dataplane that starts programs is not. */
async function promised<T>(work: () => T, signal: AbortSignal | undefined): Promise<T> {
  signal?.throwIfAborted();
  return work();
}
