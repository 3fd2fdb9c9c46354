/**
 * Unknown paths, with everything in them, on the way through paths that are sorted by their bytes.
 */
import { type ByteString, isAtOrBelow } from '../model/entry.ts';

export class UnreadPaths {
  #paths: ByteString[] = [];

  get isEmpty(): boolean {
    return this.#paths.length === 0;
  }

  /** @param path - Not before those that were added. */
  add(path: ByteString): void {
    this.forgetBefore(path);
    this.#paths.push(path);
  }

  /** Drops those that cannot cover this path, nor any after it. */
  forgetBefore(path: ByteString): void {
    // In sort order, everything below `other` comes before `other` plus '0', the character after '/'.
    this.#paths = this.#paths.filter((other) => other === '/' || path < `${other}0`);
  }

  covers(path: ByteString): boolean {
    return this.#paths.some((unread) => unread === '/' || isAtOrBelow(path, unread));
  }
}
