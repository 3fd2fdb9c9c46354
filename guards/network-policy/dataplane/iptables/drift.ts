/** Changes of our rules by other programs. */
import type { Drift } from '../dataplane.ts';

import { canKeep, sameMembers } from './ipset.ts';
import { builtinChains, families } from './names.ts';
import { type IptablesRules, moreIn, sameLines, type Top } from './rules.ts';

/** @param ownerOf - Names the owner of a chain, for messages. */
export function driftBetween(
  wanted: IptablesRules,
  actual: IptablesRules,
  ownerOf: (chain: string) => string | undefined,
): Drift[] {
  const drift: Drift[] = [];
  const describe = (name: string): string => {
    const owner = ownerOf(name);
    return owner === undefined ? `chain ${name}` : `chain ${name} (${owner})`;
  };
  for (const family of families) {
    const [own, found] = [wanted.families[family], actual.families[family]];
    for (const name of builtinChains) {
      const [lines, there] = [own.hooks.get(name) ?? [], found.hooks.get(name) ?? []];
      if (!sameLines(lines, there))
        drift.push({ what: `chain ${name}`, how: there.length === 0 ? 'missing' : 'changed' });
    }
    compare(own.tops, found.tops, sameTop, describe, drift);
    compare(own.chains, found.chains, sameLines, describe, drift);
  }
  compare(
    wanted.sets,
    actual.sets,
    (set, there) => canKeep(there, set) && sameMembers(set.members, there.members),
    (name) => `set ${name}`,
    drift,
  );
  return drift;
}

function sameTop(a: Top, b: Top): boolean {
  return (
    sameLines(a.tail ?? [], b.tail ?? []) &&
    moreIn(a.pods, b.pods).length === 0 &&
    moreIn(b.pods, a.pods).length === 0
  );
}

function compare<T>(
  wanted: ReadonlyMap<string, T>,
  actual: ReadonlyMap<string, T>,
  isSame: (wanted: T, actual: T) => boolean,
  describe: (name: string) => string,
  drift: Drift[],
): void {
  for (const [name, own] of wanted) {
    const found = actual.get(name);
    if (found === undefined) drift.push({ what: describe(name), how: 'missing' });
    else if (!isSame(own, found)) drift.push({ what: describe(name), how: 'changed' });
  }
  for (const name of actual.keys()) if (!wanted.has(name)) drift.push({ what: describe(name), how: 'added' });
}
