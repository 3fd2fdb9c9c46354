/**
 * The newest known baseline of a node, kept out of reach of those who can write to its disk: in the API, and in this process. Put back
 * together with the note beside it, an older baseline is whole, signed, and the last one to that note.
 */
import { BaselineError } from './baseline-error.ts';
import { sameDigest } from './signature.ts';

export interface BaselineIdentity {
  readonly provider: 'native' | 'aide';
  /** Hexadecimal. */
  readonly digest: string;
  /** Part of what is signed. It grows with each baseline of a job, even if the clock is put back. */
  readonly madeAtMs: number;
}

/** The newest known baseline of one job. */
export class NewestBaseline {
  #newest: BaselineIdentity | undefined;
  #current: BaselineIdentity | undefined;

  /** The newest of all that are known. */
  get newest(): BaselineIdentity | undefined {
    return this.#newest;
  }

  /** The one on the disk, if it was read. */
  get current(): BaselineIdentity | undefined {
    return this.#current;
  }

  /** The one known to the API. A result that the API has not taken yet may be of a newer one. */
  learn(known: BaselineIdentity | undefined): void {
    if (known !== undefined && isNewer(known, this.#newest)) this.#newest = known;
  }

  /**
   * A baseline was read from the disk, and its signature is right.
   *
   * @throws {BaselineError} `outdated` if a newer one is known
   */
  check(path: string, found: BaselineIdentity): void {
    const newest = this.#newest;
    // A baseline of another provider takes its place anyway.
    if (newest !== undefined && newest.provider !== found.provider) return;
    if (newest !== undefined && isOutdated(found, newest)) {
      const [made, known] = [found, newest].map(({ madeAtMs }) => new Date(madeAtMs).toISOString());
      const why = `it was created at ${made}, and the API knows a later one of this node, of ${known}`;
      throw new BaselineError('outdated', path, why);
    }
    this.made(found);
  }

  /** Call once this baseline is in place on the disk. */
  made(baseline: BaselineIdentity): void {
    this.#newest = baseline;
    this.#current = baseline;
  }

  /** When a baseline that is made now is made: after every other, whatever the clock says. */
  nextMs(nowMs: number): number {
    return Math.max(nowMs, (this.#newest?.madeAtMs ?? 0) + 1);
  }
}

/** Whether it is another one than the newest that is known, and no later one. */
export function isOutdated(
  found: Pick<BaselineIdentity, 'digest' | 'madeAtMs'>,
  newest: Pick<BaselineIdentity, 'digest' | 'madeAtMs'>,
): boolean {
  return found.madeAtMs <= newest.madeAtMs && !sameDigest(found.digest, newest.digest);
}

function isNewer(one: BaselineIdentity, other: BaselineIdentity | undefined): boolean {
  return other === undefined || one.madeAtMs > other.madeAtMs;
}
