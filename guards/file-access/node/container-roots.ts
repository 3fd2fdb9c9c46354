/** The roots of the containers in which files and directories are followed: each is opened once for all of them. */
import { resolve } from 'node:path';

import { RampartError } from '../../../lib/errors/errors.ts';
import { Listeners } from '../../../lib/time/listeners.ts';
import { ContainerRoot } from './container-root.ts';

/** A root, as long as something in it is followed. */
export class SharedRoot {
  readonly root: ContainerRoot;
  uses = 0;

  constructor(root: ContainerRoot) {
    this.root = root;
  }
}

export class ContainerRoots {
  readonly #byPath = new Map<string, SharedRoot>();
  readonly #listeners = new Listeners<[evicted: SharedRoot]>();
  /** Roots whose process the running {@link ContainerRoots.together} found, keyed by their path as written. */
  #seen: Map<string, SharedRoot> | undefined;

  /** Calls `listener` with a root that is another container's now: it ends what it follows there, and releases it. */
  onEvicted(listener: (evicted: SharedRoot) => void): Disposable {
    return this.#listeners.add(listener);
  }

  /** For many {@link ContainerRoots.take} in `action`: checks only once whether a process exists. */
  together(action: () => void): void {
    this.#seen = new Map();
    try {
      action();
    } finally {
      this.#seen = undefined;
    }
  }

  /** The root with this path, if it is in use. */
  at(path: string): SharedRoot | undefined {
    return this.#byPath.get(path);
  }

  /**
   * One more use of a root, for the caller to {@link ContainerRoots.release}. A root that another container had before is evicted.
   *
   * @returns why it cannot be opened, also if it is another process's.
   */
  take(asked: { readonly root: string; readonly containerId: string }): SharedRoot | RampartError {
    const shared = this.#find(asked);
    if (shared instanceof SharedRoot) shared.uses += 1;
    return shared;
  }

  release(shared: SharedRoot): void {
    shared.uses -= 1;
    if (shared.uses > 0) return;
    shared.root[Symbol.dispose]();
    if (this.#byPath.get(shared.root.path) === shared) this.#byPath.delete(shared.root.path);
  }

  /**
   * For who has begun to hold the process of a root by its path: while the process that is held here is there, its number is no
   * other's, so both are the same. Otherwise the root is evicted.
   */
  verify(shared: SharedRoot): void {
    if (!shared.root.alive) this.#evict(shared);
  }

  #find({
    root: asWritten,
    containerId,
  }: {
    readonly root: string;
    readonly containerId: string;
  }): SharedRoot | RampartError {
    const seen = this.#seen?.get(asWritten);
    if (seen?.root.containerId === containerId && this.#byPath.get(seen.root.path) === seen) return seen;
    const path = resolve(asWritten);
    const known = this.#byPath.get(path);
    if (known !== undefined) {
      if (known.root.containerId === containerId && known.root.alive) {
        this.#seen?.set(asWritten, known);
        return known;
      }
      // The number of its process is another container's now, or soon will be.
      this.#evict(known);
    }
    try {
      const shared = new SharedRoot(new ContainerRoot(path, containerId));
      this.#byPath.set(path, shared);
      return shared;
    } catch (error) {
      if (error instanceof RampartError) return error;
      throw error;
    }
  }

  #evict(shared: SharedRoot): void {
    this.#listeners.notify(shared);
  }
}
