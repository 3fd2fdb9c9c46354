/**
 * Finds files that were only renamed, which the attribute `I` allows within a directory, as when logs are rotated.
 *
 * Whether a file was renamed is known only once its whole directory was read. So the differences of a directory wait
 * until then; since paths are sorted, at most one directory waits at each level of the path.
 */
import { type AttributeSet, setOf } from '../model/attributes.ts';
import type { ByteString, Entry } from '../model/entry.ts';

/** A path that differs: added (no `old`), removed (no `now`), or changed. */
export interface Pair {
  readonly path: ByteString;
  readonly old: Entry | undefined;
  readonly now: Entry | undefined;
  /** The attributes that differ, if both entries exist. */
  readonly changed: AttributeSet;
}

/** Compares two entries of a file; may have to read the file if it was `growing`. */
export type ChangedOf = (old: Entry, now: Entry) => Promise<AttributeSet>;

/** `movedIn`: a file with another name was renamed to this path. `movedOut`: the old file of this path was renamed. */
export interface MovedPair extends Pair {
  readonly movedIn: boolean;
  readonly movedOut: boolean;
}

const followsInode = setOf('I');
/** Attributes that only control the comparison: they may differ between the two names of a renamed file. */
const howToCompare = setOf('ANF', 'ARF', 'I', 'compressed', 'growing');
const changeTime = setOf('c');

interface Waiting extends Pair {
  movedIn: boolean;
  movedOut: boolean;
}

interface Directory {
  /** The directory's path, with a trailing slash. */
  readonly prefix: ByteString;
  readonly waiting: Waiting[];
}

/** Takes pairs in the order of their paths, and returns them with the moves that were found. */
export class MovedFiles {
  readonly #open: Directory[] = [];
  readonly #changedOf: ChangedOf;

  constructor(changedOf: ChangedOf) {
    this.#changedOf = changedOf;
  }

  /** Adds a pair. Returns the pairs of directories that are complete: those that do not contain this path. */
  async add(pair: Pair): Promise<readonly MovedPair[]> {
    const done = await this.#leave(pair.path);
    const prefix = pair.path.slice(0, pair.path.lastIndexOf('/') + 1);
    let directory = this.#open.at(-1);
    if (directory?.prefix !== prefix) {
      directory = { prefix, waiting: [] };
      this.#open.push(directory);
    }
    directory.waiting.push({ ...pair, movedIn: false, movedOut: false });
    return done;
  }

  end(): Promise<readonly MovedPair[]> {
    return this.#leave('');
  }

  async #leave(path: ByteString): Promise<MovedPair[]> {
    const done: MovedPair[] = [];
    for (
      let last = this.#open.at(-1);
      last !== undefined && !path.startsWith(last.prefix);
      last = this.#open.at(-1)
    ) {
      this.#open.pop();
      await matchMoves(last.waiting, this.#changedOf);
      for (const pair of last.waiting) done.push(pair);
    }
    return done;
  }
}

async function matchMoves(pairs: readonly Waiting[], changedOf: ChangedOf): Promise<void> {
  const sources = new Map<bigint, Waiting>();
  for (const pair of pairs) {
    const { old } = pair;
    if (old === undefined || (old.attributes & followsInode) === 0 || old.inode === 0n) continue;
    if (!sources.has(old.inode)) sources.set(old.inode, pair);
  }
  if (sources.size === 0) return;
  for (const target of pairs) {
    if (target.now === undefined) continue;
    const source = sources.get(target.now.inode);
    if (source?.old === undefined || source === target || source.movedOut) continue;
    if (((source.old.attributes ^ target.now.attributes) & ~howToCompare) !== 0) continue;
    // A rename changes the change time.
    if (((await changedOf(source.old, target.now)) & ~changeTime) !== 0) continue;
    source.movedOut = true;
    target.movedIn = true;
  }
}
