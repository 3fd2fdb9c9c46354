/**
 * Checks the sources of packets from pods, by an nftables table at the ingress of the node's interfaces. It does
 * not depend on the backend that programs the policies, and stays when the process ends.
 */
import { NETLINK_NETFILTER, NetlinkSocket } from '../../../../lib/netlink/socket.ts';
import type { AddressChange, PodKey, RefusalVerdict } from '../../engine/rules.ts';
import { logPrefixOf, parseLogPrefix } from '../../dataplane/log-prefix.ts';
import { Encoder } from '../../dataplane/nftables/encode.ts';
import {
  bareSourceTableName,
  commentText,
  counterName,
  families,
  parseCounterName,
  podName,
  sourceTableName,
} from '../../dataplane/nftables/names.ts';
import { type Count, readCounters } from '../../dataplane/nftables/named-counters.ts';
import { Nftables } from '../../dataplane/nftables/nftables.ts';
import { NftablesBatch } from '../../dataplane/nftables/nftables-batch.ts';
import { isMissing, isRefusal } from '../../dataplane/nftables/table.ts';
import type { KnownInterface } from './pod-interfaces.ts';
import { addressCommands, elementCommand, familyOf, refuseChain, ruleCommands } from './source-commands.ts';
import { type CheckedPod, sourceRules, takenSets } from './source-rules.ts';
import { type ListedTable, parseListing } from './source-listing.ts';
import type { TakenAddresses } from './taken-addresses.ts';

/** Makes the chains run before those of other programs at the same hook. */
const PRIORITY = -500;

/** The desired state of a pod's chain. */
interface PodChain {
  readonly pod: PodKey;
  /** Name of the pod's interface. */
  readonly device: string;
  readonly mac: string;
  readonly rules: readonly string[];
}

/** A pod that sent with an address that is not its own. */
export interface Sender {
  readonly pod: PodKey;
  readonly verdict: RefusalVerdict;
}

export interface ForgedSources extends Sender {
  readonly packets: number;
}

/** Runs commands in the node's network namespace. Each change is one transaction. Dispose it after use. */
export class SourceTable implements Disposable {
  readonly #inNetwork: <T>(work: () => T) => T;
  readonly #logGroups: readonly number[];
  readonly #verdict: RefusalVerdict;
  readonly #taken: TakenAddresses;
  /** The desired chains, keyed by name. */
  readonly #chains = new Map<string, PodChain>();
  /** `unknown`: the table exists, but may differ from the desired one. */
  #state: 'none' | 'programmed' | 'unknown' = 'none';
  /** Nft's listing of the table when it was last intact; below, the chains that have changed since. */
  #reference: ListedTable | undefined;
  readonly #changedSince = new Set<string>();
  #socket: NetlinkSocket | undefined;

  /**
   * @param taken - Addresses that a pod may not take; their changes are applied by each {@link program}.
   * @param verdict - `would-refuse`: forged sources pass, and are reported and counted.
   */
  constructor(
    inNetwork: <T>(work: () => T) => T,
    logGroups: readonly number[],
    taken: TakenAddresses,
    verdict: RefusalVerdict = 'refused',
  ) {
    this.#inNetwork = inNetwork;
    this.#logGroups = logGroups;
    this.#verdict = verdict;
    this.#taken = taken;
  }

  get isProgrammed(): boolean {
    return this.#state !== 'none';
  }

  /** What an earlier process knew about the interfaces of these pods. */
  adopted(pods: Iterable<PodKey>): Map<PodKey, KnownInterface> {
    const listing = this.#nft((nft) => listed(nft));
    if (listing === undefined) return new Map();
    const known = new Map<string, KnownInterface>();
    for (const [, chain = '', comment = ''] of listing.matchAll(knownForm)) {
      const [index, mac = '', ...linkLocal] = comment.split(' ');
      known.set(chain, { index: Number(index), mac, linkLocal });
    }
    return new Map(
      [...pods].flatMap((pod): [PodKey, KnownInterface][] => {
        const one = known.get(chainOf(pod));
        return one === undefined ? [] : [[pod, one]];
      }),
    );
  }

