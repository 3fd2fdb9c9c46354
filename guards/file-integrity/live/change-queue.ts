/**
 * Changed paths that have to be compared with the baseline again: each once, however often it changes. In
 * memory only.
 */
import type { ByteString } from '../model/entry.ts';
import type { ChangeAuthor } from '../model/finding.ts';
import { bothHands, type Hand } from '../model/hand.ts';

export interface ChangedPath {
  /** With the prefix of the root. */
  readonly path: ByteString;
  /** Including its contents. */
  readonly below: boolean;
  /** Who last changed its content or name; undefined if it was not seen. */
  readonly author: ChangeAuthor | undefined;
  /** Who changed attributes alone, after that. */
  readonly touchedBy: ChangeAuthor | undefined;
  /** Wall clock of the last change. */
  readonly changedMs: number;
  /** Nothing else than attributes has changed. */
  readonly isTouch: boolean;
  /** Who moved the directory, with everything in it, here or away. */
  readonly authorBelow: ChangeAuthor | undefined;
  /** Another name of a changed file, whose names have been looked up already. */
  readonly isLink: boolean;
  /** It does not say what has changed: the author of the change before it stays. */
  readonly saysLittle: boolean;
  /** Whose hand made the change; undefined if unknown. */
  readonly hand: Hand | undefined;
}

export type PathChange = Partial<Omit<ChangedPath, 'path'>>;

export class ChangeQueue {
  readonly #max: number;
  #paths = new Map<ByteString, ChangedPath>();
  #isFull = false;

  /** @param max paths; one more, and all are forgotten */
  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#paths.size;
  }

  /** Too many changed since the last call: the changes are no longer known. */
  takeOverflow(): boolean {
    const isFull = this.#isFull;
    this.#isFull = false;
    return isFull;
  }

  add(path: ByteString, change: PathChange): void {
    const known = this.#paths.get(path);
    const { below = false, author, touchedBy, authorBelow, isLink = false, saysLittle = false } = change;
    const { changedMs = Date.now(), isTouch = false, hand } = change;
    if (known === undefined && this.#paths.size >= this.#max) {
      this.#paths.clear();
      this.#isFull = true;
    }
    const added = {
      ...{ path, below, author, touchedBy, changedMs, isTouch, authorBelow, isLink, saysLittle },
      hand,
    };
    this.#paths.set(path, known === undefined ? added : bothOf(known, added));
  }

  /** Returns changes that were taken but not compared; entries added since are later. */
  putBack(changes: Iterable<ChangedPath>): void {
    for (const change of changes) {
      const later = this.#paths.get(change.path);
      this.add(change.path, later === undefined ? change : bothOf(change, later));
    }
  }

  /** Removes and returns the oldest changes. */
  take(max: number): ChangedPath[] {
    const taken: ChangedPath[] = [];
    for (const [path, change] of this.#paths) {
      if (taken.length >= max) break;
      taken.push(change);
      this.#paths.delete(path);
    }
    return taken;
  }

  clear(): void {
    this.#paths.clear();
  }
}

/** Two changes of a path as one. */
export function bothOf(earlier: ChangedPath, later: ChangedPath): ChangedPath {
  return {
    path: later.path,
    below: later.below || earlier.below,
    author: later.author ?? (later.isTouch || later.saysLittle ? earlier.author : undefined),
    touchedBy: later.touchedBy ?? (later.saysLittle ? earlier.touchedBy : undefined),
    changedMs: Math.max(later.changedMs, earlier.changedMs),
    isTouch: later.isTouch && earlier.isTouch,
    authorBelow: later.authorBelow ?? earlier.authorBelow,
    isLink: later.isLink && earlier.isLink,
    saysLittle: later.saysLittle && earlier.saysLittle,
    hand: bothHands(earlier.hand, later.hand),
  };
}
