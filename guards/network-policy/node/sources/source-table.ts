/**
 * The sources of packets from pods, checked by a table of nftables at the ingress of the node's interfaces, whatever programs the
 * policies. It stays when the process ends.
 */
import type { Address, PodKey } from '../../engine/rules.ts';
import { commentText, podChain, sourceTableName } from '../nftables/names.ts';
import { Nftables } from '../nftables/nftables.ts';
import { isMissing, isRefusal } from '../nftables/table.ts';
import type { KnownInterface } from './pod-interfaces.ts';
import { type CheckedPod, sourceRules, takenSets } from './source-rules.ts';

/** Before what others have at the same place. */
const PRIORITY = -500;

export interface Sources {
  readonly pods: ReadonlyMap<PodKey, CheckedPod>;
  /** Addresses that a pod may not take: of all pods, and of the node. */
  readonly taken: Readonly<Record<4 | 6, ReadonlySet<Address>>>;
}

/** What is in the kernel. */
interface Programmed {
  /** By chain. */
  readonly rules: ReadonlyMap<string, readonly string[]>;
  readonly sets: Readonly<Record<keyof typeof takenSets, ReadonlySet<string>>>;
  readonly listing: string;
}

/** Runs commands in the node's network namespace. Each change is one transaction. */
export class SourceTable {
  readonly #inNetwork: <T>(work: () => T) => T;
  readonly #logGroup: number;
  #programmed: Programmed | undefined;
  /** By the chains that they are named after. */
  #owners = new Map<string, PodKey>();

  constructor(inNetwork: <T>(work: () => T) => T, logGroup: number) {
    this.#inNetwork = inNetwork;
    this.#logGroup = logGroup;
  }

