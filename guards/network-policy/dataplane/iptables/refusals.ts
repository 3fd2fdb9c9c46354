/**
 * The parts of a policy that the kernel or the programs refuse, for example without a module: left out, so that they allow nothing
 * and everything else applies.
 */
import type { Family, PolicyProblem, PolicyRules } from '../../engine/rules.ts';

import { type IpSet, swapName } from './ipset.ts';
import type { RefusedEdits } from './kernel.ts';
import { families } from './names.ts';
import type { CompiledPolicy } from './policy.ts';
import type { IptablesRules, Lines } from './rules.ts';

/** With this many refusals, single rules are not the cause: nothing more is left out. */
const maxRefusals = 256;

/** A set that was refused with this many members: with fewer, it is tried again. */
interface RefusedSet {
  readonly why: string;
  readonly members: number;
}

export class Refusals {
  /** Rules of the same shape are refused together: modules depend on the shape. */
  readonly #shapes = new Map<string, string>();
  readonly #sets = new Map<string, RefusedSet>();
  /** Problems of the omitted parts of each policy. Keyed by `key` of {@link without}. */
  readonly #found = new Map<string, readonly PolicyProblem[]>();

  /** Problems of the omitted parts of policies that were passed to {@link without}. */
  problems(): PolicyProblem[] {
    return [...this.#found.values()].flat();
  }

  /** Called before each full sync: the kernel may accept the rules by now, because a module was loaded. */
  forget(): void {
    this.#shapes.clear();
    this.#sets.clear();
    this.#found.clear();
  }

  /** @returns whether something more has to be left out */
  async learn(
    error: RefusedEdits,
    wanted: IptablesRules,
    isPolicy: (chain: string) => boolean,
    tryRules: (family: Family, lines: Lines) => Promise<string | undefined>,
  ): Promise<boolean> {
    if (this.#shapes.size + this.#sets.size >= maxRefusals) return false;
    const [, filled] = /^(?:add|create) (\S+) /.exec(error.text ?? '') ?? [];
    if (filled !== undefined) {
      const swaps = ({ name, family }: IpSet): boolean => swapName(name, family) === filled;
      const name = [...wanted.sets.values()].find(swaps)?.name ?? filled;
      const members = wanted.sets.get(name)?.members.size ?? 0;
      if ((this.#sets.get(name)?.members ?? Infinity) <= members) return false;
      this.#sets.set(name, { why: error.message, members });
      return true;
    }
    const before = this.#shapes.size;
    for (const family of families) {
      const samples = new Map<string, string>();
      for (const [chain, lines] of wanted.families[family].chains) {
        if (isPolicy(chain)) for (const line of lines) samples.set(shapeOf(line), line);
      }
      for (const [shape, line] of samples) {
        const why = this.#shapes.has(shape) ? undefined : await tryRules(family, [line]);
        if (why !== undefined) this.#shapes.set(shape, why);
      }
    }
    return this.#shapes.size > before;
  }

  /** Forgets a deleted policy. */
  drop(key: string): void {
    this.#found.delete(key);
  }

  /** The policy without the parts that the kernel rejects. */
  without(key: string, { policy, direction }: PolicyRules, compiled: CompiledPolicy): CompiledPolicy {
    if (this.#shapes.size === 0 && this.#sets.size === 0) return compiled;
    const refused = new Map(
      [...this.#sets]
        .filter(([name, { members }]) => (compiled.sets.get(name)?.members.size ?? -1) >= members)
        .map(([name, { why }]) => [name, why]),
    );
    /** Keyed by field and reason. */
    const problems = new Map<string, PolicyProblem>();
    const of = (family: Family) => {
      const rules = compiled.families[family];
      const chains = [...rules.chains].map(([name, lines]): [string, Lines] => [
        name,
        lines.filter((line) => {
          const why = this.#why(line, refused);
          if (why === undefined) return true;
          const field = `spec.${direction}[${compiled.ruleOf.get(line) ?? 0}]`;
          const message = `the kernel rejects this rule, so it allows nothing: ${why}`;
          problems.set(`${field} ${why}`, { policy, field, message });
          return false;
        }),
      ]);
      return { ...rules, chains: new Map(chains) };
    };
    const both = { 4: of(4), 6: of(6) };
    if (problems.size > 0) this.#found.set(key, [...problems.values()]);
    else this.drop(key);
    const sets = [...compiled.sets].filter(([name]) => !refused.has(name));
    return { ...compiled, families: both, sets: new Map(sets) };
  }

  #why(line: string, sets: ReadonlyMap<string, string>): string | undefined {
    for (const [, name = ''] of line.matchAll(/ --match-set (\S+) /g)) {
      const why = sets.get(name);
      if (why !== undefined) return why;
    }
    return this.#shapes.get(shapeOf(line));
  }
}

/** A rule without the names in it: equal for rules of the same shape. */
function shapeOf(line: string): string {
  return line
    .replace(/ --comment (?:"[^"]*"|\S+)/, '')
    .replaceAll(/KUBE-\S+/g, 'SET')
    .replaceAll(/(?<=port )\S+/g, 'PORT');
}
