/** The edits that turn the existing rules into the desired ones. */
import type { Family } from '../../engine/rules.ts';
import { mostMembers } from './listing.ts';
import { builtinChains, idOf, setName } from './names.ts';
import { type FamilyRules, type IpSet, type Lines, moreIn, sameLines, type Top } from './rules.ts';

/**
 * Lines for `iptables-restore --noflush`: one transaction. Empty: nothing differs. What is ours is known by chain, and rules by
 * their text: if somebody else has removed a rule, the whole transaction fails and nothing changes.
 *
 * @returns undefined if everything must be compared, because a tail is unknown
 */
export function familyEdits(before: FamilyRules, after: FamilyRules): string[] | undefined {
  const edits = new Edits();
  for (const [name, lines] of after.chains) edits.chain(name, before.chains.get(name), lines);
  for (const [name, top] of after.tops) {
    if (!edits.top(name, before.tops.get(name), top)) return undefined;
  }
  for (const name of builtinChains) {
    edits.hooks(name, before.hooks.get(name) ?? [], after.hooks.get(name) ?? []);
  }
  for (const name of before.chains.keys()) if (!after.chains.has(name)) edits.delete(name);
  for (const name of before.tops.keys()) if (!after.tops.has(name)) edits.delete(name);
  return edits.inOrder();
}

class Edits {
  /** Creates a chain, or empties it. */
  readonly #declared: string[] = [];
  readonly #rules: string[] = [];
  readonly #hooks: string[] = [];
  readonly #deleted: string[] = [];

  chain(name: string, before: Lines | undefined, after: Lines): void {
    if (before === undefined) this.#write(name, after);
    else if (!sameLines(before, after)) this.#change(name, before, after);
  }

  /** Only what differs: the rules that refuse keep their counters. */
  #change(name: string, before: Lines, after: Lines): void {
    let start = 0;
    while (start < before.length && start < after.length && before[start] === after[start]) start++;
    let end = 0;
    const most = Math.min(before.length, after.length) - start;
    while (end < most && before.at(-1 - end) === after.at(-1 - end)) end++;
    const gone = before.slice(start, before.length - end);
    const kept = new Set([...before.slice(0, start), ...before.slice(before.length - end)]);
    if (kept.size === 0 || gone.some((line) => kept.has(line)) || new Set(gone).size < gone.length) {
      this.#write(name, after);
      return;
    }
    for (const line of gone) this.#rules.push(`-D ${name} ${line}`);
    after.slice(start, after.length - end).forEach((line, at) => {
      this.#rules.push(`-I ${name} ${start + at + 1} ${line}`);
    });
  }

  top(name: string, before: Top | undefined, after: Top): boolean {
    const tail = after.tail;
    if (before === undefined || (tail !== undefined && !sameLines(before.tail ?? [], tail))) {
      if (tail === undefined) return false;
      this.#write(name, [...after.pods, ...tail]);
      return true;
    }
    for (const line of moreIn(before.pods, after.pods)) this.#rules.push(`-D ${name} ${line}`);
    for (const line of moreIn(after.pods, before.pods)) this.#rules.push(`-I ${name} 1 ${line}`);
    return true;
  }

  hooks(name: string, before: Lines, after: Lines): void {
    if (sameLines(before, after)) return;
    const gone = before.filter((line) => line.startsWith('-'));
    this.#hooks.push(
      ...gone.map((line) => `-D ${name} ${line}`),
      ...after.map((line, at) => `-I ${name} ${at + 1} ${line}`),
    );
  }

  delete(name: string): void {
    this.#declared.push(`:${name} - [0:0]`);
    this.#deleted.push(`-X ${name}`);
  }

  inOrder(): string[] {
    return [...this.#declared, ...this.#rules, ...this.#hooks, ...this.#deleted];
  }

  #write(name: string, lines: Lines): void {
    this.#declared.push(`:${name} - [0:0]`);
    for (const line of lines) this.#rules.push(`-A ${name} ${line}`);
  }
}

export interface SetEdits {
  /** Before the rules change: new sets and members. */
  readonly before: readonly string[];
  /** After it: what no rule needs any longer. */
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
      // Rules match it: another set replaces it atomically.
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

/** The set that is created to replace another one. */
export function swapName(name: string, family: Family): string {
  return setName('SRC', family, idOf('swap', name));
}

/** Whether the one can become the other in place. */
export function canKeep(old: IpSet, set: IpSet): boolean {
  const room = old.room ?? mostMembers(old.members.size);
  return old.type === set.type && old.family === set.family && old.isOdd !== true && set.members.size <= room;
}

function create(name: string, { type, family, members }: IpSet): string {
  // It grows on its own; the initial size costs memory for each set.
  return `create ${name} ${type} family ${family === 6 ? 'inet6' : 'inet'} hashsize 64 maxelem ${mostMembers(members.size)}`;
}

function adds(name: string, members: ReadonlySet<string>): string[] {
  return [...members].map((member) => `add ${name} ${member}`);
}
