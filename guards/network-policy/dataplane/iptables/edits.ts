/** The edits that turn the existing rules into the desired ones. */

import { builtinChains } from './names.ts';
import { type FamilyRules, type Lines, moreIn, sameLines, type Top } from './rules.ts';

/**
 * Lines for `iptables-restore --noflush`: one transaction. Empty: nothing differs. Our rules are identified
 * by chain and text: if another program has removed one, the whole transaction fails and nothing changes.
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
  /** Lines that create or empty chains. */
  readonly #declared: string[] = [];
  readonly #rules: string[] = [];
  readonly #hooks: string[] = [];
  readonly #deleted: string[] = [];

  chain(name: string, before: Lines | undefined, after: Lines): void {
    if (before === undefined) this.#write(name, after);
    else if (!sameLines(before, after)) this.#change(name, before, after);
  }

  /** Edits only what differs: the rules that refuse packets keep their counters. */
  #change(name: string, before: Lines, after: Lines): void {
    let start = 0;
    while (start < before.length && start < after.length && before[start] === after[start]) start++;
    let end = 0;
    const max = Math.min(before.length, after.length) - start;
    while (end < max && before.at(-1 - end) === after.at(-1 - end)) end++;
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