  /**
   * @param changes - Pods that have changed since the last call. Undefined: the pod's packets are no longer
   * checked.
   * @throws {RampartError} if nft refuses the change; the previous rules stay in place, and the next call programs
   * everything.
   */
  program(changes: ReadonlyMap<PodKey, CheckedPod | undefined>): void {
    const before = new Map<string, PodChain | undefined>();
    for (const [pod, checked] of changes) {
      const name = chainOf(pod);
      const [was, is] = [this.#chains.get(name), checked && podChainOf(pod, checked, name)];
      if (was?.rules.join('\n') === is?.rules.join('\n')) continue;
      before.set(name, was);
      if (is === undefined) this.#chains.delete(name);
      else this.#chains.set(name, is);
    }
    const taken = this.#taken.takeChange();
    const isNothing = before.size + taken.gone.length + taken.come.length === 0;
    if (this.#state === 'programmed' && isNothing) return;
    if (this.#state === 'programmed' && this.#programDifference(before, taken)) return;
    this.#programAll();
  }

  /**
   * @returns false if the kernel has removed a chain with its interface, or another program has changed the
   * table
   */
  #programDifference(before: ReadonlyMap<string, PodChain | undefined>, taken: AddressChange): boolean {
    this.#state = 'unknown';
    try {
      if (before.size === 0) this.#sendElements(taken);
      else {
        const commands = [
          ...this.#macCommands(before),
          ...addressCommands('delete', taken.gone),
          ...addressCommands('add', taken.come),
          ...[...before].flatMap(([name, was]) => this.#chainCommands(name, was, this.#chains.get(name))),
        ];
        this.#nft((nft) => nft.run(commands.join('\n')));
      }
    } catch (error) {
      if (!isRefusal(error)) throw error;
      return false;
    }
    for (const name of before.keys()) this.#changedSince.add(name);
    this.#state = 'programmed';
    return true;
  }

  #programAll(): void {
    const counts = this.#counts();
    this.#nft((nft) => {
      nft.run(
        [
          `add table ${sourceTableName}`,
          `delete table ${sourceTableName}`,
          `add table ${sourceTableName}`,
          ...Object.values(takenSets).map(
            ({ name, type }) => `add set ${sourceTableName} ${name} { type ${type}; }`,
          ),
          ...elementCommand('add', 'mac', new Set([...this.#chains.values()].map(({ mac }) => mac))),
          ...addressCommands('add', [...this.#taken]),
          ...[...this.#chains].flatMap(([name, chain]) =>
            this.#chainCommands(name, undefined, chain, counts.get(counterName(name, this.#verdict))),
          ),
        ].join('\n'),
      );
      this.#state = 'programmed';
      this.#reference = parseListing(listed(nft) ?? '');
      this.#changedSince.clear();
    });
  }

  /**
   * Whether the table is as programmed. How nft lists a rule depends on its version. So chains that have changed
   * since the last check are written again, to compare their listings before and after: these differ only if
   * another program has changed the chain.
   */
  isIntact(): boolean {
    if (this.#state !== 'programmed') return true;
    return this.#nft((nft) => {
      const found = parseListing(listed(nft) ?? '');
      const changed = [...this.#changedSince].filter((name) => this.#chains.has(name));
      let written = found;
      if (changed.length > 0) {
        try {
          nft.run(changed.flatMap((name) => this.#rewriteCommands(name)).join('\n'));
        } catch (error) {
          if (!isRefusal(error)) throw error;
          return false;
        }
        written = parseListing(listed(nft) ?? '');
      }
      const isIntact = this.#isAsListed(found, written);
      this.#reference = written;
      this.#changedSince.clear();
      return isIntact;
    });
  }

  /** @param written - The listing after the changed chains were written again. */
  #isAsListed(found: ListedTable, written: ListedTable): boolean {
    const count = 2 * this.#chains.size;
    if (found.chains.size !== count) return false;
    for (const [name, { device }] of this.#chains) {
      const before = this.#changedSince.has(name) ? written : this.#reference;
      for (const one of [name, refuseChain(name)]) {
        if (found.chains.get(one) === undefined || found.chains.get(one) !== before?.chains.get(one))
          return false;
      }
      if (!isHooked(found.chains.get(name) ?? '', device)) return false;
    }
    const sets = {
      4: [...this.#taken].filter((address) => familyOf(address) === 4),
      6: [...this.#taken].filter((address) => familyOf(address) === 6),
      mac: [...new Set([...this.#chains.values()].map(({ mac }) => mac))],
    };
    return Object.entries(takenSets).every(([key, { name }]) => {
      const [wanted, elements] = [sets[key as keyof typeof sets], found.sets.get(name)];
      return elements?.size === wanted.length && wanted.every((element) => elements.has(element));
    });
  }

  /** Makes the next {@link program} replace everything. */
  forget(): void {
    if (this.#state === 'programmed') this.#state = 'unknown';
  }

  /** Packets with forged sources, for each pod. */
  counters(): ForgedSources[] {
    return [...this.#counts()].flatMap(([name, { packets }]) => {
      const { chain, verdict } = parseCounterName(name);
      const pod = this.#chains.get(chain)?.pod;
      return pod === undefined ? [] : [{ pod, verdict, packets }];
    });
  }

  /** The pod whose packet was logged with this prefix. */
  ownerOfLog(prefix: string): Sender | undefined {
    const logged = parseLogPrefix(prefix);
    const [word, chain = ''] = logged?.words ?? [];
    const pod = word === logWord ? this.#chains.get(chain)?.pod : undefined;
    return pod === undefined || logged === undefined ? undefined : { pod, verdict: logged.verdict };
  }

  /** Deletes the table. Returns whether it existed. */
  remove(): boolean {
    this.#state = 'none';
    this.#chains.clear();
    return this.#nft(removeSourceTable);
  }

  [Symbol.dispose](): void {
    this.#socket?.[Symbol.dispose]();
    this.#socket = undefined;
  }

  /**
   * Used if only addresses have changed, as with each pod of another node. It sends messages itself, since
   * libnftables reads the table before each change.
   */
  #sendElements({ gone, come }: AddressChange): void {
    const batch = new NftablesBatch(bareSourceTableName, 'netdev');
    const encoder = new Encoder(batch);
    for (const [verb, addresses] of [
      ['delete element', gone],
      ['add element', come],
    ] as const) {
      for (const family of families) {
        const keys = addresses.filter((address) => familyOf(address) === family);
        if (keys.length === 0) continue;
        const { name } = takenSets[family];
        const set = { kind: 'set', holds: 'addresses', name, family, elements: new Map() } as const;
        encoder.command({ do: verb, set, keys });
      }
    }
    batch.send(this.#netlink);
  }

  /** Interfaces may share a MAC address, which is deleted only when no interface has it any longer. */
  #macCommands(before: ReadonlyMap<string, PodChain | undefined>): string[] {
    const are = new Set([...this.#chains.values()].map(({ mac }) => mac));
    const changed = new Set(before.keys());
    const stay = new Set([...this.#chains].filter(([name]) => !changed.has(name)).map(([, { mac }]) => mac));
    const were = new Set([...before.values()].flatMap((was) => was?.mac ?? []));
    const gone = were.difference(are);
    const come = are.difference(stay).difference(were);
    return [...elementCommand('delete', 'mac', gone), ...elementCommand('add', 'mac', come)];
  }

  #chainCommands(
    name: string,
    was: PodChain | undefined,
    is: PodChain | undefined,
    { packets, bytes }: Count = { packets: 0, bytes: 0 },
  ): string[] {
    const table = sourceTableName;
    const counter = counterName(name, this.#verdict);
    if (is === undefined) {
      return [
        `delete chain ${table} ${name}`,
        `delete chain ${table} ${refuseChain(name)}`,
        `delete counter ${table} ${counter}`,
      ];
    }
    // The first rule contains the index of the interface.
    const isNew = was?.rules[0] !== is.rules[0];
    return [
      ...(was === undefined
        ? [
            `add counter ${table} ${counter} { packets ${packets} bytes ${bytes} }`,
            `add chain ${table} ${refuseChain(name)}`,
            ...this.#refuseRules(name),
          ]
        : [isNew ? `delete chain ${table} ${name}` : `flush chain ${table} ${name}`]),
      ...(isNew
        ? [
            `add chain ${table} ${name} { type filter hook ingress device "${is.device}" priority ${PRIORITY}; policy accept; comment "${commentText(is.pod)}"; }`,
          ]
        : []),
      ...ruleCommands(name, is.rules),
    ];
  }

  #rewriteCommands(name: string): string[] {
    return [
      `flush chain ${sourceTableName} ${name}`,
      ...ruleCommands(name, this.#chains.get(name)?.rules ?? []),
      `flush chain ${sourceTableName} ${refuseChain(name)}`,
      ...this.#refuseRules(name),
    ];
  }

  /** Counts, keyed by the name of the counter, from which `parseCounterName()` gets the chain. */
  #counts(): ReadonlyMap<string, Count> {
    return readCounters(this.#netlink, 'netdev', bareSourceTableName);
  }

  get #netlink(): NetlinkSocket {
    return (this.#socket ??= this.#inNetwork(() => new NetlinkSocket({ protocol: NETLINK_NETFILTER })));
  }

  #refuseRules(name: string): string[] {
    const prefix = logPrefixOf(this.#verdict, [logWord, name]);
    const logs = this.#logGroups.map((group) => `log prefix "${prefix}" group ${group}`);
    return ruleCommands(refuseChain(name), [
      `limit rate 10/minute burst 10 packets ${logs.join(' ')}`,
      `counter name ${counterName(name, this.#verdict)} ${this.#verdict === 'refused' ? 'drop' : 'accept'}`,
    ]);
  }

  /** Runs `work` with a context of its own: libnftables keeps everything that it has read for as long as a context is open. */
  #nft<T>(work: (nft: Nftables) => T): T {
    return this.#inNetwork(() => {
      using nft = new Nftables();
      return work(nft);
    });
  }
}

/** Deletes the table in the network namespace of the calling thread. Returns whether it existed. */
export function removeSourceTable(nft: Nftables): boolean {
  try {
    nft.run(`delete table ${sourceTableName}`);
    return true;
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}

const knownForm = /chain (pod-out-\w+) \{\n(?:(?!\n\t\}).)*?iif != \S+ accept comment "([^"]*)"/gs;
/** Part of the prefix of logged packets, before the chain. */
const logWord = 'source';

function chainOf(pod: PodKey): string {
  return podName('egress', pod);
}

function podChainOf(pod: PodKey, checked: CheckedPod, name: string): PodChain {
  const { link } = checked;
  return { pod, device: link.name, mac: link.mac, rules: sourceRules(checked, refuseChain(name)) };
}

/** @param chain - The chain as nft lists it. */
function isHooked(chain: string, device: string): boolean {
  return chain.includes(`"${device}"`) && chain.includes(` priority ${PRIORITY}; policy accept;`);
}

function listed(nft: Nftables): string | undefined {
  try {
    return nft.list(`list table ${sourceTableName}`, { stateless: true });
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}
