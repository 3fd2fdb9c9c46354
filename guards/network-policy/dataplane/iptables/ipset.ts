/** Sets of ipset: as `ipset save` lists them, and the edits that turn the existing ones into the desired ones. */
import { parseAddress } from '../../engine/addresses.ts';
import type { Family } from '../../engine/rules.ts';
import { idOf, isOurSet, setName, splitWords } from './names.ts';

export interface IpSet {
  readonly name: string;
  readonly type: 'hash:ip' | 'hash:net' | 'hash:ip,port';
  readonly family: Family;
  readonly members: ReadonlySet<string>;
  /** Only for an existing set: whether it has options that our sets do not have. */
  readonly isOdd?: boolean;
  /** Only for an existing set: how many members it may have. */
  readonly room?: number;
}

/** Options that our sets do not have and that change the behaviour of a set. */
const oddOptions = / (?:timeout|counters|comment|skbinfo|forceadd|netmask|bitmask|markmask|nomatch)\b/;

export function parseSets(listing: string): Map<string, IpSet> {
  const sets = new Map<string, IpSet & { readonly members: Set<string> }>();
  for (const line of listing.split('\n')) {
    const [verb, name, rest] = splitWords(line);
    if (!isOurSet(name)) continue;
    if (verb === 'create') {
      const [type = ''] = rest.split(' ', 1);
      sets.set(name, {
        name,
        type: type as IpSet['type'],
        family: rest.includes(' family inet6 ') ? 6 : 4,
        members: new Set(),
        isOdd: oddOptions.test(rest),
        room: Number(/ maxelem (\d+)/.exec(rest)?.[1] ?? 0),
      });
    } else if (verb === 'add') {
      // In a set with other options, more words may follow the member.
      sets.get(name)?.members.add(canonicalMember(rest.split(' ', 1)[0] ?? ''));
    }
  }
  return sets;
}

/** Size of a set: the default, or more if it needs more. */
function maxMembers(count: number): number {
  let max = 65_536;
  while (max < count) max *= 2;
  return max;
}

export function sameMembers(a: ReadonlySet<string>, b: ReadonlySet<string>): boolean {
  return a === b || (a.size === b.size && a.isSubsetOf(b));
}

export interface SetEdits {
  /** Run before the rules change: new sets and members. */
  readonly before: readonly string[];
  /** Run after the rules have changed: deletes what no rule needs any longer. */
  readonly after: readonly string[];
}

/** Lines for `ipset restore`. */
export function setEdits(before: ReadonlyMap<string, IpSet>, after: ReadonlyMap<string, IpSet>): SetEdits {
  const coming: string[] = [];
  const going: string[] = [];
  for (const [name, set] of after) {
    const old = before.get(name);
    if (old === undefined) coming.push(create(name, set), ...adds(name, set.members));
    else if (canKeep(old, set)) coming.push(...adds(name, set.members.difference(old.members)));
    else {
      // Rules match the set, so it cannot be deleted: a new set is swapped in atomically.
      const swapped = swapName(name, set.family);
      const members = old.type === set.type ? set.members.union(old.members) : set.members;
      coming.push(
        create(swapped, set),
        `flush ${swapped}`,
        ...adds(swapped, members),
        `swap ${swapped} ${name}`,
        `destroy ${swapped}`,
      );
    }
    if (old !== undefined && old.type === set.type) {
      for (const member of old.members.difference(set.members)) going.push(`del ${name} ${member}`);
    }
  }
  for (const name of before.keys()) if (!after.has(name)) going.push(`destroy ${name}`);
  return { before: coming, after: going };
}

/** Name of the new set that replaces a set by a swap. */
export function swapName(name: string, family: Family): string {
  return setName('SRC', family, idOf('swap', name));
}

/** Whether `old` can become `set` without being replaced. */
export function canKeep(old: IpSet, set: IpSet): boolean {
  const room = old.room ?? maxMembers(old.members.size);
  return old.type === set.type && old.family === set.family && old.isOdd !== true && set.members.size <= room;
}

function create(name: string, { type, family, members }: IpSet): string {
  // The hash table grows on its own; the initial size costs memory for each set.
  return `create ${name} ${type} family ${family === 6 ? 'inet6' : 'inet'} hashsize 64 maxelem ${maxMembers(members.size)}`;
}

function adds(name: string, members: ReadonlySet<string>): string[] {
  return [...members].map((member) => `add ${name} ${member}`);
}

/** A member in canonical text: the C library formats the end of some IPv6 addresses as IPv4. */
function canonicalMember(text: string): string {
  const [, address = '', rest = ''] = /^([\da-f:]+:[\d.]+\.\d+)(.*)$/i.exec(text) ?? [];
  const parsed = address === '' ? undefined : parseAddress(address);
  return parsed === undefined ? text : `${parsed.text}${rest}`;
}
