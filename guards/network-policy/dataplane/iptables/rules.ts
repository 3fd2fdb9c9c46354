/**
 * Our rules in the form of `iptables-save`, with the sets that they match, so that the desired and the actual
 * state can be compared.
 */
import type { Family } from '../../engine/rules.ts';
import type { IpSet } from './ipset.ts';
import { type BuiltinChain, families, type TopChain } from './names.ts';

/** Rules without `-A CHAIN`. */
export type Lines = readonly string[];

/** One of the chains that every packet of a pod passes. */
export interface Top {
  /** The jumps to the chains of pods, a few for each. Their order does not matter: each packet passes those of both its ends. */
  readonly pods: Lines;
  /** The lines after the jumps. Undefined: unknown here. */
  readonly tail: Lines | undefined;
}

export interface FamilyRules {
  /** Jumps from the built-in chains to ours. They precede the rules of other programs. */
  readonly hooks: ReadonlyMap<BuiltinChain, Lines>;
  readonly tops: ReadonlyMap<TopChain, Top>;
  readonly chains: ReadonlyMap<string, Lines>;
  /** Only for rules read from the kernel: kube-router has rules in the chains whose names we share. */
  readonly isTaken?: boolean;
}

export interface IptablesRules {
  readonly families: Readonly<Record<Family, FamilyRules>>;
  readonly sets: ReadonlyMap<string, IpSet>;
}

export const noFamilyRules: FamilyRules = { hooks: new Map(), tops: new Map(), chains: new Map() };
export const noRules: IptablesRules = { families: { 4: noFamilyRules, 6: noFamilyRules }, sets: new Map() };

/** The union of several rules. */
export function merged(all: Iterable<IptablesRules>): IptablesRules {
  const parts = [...all];
  const of = (family: Family): FamilyRules => {
    const hooks = new Map<BuiltinChain, Lines>();
    const tops = new Map<TopChain, { pods: string[]; tail: Lines | undefined }>();
    const chains = new Map<string, Lines>();
    for (const part of parts) {
      for (const [name, lines] of part.families[family].hooks) hooks.set(name, lines);
      for (const [name, lines] of part.families[family].chains) chains.set(name, lines);
      for (const [name, { pods, tail }] of part.families[family].tops) {
        const top = tops.get(name) ?? { pods: [], tail: undefined };
        top.pods.push(...pods);
        top.tail ??= tail;
        tops.set(name, top);
      }
    }
    return { hooks, tops, chains };
  };
  return {
    families: { 4: of(4), 6: of(6) },
    sets: new Map(parts.flatMap(({ sets }) => [...sets])),
  };
}

export function isNothing({ families: both, sets }: IptablesRules): boolean {
  return (
    sets.size === 0 &&
    families.every((family) => {
      const { hooks, tops, chains } = both[family];
      return hooks.size === 0 && tops.size === 0 && chains.size === 0;
    })
  );
}

/** Whether packets pass our rules: there is more than the chain that only makes the kernel track connections. */
export function isEnforcing({ tops }: FamilyRules): boolean {
  return tops.size > 0;
}

export function sameLines(a: Lines, b: Lines): boolean {
  return a.length === b.length && a.every((line, at) => line === b[at]);
}

/** The lines in `b` that are missing in `a`, counting duplicates. */
export function moreIn(b: Lines, a: Lines): string[] {
  const counts = new Map<string, number>();
  for (const line of a) counts.set(line, (counts.get(line) ?? 0) + 1);
  return b.filter((line) => {
    const count = counts.get(line) ?? 0;
    if (count > 0) counts.set(line, count - 1);
    return count === 0;
  });
}
