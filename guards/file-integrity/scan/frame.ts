/** A directory on the path of a walk, and the work that is left when the walk stops. */
import type { ByteString } from '../model/entry.ts';
import { depthOf, type Directory } from './directories.ts';
import type { FilesAsked } from './selected.ts';
import type { DirectoryIdentity, Names, Task } from './tasks.ts';

/** Weight of a piece of work, which a thread takes as a whole: the number of names that go back to the queue together. */
const pieceWeight = 512;
/**
 * Weight of a directory, which may be a large tree. So a few directories make a piece; otherwise one piece could
 * contain nearly everything and leave nothing for the other threads.
 */
const directoryWeight = 32;

export interface Frame {
  /** Path in the tree, without the prefix; empty for the root. */
  readonly path: ByteString;
  items: string[];
  next: number;
  /** Undefined if it was closed because too many others are open. */
  directory: Directory | undefined;
  /** Its identity when it was last open. */
  identity?: DirectoryIdentity | undefined;
  /** The attributes requested for its regular files, once they are known. */
  files?: FilesAsked;
  /** Children that were listed before the walk entered them: the items of each, keyed by the child's name. */
  listed?: Map<ByteString, string[]>;
}

/** Inserts an item among those that are still to be examined, in order. */
export function insertItem(frame: Frame, item: string): void {
  let at = frame.next;
  while ((frame.items[at] ?? item) < item) at++;
  if (frame.items[at] !== item) frame.items.splice(at, 0, item);
}

/**
 * Removes duplicate names from sorted items: a name that is removed and created again while its directory is listed may
 * be listed twice (XFS, tmpfs). Changes and returns `items`.
 */
export function eachOnce(items: string[]): string[] {
  let kept = 0;
  for (let at = 1; at < items.length; at++) {
    const item = items[at] ?? '';
    if (!isSameName(items[kept] ?? '', item)) items[++kept] = item;
  }
  items.length = Math.min(items.length, kept + 1);
  return items;
}

/** Whether two items have the same name, whatever their types. Compares from the end, where sorted names differ. */
function isSameName(one: string, other: string): boolean {
  if (one.length !== other.length || one.endsWith('/') !== other.endsWith('/')) return false;
  let at = one.length - 2;
  while (at >= 0 && one.charCodeAt(at) === other.charCodeAt(at)) at--;
  return at < 0;
}

/** The remaining work: the deepest directory comes first, because it is first in the order of paths. */
export function restOf(stack: readonly Frame[]): readonly Task[] {
  const rest = new Pieces();
  for (const { path, items, next, listed, identity } of stack.toReversed()) {
    rest.enter(path, identity);
    for (let at = next; at < items.length; at++) {
      const item = items[at] ?? '';
      const below = item.endsWith('/') ? listed?.get(item.slice(0, -1)) : undefined;
      if (below === undefined) rest.add(item);
      else {
        rest.enter(`${path}/${item.slice(0, -1)}`);
        for (const one of below) rest.add(one);
        rest.enter(path, identity);
      }
    }
  }
  return rest.end();
}

class Pieces {
  readonly #all: Task[] = [];
  #piece: (Names & { readonly items: string[] })[] = [];
  #weight = 0;
  #count = 0;
  #depth = 0;
  #directory: ByteString = '';
  #identity: DirectoryIdentity | undefined;

  enter(directory: ByteString, identity?: DirectoryIdentity): void {
    this.#directory = directory;
    this.#identity = identity && { device: identity.device, inode: identity.inode };
  }

  add(item: string): void {
    if (this.#count++ === 0) this.#depth = depthOf(this.#directory);
    let names = this.#piece.at(-1);
    if (names?.directory !== this.#directory) {
      names = { directory: this.#directory, items: [], identity: this.#identity };
      this.#piece.push(names);
    }
    names.items.push(item);
    this.#weight += item.endsWith('/') ? directoryWeight : 1;
    // Opening a deep directory takes long, so a piece must have enough names to be worth it.
    if (this.#weight >= pieceWeight && this.#count >= this.#depth) this.#endPiece();
  }

  end(): readonly Task[] {
    this.#endPiece();
    return this.#all;
  }

  #endPiece(): void {
    const [first, ...after] = this.#piece;
    if (first !== undefined) this.#all.push(after.length > 0 ? { ...first, after } : first);
    this.#piece = [];
    this.#weight = 0;
    this.#count = 0;
  }
}