  get isProgrammed(): boolean {
    return this.#programmed !== undefined;
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

  /** @throws {RampartError} as nft refuses it; what was there stays. */
  program(sources: Sources): void {
    const rules = new Map<string, readonly string[]>();
    this.#owners = new Map();
    for (const [pod, checked] of sources.pods) {
      const chain = chainOf(pod);
      this.#owners.set(chain, pod);
      rules.set(chain, sourceRules(checked, refuseChain(chain)));
    }
    const mac = new Set([...sources.pods.values()].map(({ link }) => link.mac));
    const wanted = { rules, sets: { 4: sources.taken[4], 6: sources.taken[6], mac } };
    const interfaces = new Map(
      [...sources.pods].map(([pod, { link }]) => [chainOf(pod), { pod, name: link.name }]),
    );
    const before = this.#programmed;
    this.#nft((nft) => {
      if (before !== undefined) {
        const commands = this.#difference(before, wanted, interfaces);
        if (commands.length === 0) return;
        try {
          nft.run(commands.join('\n'));
          this.#programmed = { ...wanted, listing: listed(nft) ?? '' };
          return;
        } catch (error) {
          // The kernel has taken a chain away with its interface, or somebody has changed the table.
          if (!isRefusal(error)) throw error;
        }
      }
      const counts = countsOf(nft);
      nft.run(
        [
          `add table ${sourceTableName}`,
          `delete table ${sourceTableName}`,
          `add table ${sourceTableName}`,
          ...Object.values(takenSets).map(
            ({ name, type }) => `add set ${sourceTableName} ${name} { type ${type}; }`,
          ),
          ...this.#difference(nothing, wanted, interfaces, counts),
        ].join('\n'),
      );
      this.#programmed = { ...wanted, listing: listed(nft) ?? '' };
    });
  }

  /** Whether the table is as it was programmed. */
  isIntact(): boolean {
    return this.#programmed === undefined || this.#nft((nft) => listed(nft)) === this.#programmed.listing;
  }

  /** The next {@link program} replaces everything. */
  forget(): void {
    this.#programmed = undefined;
  }

  /** Refused packets by pod. */
  counters(): { readonly pod: PodKey; readonly packets: number }[] {
    return [...this.#nft(countsOf)].flatMap(([chain, { packets }]) => {
      const pod = this.#owners.get(chain);
      return pod === undefined ? [] : [{ pod, packets }];
    });
  }

  /** Whose packet was logged with this prefix. */
  podOfLog(prefix: string): PodKey | undefined {
    const [, chain = ''] = logForm.exec(prefix.trim()) ?? [];
    return this.#owners.get(chain);
  }

  /** Whether there was something. */
  remove(): boolean {
    this.#programmed = undefined;
    return this.#nft(removeSourceTable);
  }

  #difference(
    before: Pick<Programmed, 'rules' | 'sets'>,
    after: Pick<Programmed, 'rules' | 'sets'>,
    interfaces: ReadonlyMap<string, { readonly pod: PodKey; readonly name: string }>,
    counts: ReadonlyMap<string, Count> = new Map(),
  ): string[] {
    const commands: string[] = [];
    for (const [key, { name }] of Object.entries(takenSets) as [keyof typeof takenSets, { name: string }][]) {
      const [was, is] = [before.sets[key], after.sets[key]];
      if (was === is) continue;
      const [gone, come] = [was.difference(is), is.difference(was)];
      if (gone.size > 0) commands.push(`delete element ${sourceTableName} ${name} { ${[...gone].join(', ')} }`);
      if (come.size > 0) commands.push(`add element ${sourceTableName} ${name} { ${[...come].join(', ')} }`);
    }
    for (const chain of before.rules.keys()) {
      if (after.rules.has(chain)) continue;
      commands.push(`delete chain ${sourceTableName} ${chain}`);
      commands.push(`delete chain ${sourceTableName} ${refuseChain(chain)}`);
      commands.push(`delete counter ${sourceTableName} ${chain}`);
    }
    for (const [chain, rules] of after.rules) {
      const was = before.rules.get(chain);
      if (was?.join('\n') === rules.join('\n')) continue;
      const { pod = '', name = '' } = interfaces.get(chain) ?? {};
      // The first rule has the interface.
      const isNew = was?.[0] !== rules[0];
      if (was === undefined) {
        const { packets, bytes } = counts.get(chain) ?? { packets: 0, bytes: 0 };
        commands.push(
          `add counter ${sourceTableName} ${chain} { packets ${packets} bytes ${bytes} }`,
          `add chain ${sourceTableName} ${refuseChain(chain)}`,
          `add rule ${sourceTableName} ${refuseChain(chain)} limit rate 10/minute burst 10 packets log prefix "${logPrefix(chain)}" group ${this.#logGroup}`,
          `add rule ${sourceTableName} ${refuseChain(chain)} counter name ${chain} drop`,
        );
      } else
        commands.push(isNew ? `delete chain ${sourceTableName} ${chain}` : `flush chain ${sourceTableName} ${chain}`);
      if (isNew) {
        commands.push(
          `add chain ${sourceTableName} ${chain} { type filter hook ingress device "${name}" priority ${PRIORITY}; policy accept; comment "${commentText(pod)}"; }`,
        );
      }
      commands.push(...rules.map((rule) => `add rule ${sourceTableName} ${chain} ${rule}`));
    }
    return commands;
  }

  /** With a separate context: libnftables keeps all that it has read for as long as a context is open. */
  #nft<T>(work: (nft: Nftables) => T): T {
    return this.#inNetwork(() => {
      using nft = new Nftables();
      return work(nft);
    });
  }
}

/** Of the network namespace of the calling thread. Whether there was one. */
export function removeSourceTable(nft: Nftables): boolean {
  try {
    nft.run(`delete table ${sourceTableName}`);
    return true;
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}

interface Count {
  readonly packets: number;
  readonly bytes: number;
}

const nothing: Pick<Programmed, 'rules' | 'sets'> = {
  rules: new Map(),
  sets: { 4: new Set(), 6: new Set(), mac: new Set() },
};

const knownForm = /chain (pod-out-\w+) \{\n(?:(?!\n\t\}).)*?iif != \S+ accept comment "([^"]*)"/gs;
const logForm = /^rampart source (pod-out-\w+)$/;

function chainOf(pod: PodKey): string {
  return podChain('egress', pod);
}

function refuseChain(chain: string): string {
  return `refuse-${chain}`;
}

function logPrefix(chain: string): string {
  return `rampart source ${chain} `;
}

function listed(nft: Nftables): string | undefined {
  try {
    return nft.list(`list table ${sourceTableName}`, { stateless: true });
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** By the names of the counters, which are those of the chains. */
function countsOf(nft: Nftables): Map<string, Count> {
  let listing: string;
  try {
    listing = nft.list(`list counters table ${sourceTableName}`, { json: true });
  } catch (error) {
    if (isMissing(error)) return new Map();
    throw error;
  }
  const { nftables } = JSON.parse(listing) as {
    readonly nftables: readonly { readonly counter?: Count & { readonly name: string } }[];
  };
  return new Map(nftables.flatMap(({ counter }) => (counter === undefined ? [] : [[counter.name, counter]])));
}
