/**
 * Files that a trap has led to and that are no longer at its path: renamed, or replaced while they have
 * another name. They stay watched while they exist: otherwise a rename would be enough to read them unseen.
 */
import { type FileIdentity, sameFile } from '../../../lib/sensor/access.ts';
import type { FileLives } from '../../../lib/sensor/paths/file-lives.ts';

/** Maximum number of moved files that stay watched for one trap in one container. */
export const MAX_MOVED_FILES = 4;

const none: readonly FileIdentity[] = [];

/** Which file the path of a request leads to now, and which ones it led to before. */
export class MovedFiles<H extends object> implements Disposable {
  readonly #lives: FileLives<H>;
  readonly #holder: H;
  #current: FileIdentity | undefined;
  #moved = none;

  /** @param holder - `lives` notifies it when one of the files is deleted. */
  constructor(lives: FileLives<H>, holder: H) {
    this.#lives = lives;
    this.#holder = holder;
  }

  /** The file that left the path last comes first. The same array as long as nothing changes. */
  get list(): readonly FileIdentity[] {
    return this.#moved;
  }

  /** Sets the current file of the path; undefined if it has none. Returns how many files were dropped for lack of room. */
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
    // A replacement usually deletes the old file: read the events now, to know whether it did.
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
    // The oldest one stays: the trap was made for the file that existed then, and it must not be possible to get rid of
    // it by moving four more files through the path. The second oldest is dropped.
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

  /** Call when the file was deleted. Returns whether it was one of the moved files. */
  ended(file: FileIdentity): boolean {
    const left = this.#moved.filter((one) => !sameFile(one, file));
    // The file may be the current one of the path: the path tracker reports that deletion.
    if (left.length === this.#moved.length) return false;
    this.#lives.release(file, this.#holder);
    this.#set(left);
    return true;
  }

  #set(moved: readonly FileIdentity[]): void {
    this.#moved = moved.length === 0 ? none : moved;
  }

  /** Releases all files. */
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
