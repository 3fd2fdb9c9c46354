/** Begins to watch trees of directories, a part in each turn of the event loop: a tree that was moved here may be of any size. */
import { pathIn } from './authors.ts';
import type { ByteString } from './change.ts';
import type { Directories } from './directories.ts';

/** Directories watched in one turn, some ms. */
const WATCHED_AT_ONCE = 64;

interface AdoptionsOptions {
  readonly directories: Directories;
  /** Whether a directory below should be watched too. Does not throw. */
  readonly wants: (path: ByteString) => boolean;
  /** Called when a whole tree is watched. */
  readonly onDone: (top: ByteString | undefined) => void;
}

export class Adoptions implements Disposable {
  readonly #options: AdoptionsOptions;
  readonly #trees: { readonly top: ByteString | undefined; readonly left: ByteString[] }[] = [];
  #next: NodeJS.Immediate | undefined;
  #disposed = false;

  constructor(options: AdoptionsOptions) {
    this.#options = options;
  }

  /**
   * Watches the directories in `left` and the wanted ones below them; a small tree is done when this returns.
   *
   * @param top - The top of the tree; undefined: `left` has all directories watched so far, to examine them again.
   */
  add(top: ByteString | undefined, left: ByteString[]): void {
    this.#trees.push({ top, left });
    if (this.#next === undefined) this.#watchSome();
  }

  #watchSome(): void {
    this.#next = undefined;
    const { directories, wants, onDone } = this.#options;
    for (let some = WATCHED_AT_ONCE; some > 0 && !this.#disposed;) {
      const tree = this.#trees[0];
      if (tree === undefined) return;
      const path = tree.left.pop();
      if (path === undefined) {
        this.#trees.shift();
        onDone(tree.top);
        continue;
      }
      some -= 1;
      directories.watch(path, (names) => {
        for (const name of names) {
          const below = pathIn(path, name);
          // `left` already has all watched directories.
          if (tree.top === undefined && directories.has(below)) continue;
          if (wants(below)) tree.left.push(below);
        }
      });
    }
    if (!this.#disposed) this.#next = setImmediate(() => this.#watchSome());
  }

  [Symbol.dispose](): void {
    this.#disposed = true;
    clearImmediate(this.#next);
    this.#trees.length = 0;
  }
}
