/** Findings of the last 24 hours that need a person's decision. */
import type { ListedFinding } from './use-findings.ts';

export interface Decisions {
  /** Number of findings by what they are, such as `changed files`. */
  readonly counts: readonly {
    readonly what: readonly [one: string, several: string];
    readonly count: number;
  }[];
  readonly total: number;
  /** Whether a finding waits for a decision. */
  readonly isOpen: (finding: Pick<ListedFinding, 'decision' | 'finding'>) => boolean;
}

interface Open {
  readonly what: readonly [one: string, several: string];
  readonly times: number;
  count: number;
}

/** @param list - Newest first: the newest line of a key says whether it is open. */
export function openDecisions(list: readonly ListedFinding[], sinceMs: number): Decisions {
  const known = new Map<string, Open | undefined>();
  for (const one of list) {
    const { decision, timeMs } = one;
    if (decision === null || timeMs < sinceMs) continue;
    const key = keyOf(one);
    if (known.has(key)) {
      const open = known.get(key);
      if (open !== undefined && decision.isOpen) open.count++;
    } else
      known.set(
        key,
        decision.isOpen ? { what: decision.what, times: decision.times ?? 1, count: 1 } : undefined,
      );
  }
  const open = new Set<string>();
  const counts = new Map<string, { readonly what: readonly [one: string, several: string]; count: number }>();
  for (const [key, one] of known) {
    if (one === undefined || one.count < one.times) continue;
    open.add(key);
    const [, several] = one.what;
    const sum = counts.get(several) ?? { what: one.what, count: 0 };
    sum.count++;
    counts.set(several, sum);
  }
  return {
    // Sorted, so that the order stays the same when findings come.
    counts: [...counts.keys()].toSorted().flatMap((several) => counts.get(several) ?? []),
    total: open.size,
    isOpen: (finding) => finding.decision?.isOpen === true && open.has(keyOf(finding)),
  };
}

function keyOf({ finding, decision }: Pick<ListedFinding, 'decision' | 'finding'>): string {
  return `${finding.guard}\0${decision?.key ?? ''}`;
}
