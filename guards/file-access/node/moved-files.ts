/**
 * Files that a trap has led to and that are no longer at its path: renamed, or replaced while they have
 * another name. They stay watched while they exist: otherwise a rename would be enough to read them unseen.
 */
import { type FileIdentity, sameFile } from '../../../lib/sensor/access.ts';
import type { FileLives } from '../../../lib/sensor/paths/file-lives.ts';

/** Limit for one trap in one container. */
export const MAX_MOVED_FILES = 4;

const none: readonly FileIdentity[] = [];

/** Which file the path of one request leads to, and those it has led to before. */
export class MovedFiles<H extends object> implements Disposable {
  readonly #lives: FileLives<H>;
  readonly #holder: H;
  #current: FileIdentity | undefined;
  #moved = none;

  /** @param holder - Gets the end of a file from `lives`. */
  constructor(lives: FileLives<H>, holder: H) {
    this.#lives = lives;
    this.#holder = holder;
  }

  /** The one that left last comes first. The same array as long as nothing is different. */
  get list(): readonly FileIdentity[] {
    return this.#moved;
  }

  /**
   * Sets the file that the path has now; undefined: it has none. Returns how many files were dropped for lack of room.
   */
  pathLeadsTo(now: FileIdentity | undefined): number {
    const before = this.#current;
    if (before !== undefined && now !== undefined && sameFile(before, now)) return 0;
    this.#current = now;
    if (now !== undefined) {
      this.#lives.hold(now, this.#holder);
      if (this.#moved.some((one) => sameFile(one, now)))
        this.#set(this.#moved.filter((one) => !sameFile(one, now)));
    }
    if (before === undefined) return 0;
    // A replacement usually deletes the old file: that is known by now.
    this.#lives.update();
    if (!this.#lives.has(before)) {
      this.#lives.release(before, this.#holder);
      return 0;
    }
    const all = [before, ...this.#moved];
    if (all.length <= MAX_MOVED_FILES) {
      this.#set(all);
      return 0;
    }
    // The first stays: the trap was made for the file that existed then, and moving four more files through the path
    // must not be enough to get rid of it.
    const [letGo] = all.splice(MAX_MOVED_FILES - 1, 1);
    if (letGo !== undefined) this.#lives.release(letGo, this.#holder);
    this.#set(all);
    return 1;
  }

  /** Takes over the moved files of a predecessor for the same path. */
  inherit(from: MovedFiles<H>): void {
    for (const one of from.#moved) this.#lives.hold(one, this.#holder);
    this.#set(from.#moved);
  }

  /** The file is deleted. Returns whether it was one of the moved files. */
  ended(file: FileIdentity): boolean {
    const left = this.#moved.filter((one) => !sameFile(one, file));
    // If it is the present file of the path, the path tracker reports that change.
    if (left.length === this.#moved.length) return false;
    this.#lives.release(file, this.#holder);
    this.#set(left);
    return true;
  }

  #set(moved: readonly FileIdentity[]): void {
    this.#moved = moved.length === 0 ? none : moved;
  }

  /** Forgets all of them. */
  [Symbol.dispose](): void {
    if (this.#current !== undefined) this.#lives.release(this.#current, this.#holder);
    for (const one of this.#moved) this.#lives.release(one, this.#holder);
    this.#current = undefined;
    this.#moved = none;
  }
}

export function sameFiles(a: readonly FileIdentity[], b: readonly FileIdentity[]): boolean {
  return a === b || (a.length === b.length && a.every((one, at) => sameFile(one, b[at] as FileIdentity)));
}
