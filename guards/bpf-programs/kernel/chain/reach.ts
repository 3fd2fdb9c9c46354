/**
 * Finds the program of a hook after which nothing runs. A program's decisions cannot be observed, but its runs can be counted: if it ran a
 * hundred times and the next one never, it has ended the chain each time.
 */

/** The counts of one hook, in the order in which its programs run. */
export interface HookCounts {
  /** Identifies the hook. */
  readonly key: string;
  readonly members: readonly {
    readonly programId: number;
    /** Counted from any starting point: only differences matter. */
    readonly runs: bigint;
  }[];
}

interface Known {
  readonly programs: string;
  /** The counts when the last program of the hook was last seen to run, or when the answer changed. */
  readonly runs: readonly bigint[];
  /** How often a program has to run, while nothing after it does, before that is reported. */
  readonly min: bigint;
  readonly endsAt: number | undefined;
}

const MIN = 100n;
/** Factor for `min` after a wrong answer: a program may let one packet in a thousand pass. */
const CAUTION = 10n;

export class Reach {
  readonly #hooks = new Map<string, Known>();

  /** @returns the position after which nothing in the hook runs; undefined if unknown, or if all run. */
  count({ key, members }: HookCounts): number | undefined {
    const programs = members.map(({ programId }) => programId).join();
    const runs = members.map((member) => member.runs);
    const before = this.#hooks.get(key);
    const since = before?.programs === programs ? runs.map((now, at) => now - (before.runs[at] ?? 0n)) : [];
    if (before === undefined || since.length === 0 || since.some((count) => count < 0n)) {
      this.#hooks.set(key, { programs, runs, min: MIN, endsAt: undefined });
      return undefined;
    }
    const at = since.findLastIndex((count) => count > 0n);
    const { min, endsAt } = before;
    if (at < 0) return endsAt;
    const isRefuted = endsAt !== undefined && at > endsAt;
    const isAtEnd = at === members.length - 1;
    const isKnown = !isAtEnd && !isRefuted && (at === endsAt || (since[at] ?? 0n) >= min);
    if (isRefuted || isAtEnd || isKnown) {
      const cautious = isRefuted ? min * CAUTION : min;
      this.#hooks.set(key, { programs, runs, min: cautious, endsAt: isKnown ? at : undefined });
    }
    return this.#hooks.get(key)?.endsAt;
  }

  /** Forgets all other hooks. */
  keepOnly(keys: ReadonlySet<string>): void {
    for (const key of this.#hooks.keys()) if (!keys.has(key)) this.#hooks.delete(key);
  }
}
