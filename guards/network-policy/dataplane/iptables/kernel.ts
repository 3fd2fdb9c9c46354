/** Reads and changes the rules in the kernel with the iptables and ipset programs. */
import { existsSync } from 'node:fs';

import type { KeptNamespace } from '../namespace.ts';
import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import type { Family } from '../../engine/rules.ts';
import { type IpSet, parseSets } from './ipset.ts';
import { parseRules, setsLookedInto } from './listing.ts';
import { families } from './names.ts';
import type { FamilyRules, IptablesRules } from './rules.ts';
import { failure, type ProgramEnd, runProgram } from './run-program.ts';
import type { Iptables } from './variant.ts';

export interface KernelRules extends IptablesRules {
  /** Names of the sets that rules refer to (`--match-set`). */
  readonly used: ReadonlySet<string>;
}

/** The programs refused a change; nothing of that transaction was applied. */
export class RefusedEdits extends RampartError {
  /** The refused line; undefined if the program did not say which. */
  readonly text: string | undefined;

  constructor(program: string, end: ProgramEnd, input: string) {
    const line = refusedLine(end.complaint);
    const text = line === undefined ? undefined : input.split('\n')[line - 1];
    const { message } = failure(program, end);
    super(errorCodes.SYSTEM, {
      what:
        text === undefined ? `${program} refused a change` : `${program} refused \`${text.slice(0, 300)}\``,
      why: message.replace(`${program} failed: `, ''),
    });
    this.text = text;
  }
}

/**
 * The number of the refused line, from messages such as `iptables-restore: line 5 failed`, `Error occurred at
 * line: 3`, `line 7: RULE_APPEND failed`, `Error in line 4:`.
 */
function refusedLine(complaint: string): number | undefined {
  const [, found] = /\bline:? (\d+)/.exec(complaint) ?? [];
  return found === undefined ? undefined : Number(found);
}

export class IptablesKernel {
  readonly #iptables: Iptables | undefined;
  readonly #namespace: KeptNamespace;

  /** @param iptables - Undefined: sets only. */
  constructor(iptables: Iptables | undefined, namespace: KeptNamespace) {
    this.#iptables = iptables;
    this.#namespace = namespace;
  }

  /** The families that this kernel supports: without IPv6 there are no IPv6 packets to filter. */
  get families(): readonly Family[] {
    if (this.#iptables === undefined) return [];
    return existsSync('/proc/sys/net/ipv6') ? families : [4];
  }

  async read(signal?: AbortSignal): Promise<KernelRules> {
    const [both, sets] = await Promise.all([this.readRules(signal), this.readSets(signal)]);
    const used = setsLookedInto(both[4]).union(setsLookedInto(both[6]));
    return { families: both, sets, used };
  }

  async readRules(signal?: AbortSignal): Promise<Readonly<Record<Family, FamilyRules>>> {
    const [four, six] = await Promise.all([this.save(4, [], signal), this.save(6, [], signal)]);
    return { 4: parseRules(four), 6: parseRules(six) };
  }

  async readSets(signal?: AbortSignal): Promise<ReadonlyMap<string, IpSet>> {
    return parseSets(await this.#run('ipset', ['save'], signal));
  }

  /** Names of all sets, also those of other programs. */
  async setNames(signal?: AbortSignal): Promise<readonly string[]> {
    return (await this.#run('ipset', ['list', '-name'], signal)).split('\n').filter(Boolean);
  }

  /** Rules of all tables: requesting one by name would create it. */
  async save(family: Family, args: readonly string[], signal?: AbortSignal): Promise<string> {
    const program = this.#iptables?.save[family];
    if (program === undefined || !this.families.includes(family)) return '';
    return await this.#run(program, args, signal);
  }

  /** @throws {RefusedEdits} */
  async restoreSets(lines: readonly string[], signal?: AbortSignal): Promise<void> {
    if (lines.length === 0) return;
    await this.#restore('ipset', ['restore', '-exist'], `${lines.join('\n')}\n`, signal);
  }

  /** One transaction for each family. @throws {RefusedEdits} */
  async restoreRules(
    edits: Readonly<Record<Family, readonly string[]>>,
    signal?: AbortSignal,
  ): Promise<void> {
    const iptables = this.#iptables;
    if (iptables === undefined) return;
    const results = await Promise.allSettled(
      this.families.map(async (family) => {
        if (edits[family].length === 0) return;
        const input = `*filter\n${edits[family].join('\n')}\nCOMMIT\n`;
        await this.#restore(iptables.restore[family], ['--noflush', '--wait'], input, signal);
      }),
    );
    // All programs have exited by now, so none is still running after this throws.
    for (const result of results) if (result.status === 'rejected') throw result.reason;
  }

  async #run(program: string, args: readonly string[], signal: AbortSignal | undefined): Promise<string> {
    const end = await runProgram({ program, args, namespace: this.#namespace, signal });
    if (end.code !== 0) throw failure(program, end);
    return end.out;
  }

  async #restore(
    program: string,
    args: readonly string[],
    input: string,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const end = await runProgram({ program, args, input, namespace: this.#namespace, signal });
    if (end.code === 0) return;
    const plain = failure(program, end);
    throw plain.code === errorCodes.PRIVILEGE ? plain : new RefusedEdits(program, end, input);
  }
}
