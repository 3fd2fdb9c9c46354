/**
 * Files that only changed their name, which the attribute `I` allows within a directory: a log that is rotated.
 *
 * Whether `a` is what was `b` is known when the whole directory is. Its differences wait until then; all paths in it follow
 * one another, so there is one directory waiting for each level of the path.
 */
import { type AttributeSet, setOf } from '../model/attributes.ts';
import type { ByteString, Entry } from '../model/entry.ts';

/** A path that differs: it was or is missing, or has changed. */
export interface Pair {
  readonly path: ByteString;
  readonly old: Entry | undefined;
  readonly now: Entry | undefined;
  /** The attributes that differ, if both entries exist. */
  readonly changed: AttributeSet;
}

/** Tells what differs between two sights of a file; one that was `growing` may have to be read for it. */
export type ChangedOf = (old: Entry, now: Entry) => Promise<AttributeSet>;

/** The kind of move: another name's file has come here, or the file here has gone to another name. */
export interface MovedPair extends Pair {
  readonly movedIn: boolean;
  readonly movedOut: boolean;
}

const followsInode = setOf('I');
/** Attributes that say how to compare; two names of one file may differ in them. */
const howToCompare = setOf('ANF', 'ARF', 'I', 'compressed', 'growing');
const changeTime = setOf('c');

interface Waiting extends Pair {
  movedIn: boolean;
  movedOut: boolean;
}

interface Directory {
  /** With its slash. */
  readonly prefix: ByteString;
  readonly waiting: Waiting[];
}

/** Takes pairs in the order of their paths, and gives them back with what was moved. */
export class MovedFiles {
  readonly #open: Directory[] = [];
  readonly #changedOf: ChangedOf;

  constructor(changedOf: ChangedOf) {
    this.#changedOf = changedOf;
  }

  /** Adds a pair. Returns those that are complete: of directories that this one is not in. */
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
    // A rename sets it.
    if (((await changedOf(source.old, target.now)) & ~changeTime) !== 0) continue;
    source.movedOut = true;
    target.movedIn = true;
  }
}
