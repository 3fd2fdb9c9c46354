/**
 * What of a policy the kernel or its programs do not take, as where a module is not there: left out, so that it allows nothing
 * and all else holds.
 *
 * @module
 */
import type { Family, PolicyKey, PolicyProblem } from '../../engine/rules.ts';
import type { RefusedEdits } from './kernel.ts';
import { families } from './names.ts';
import type { CompiledPolicy } from './policy.ts';
import type { IptablesRules, Lines } from './rules.ts';

/** More than that is not a matter of single rules. */
const mostRefusals = 256;

export class Refusals {
  /** Rules of a shape are refused together: the shape is what modules have to do with. */
  readonly #shapes = new Map<string, string>();
  readonly #sets = new Map<string, string>();
  /** By the key of its rules. */
  readonly #found = new Map<string, readonly PolicyProblem[]>();

  /** What was left out of those that {@link without} was asked for. */
  problems(): PolicyProblem[] {
    return [...this.#found.values()].flat();
  }

  /** After a while it may be taken: a module was loaded. */
  forget(): void {
    this.#shapes.clear();
    this.#sets.clear();
    this.#found.clear();
  }

  /** @returns whether there is something new to leave out */
  async learn(
    error: RefusedEdits,
    wanted: IptablesRules,
    isPolicy: (chain: string) => boolean,
    tryRules: (family: Family, lines: Lines) => Promise<string | undefined>,
  ): Promise<boolean> {
    if (this.#shapes.size + this.#sets.size >= mostRefusals) return false;
    const [, set] = /^(?:add|create) (\S+) /.exec(error.text ?? '') ?? [];
    if (set !== undefined) {
      if (this.#sets.has(set)) return false;
      this.#sets.set(set, error.message);
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

  /** The policy is gone. */
  drop(key: string): void {
    this.#found.delete(key);
  }

  /** The policy without what is refused. */
  without(key: string, policy: PolicyKey, compiled: CompiledPolicy): CompiledPolicy {
    if (this.#shapes.size === 0 && this.#sets.size === 0) return compiled;
    const messages = new Set<string>();
    const of = (family: Family) => {
      const rules = compiled.families[family];
      const chains = [...rules.chains].map(([name, lines]): [string, Lines] => [
        name,
        lines.filter((line) => {
          const why = this.#why(line);
          if (why !== undefined) messages.add(`the kernel takes no such rule, which allows nothing: ${why}`);
          return why === undefined;
        }),
      ]);
      return { ...rules, chains: new Map(chains) };
    };
    const both = { 4: of(4), 6: of(6) };
    const problems = [...messages].map((message) => ({ policy, field: 'spec', message }));
    if (problems.length > 0) this.#found.set(key, problems);
    else this.drop(key);
    const sets = [...compiled.sets].filter(([name]) => !this.#sets.has(name));
    return { families: both, sets: new Map(sets), peerSets: compiled.peerSets };
  }

  #why(line: string): string | undefined {
    for (const [, name = ''] of line.matchAll(/ --match-set (\S+) /g)) {
      const why = this.#sets.get(name);
      if (why !== undefined) return why;
    }
    return this.#shapes.get(shapeOf(line));
  }
}

/** A rule without what it is about. */
function shapeOf(line: string): string {
  return line
    .replace(/ --comment (?:"[^"]*"|\S+)/, '')
    .replaceAll(/KUBE-\S+/g, 'SET')
    .replaceAll(/(?<=port )\S+/g, 'PORT');
}
