/**
 * A directory on the way of a walk, and what is left of all of them when the walk stops.
 *
 * @module
 */
import type { ByteString } from '../entry.ts';
import type { Directory } from './directories.ts';
import type { FilesAsked } from './selected.ts';
import type { Task } from './tasks.ts';

/** Names of one directory that go back to the queue together: what a thread does at once. */
const pieceWeight = 512;
/**
 * Of a directory, which may be a large tree: a few of them are a piece, or there would be one with nearly everything in it and
 * nothing for the other threads.
 */
const directoryWeight = 32;

export interface Frame {
  /** Of the tree, without its prefix; empty for the root. */
  readonly path: ByteString;
  items: string[];
  next: number;
  /** Undefined while so many others are open. */
  directory: Directory | undefined;
  /** What is asked of the regular files in it, once that is known. */
  files?: FilesAsked;
  /** Names of directories in it that have been listed, by their own names. */
  listed?: Map<ByteString, string[]>;
}

/** Puts an item among those that have not been looked at, where it belongs. */
export function insertItem(frame: Frame, item: string): void {
  let at = frame.next;
  while ((frame.items[at] ?? item) < item) at++;
  if (frame.items[at] !== item) frame.items.splice(at, 0, item);
}

/**
 * Of sorted items, each name once: one that is taken away and made again while its directory is listed may be listed twice (XFS,
 * tmpfs). Changes `items`, and returns them.
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

/** Whatever their types. From their ends, where names that follow one another differ. */
function isSameName(one: string, other: string): boolean {
  if (one.length !== other.length || one.endsWith('/') !== other.endsWith('/')) return false;
  let at = one.length - 2;
  while (at >= 0 && one.charCodeAt(at) === other.charCodeAt(at)) at--;
  return at < 0;
}

/** What has not been looked at: of the deepest directory first, since that comes first. */
export function restOf(stack: readonly Frame[]): Task[] {
  const rest: Task[] = [];
  for (const { path, items, next, listed } of stack.toReversed()) {
    let waiting: string[] = [];
    let weight = 0;
    const end = (): void => {
      if (waiting.length > 0) rest.push({ directory: path, items: waiting });
      waiting = [];
      weight = 0;
    };
    for (let at = next; at < items.length; at++) {
      const item = items[at] ?? '';
      const below = item.endsWith('/') ? listed?.get(item.slice(0, -1)) : undefined;
      if (below !== undefined) {
        end();
        rest.push({ directory: `${path}/${item.slice(0, -1)}`, items: below });
      } else {
        waiting.push(item);
        weight += item.endsWith('/') ? directoryWeight : 1;
        if (weight >= pieceWeight) end();
      }
    }
    end();
  }
  return rest;
}
