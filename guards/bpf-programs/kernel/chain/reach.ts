/**
 * Behind which program of a hook nothing runs. The decisions of a program cannot be seen from outside, but how often each has run can: if one ran
 * a hundred times and the next one never, it ended the chain each time.
 */

/** One hook, in the order it runs. */
export interface HookCounts {
  /** Names the hook. */
  readonly key: string;
  readonly members: readonly {
    readonly programId: number;
    /** Counted since any time: only differences matter. */
    readonly runs: bigint;
  }[];
}

interface Known {
  readonly programs: string;
  /** When something last ran at the end, or the answer changed. */
  readonly runs: readonly bigint[];
  /** Runs of a program, with none behind it, before that is reported. */
  readonly min: bigint;
  readonly endsAt: number | undefined;
}

const MIN = 100n;
/** After an answer that was wrong: a program may let one packet of a thousand go on. */
const CAUTION = 10n;

export class Reach {
  readonly #hooks = new Map<string, Known>();

  /** @returns the place in the hook behind which nothing runs, as far as that is known. */
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

  /** Forgets all others. */
  keepOnly(keys: ReadonlySet<string>): void {
    for (const key of this.#hooks.keys()) if (!keys.has(key)) this.#hooks.delete(key);
  }
}
