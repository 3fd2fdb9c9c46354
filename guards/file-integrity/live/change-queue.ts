/** Changed paths that have to be compared with the baseline again: each path once, however often it changes. Only in memory. */
import type { ByteString } from '../model/entry.ts';
import type { ChangeAuthor } from '../model/finding.ts';
import { bothHands, type Hand } from '../model/hand.ts';

export interface ChangedPath {
  /** Including the prefix of the root. */
  readonly path: ByteString;
  /** Whether everything below the path has to be compared too. */
  readonly below: boolean;
  /** Who last changed the content or the name; undefined if that was not seen. */
  readonly author: ChangeAuthor | undefined;
  /** Who changed only attributes, after the author's change. */
  readonly touchedBy: ChangeAuthor | undefined;
  /** Wall-clock time of the last change, in ms since 1970. */
  readonly changedMs: number;
  /** Whether only attributes were changed. */
  readonly isTouch: boolean;
  /** Who moved the directory, with everything in it, here or away. */
  readonly authorBelow: ChangeAuthor | undefined;
  /** Whether the path is another name (hard link) of a changed file, whose names have already been looked up. */
  readonly isLink: boolean;
  /** Whether the change does not show what was changed: then the author of the previous change is kept. */
  readonly saysLittle: boolean;
  /** Whether the change was made by a package manager, by others, or unseen; undefined if unknown. */
  readonly hand: Hand | undefined;
}

export type PathChange = Partial<Omit<ChangedPath, 'path'>>;

export class ChangeQueue {
  readonly #max: number;
  #paths = new Map<ByteString, ChangedPath>();
  #isFull = false;

  /** @param max limit of paths; when one more is added, all others are dropped */
  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#paths.size;
  }

  /** Whether changes were dropped since the last call, because there were too many. */
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

  /** Adds changes back that were taken but not compared; those that were added since count as later. */
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

/** Merges two changes of a path. */
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
