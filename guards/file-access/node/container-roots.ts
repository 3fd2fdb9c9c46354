/** The roots of the containers in which files and directories are followed: each is opened once for all of them. */
import { resolve } from 'node:path';

import { RampartError } from '../../../lib/errors/errors.ts';
import { Listeners } from '../../../lib/time/listeners.ts';
import { ContainerRoot } from './container-root.ts';

/** A root in which something is followed. */
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
  /**
   * Roots whose process was already found alive during the current {@link ContainerRoots.together}, keyed by their path
   * as written.
   */
  #seen: Map<string, SharedRoot> | undefined;

  /** Calls `listener` when another container has taken over a root: it then ends what it follows there and releases the root. */
  onEvicted(listener: (evicted: SharedRoot) => void): Disposable {
    return this.#listeners.add(listener);
  }

  /** During `action`, {@link ContainerRoots.take} checks only once for each root whether its process exists. */
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
   * Uses a root once more; the caller must {@link ContainerRoots.release} it. If another container had this root
   * before, that one is evicted.
   *
   * @returns an error if the root cannot be opened, or belongs to another process.
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
   * Call after opening the root's process again by its path. If the process held here is alive, its PID was not reused,
   * so both are the same process; otherwise the root is evicted.
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
      // The PID belongs to another container now, or soon will.
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
