/** Paths that could not be read, with everything below them, while iterating over sorted paths. */
import { type ByteString, isAtOrBelow } from '../model/entry.ts';

export class UnreadPaths {
  #paths: ByteString[] = [];

  get isEmpty(): boolean {
    return this.#paths.length === 0;
  }

  /** @param path - Must not sort before those that were added. */
  add(path: ByteString): void {
    this.forgetBefore(path);
    this.#paths.push(path);
  }

  /** Drops the paths that cover neither this path nor any that sorts after it. */
  forgetBefore(path: ByteString): void {
    // In sort order, everything below `other` comes before `other` plus '0', the character after '/'.
    this.#paths = this.#paths.filter((other) => other === '/' || path < `${other}0`);
  }

  covers(path: ByteString): boolean {
    return this.#paths.some((unread) => unread === '/' || isAtOrBelow(path, unread));
  }
}
