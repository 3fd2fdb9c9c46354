/** Parses the output of iptables-save. */
import {
  type BuiltinChain,
  builtinChains,
  isOurChain,
  isSharedChain,
  topChains,
  type TopChain,
  trackingChain,
} from './names.ts';
import type { FamilyRules, Lines, Top } from './rules.ts';

const tops = new Set<string>(Object.values(topChains));
const podJump = / -m comment --comment "?rule to jump traffic .* -j KUBE-POD-FW-/;

/** Reported if a rule of another program precedes ours: then ours are not where they should be. */
export const behindOthers = 'after a rule of another program';

export function filterTable(listing: string): string {
  return /^\*filter\n([^]*?)^COMMIT$/m.exec(listing)?.[1] ?? '';
}

export function declaredChains(table: string): string[] {
  return [...table.matchAll(/^:(\S+) /gm)].map(([, name = '']) => name);
}

/**
 * Which chains of this table `filter` are ours. A chain whose name we share with kube-router counts only if the
 * table also has a chain that only we create.
 */
export function ownChains(table: string): ReadonlySet<string> {
  const declared = declaredChains(table);
  const sharesNone = !declared.some(isOurChain);
  return new Set(
    declared.filter((name) => {
      return name === trackingChain || isOurChain(name) || (!sharesNone && isSharedChain(name));
    }),
  );
}

/** Our rules in the table `filter`. */
export function parseRules(listing: string): FamilyRules {
  const filter = filterTable(listing);
  const own = ownChains(filter);
  const chains = new Map([...own].map((name): [string, string[]] => [name, []]));
  const hooks = new Map<BuiltinChain, string[]>();
  const others = new Set<string>();
  for (const line of filter.split('\n')) {
    const [, chain, rule] = /^-A (\S+) (.*)$/.exec(line) ?? [];
    if (chain === undefined || rule === undefined) continue;
    const lines = chains.get(chain);
    if (lines !== undefined) lines.push(rule);
    else if (isBuiltin(chain)) {
      const top = topChains[chain];
      if (!own.has(top) || (!rule.endsWith(` -j ${top}`) && rule !== `-j ${top}`)) others.add(chain);
      else {
        const found = hooks.get(chain) ?? [];
        if (others.has(chain)) found.push(behindOthers);
        found.push(rule);
        hooks.set(chain, found);
      }
    }
  }
  const foundTops = new Map<TopChain, Top>();
  for (const [name, lines] of chains) {
    if (!tops.has(name)) continue;
    foundTops.set(name as TopChain, split(lines));
    chains.delete(name);
  }
  const isTaken = declaredChains(filter).some((name) => isSharedChain(name) && !own.has(name));
  return { hooks, tops: foundTops, chains, ...(isTaken && { isTaken }) };
}

function isBuiltin(chain: string): chain is BuiltinChain {
  return (builtinChains as readonly string[]).includes(chain);
}

/** A pod's jump that follows any other rule becomes part of the tail, which then differs from the desired one. */
function split(lines: Lines): Top {
  const first = lines.findIndex((line) => !podJump.test(line));
  return first < 0 ? { pods: lines, tail: [] } : { pods: lines.slice(0, first), tail: lines.slice(first) };
}

/** Names of the sets that rules refer to (`--match-set`). */
export function setsLookedInto({ tops: all, chains }: FamilyRules): Set<string> {
  const names = new Set<string>();
  for (const lines of [...chains.values(), ...[...all.values()].map(({ tail }) => tail ?? [])]) {
    for (const line of lines) {
      for (const [, name = ''] of line.matchAll(/ --match-set (\S+) /g)) names.add(name);
    }
  }
  return names;
}
