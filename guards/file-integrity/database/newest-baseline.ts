/**
 * The newest known baseline of a node. It is kept in the API and in this process, out of reach of those who can write
 * to the node's disk: if they restore an old baseline together with its note, it is complete, signed, and the latest
 * one according to that note.
 */
import { BaselineError } from './baseline-error.ts';
import { sameDigest } from './signature.ts';

export interface BaselineIdentity {
  readonly provider: 'native' | 'aide';
  /** Hexadecimal. */
  readonly digest: string;
  /** Part of the signed data. It increases with each baseline of a job, even if the clock is set back. */
  readonly madeAtMs: number;
}

/** The newest known baseline of one job. */
export class NewestBaseline {
  #newest: BaselineIdentity | undefined;
  #current: BaselineIdentity | undefined;

  /** The newest of all known baselines. */
  get newest(): BaselineIdentity | undefined {
    return this.#newest;
  }

  /** The baseline on the disk; undefined until it was read or written. */
  get current(): BaselineIdentity | undefined {
    return this.#current;
  }

  /** Takes the baseline that the API knows. The one known here may be newer, if the API has not yet received its result. */
  learn(known: BaselineIdentity | undefined): void {
    if (known !== undefined && isNewer(known, this.#newest)) this.#newest = known;
  }

  /**
   * Call when a baseline was read from the disk and its signature is valid.
   *
   * @throws {BaselineError} `outdated` if a newer baseline is known
   */
  check(path: string, found: BaselineIdentity): void {
    const newest = this.#newest;
    // A change of the provider replaces the baseline, so its age does not matter.
    if (newest !== undefined && newest.provider !== found.provider) return;
    if (newest !== undefined && isOutdated(found, newest)) {
      const [made, known] = [found, newest].map(({ madeAtMs }) => new Date(madeAtMs).toISOString());
      const why = `it was created at ${made}, and the API knows a later one of this node, of ${known}`;
      throw new BaselineError('outdated', path, why);
    }
    this.made(found);
  }

  /** Call when this baseline has been written to the disk. */
  made(baseline: BaselineIdentity): void {
    this.#newest = baseline;
    this.#current = baseline;
  }

  /** The `madeAtMs` of a new baseline: later than that of every other, whatever the clock says. */
  nextMs(nowMs: number): number {
    return Math.max(nowMs, (this.#newest?.madeAtMs ?? 0) + 1);
  }
}

/** Whether it differs from the newest known baseline without being newer. */
export function isOutdated(
  found: Pick<BaselineIdentity, 'digest' | 'madeAtMs'>,
  newest: Pick<BaselineIdentity, 'digest' | 'madeAtMs'>,
): boolean {
  return found.madeAtMs <= newest.madeAtMs && !sameDigest(found.digest, newest.digest);
}

function isNewer(one: BaselineIdentity, other: BaselineIdentity | undefined): boolean {
  return other === undefined || one.madeAtMs > other.madeAtMs;
}
