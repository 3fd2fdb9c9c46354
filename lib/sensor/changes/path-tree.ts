/** A set of paths. Finding those below a directory takes time in proportion to their number. Pure. */
import type { ByteString } from './change.ts';

export class PathTree {
  readonly #paths = new Set<ByteString>();
  /** For each directory that has a path of the set below it, at any depth: its children on the way there. */
  readonly #children = new Map<ByteString, Set<ByteString>>();

  get size(): number {
    return this.#paths.size;
  }

  add(path: ByteString): void {
    this.#paths.add(path);
    for (let at = path, above = parentOf(at); above !== undefined; at = above, above = parentOf(at)) {
      const children = this.#children.get(above);
      if (children === undefined) this.#children.set(above, new Set([at]));
      else if (children.has(at)) return;
      else children.add(at);
    }
  }

  delete(path: ByteString): void {
    this.#paths.delete(path);
    for (let at = path, above = parentOf(at); above !== undefined; at = above, above = parentOf(at)) {
      if (this.#paths.has(at) || this.#children.has(at)) return;
      const children = this.#children.get(above);
      children?.delete(at);
      if (children === undefined || children.size > 0) return;
      this.#children.delete(above);
    }
  }

  /** The path and all below it that the tree contains. */
  below(path: ByteString): ByteString[] {
    const found: ByteString[] = [];
    const left = [path];
    for (let at = left.pop(); at !== undefined; at = left.pop()) {
      if (this.#paths.has(at)) found.push(at);
      for (const child of this.#children.get(at) ?? []) left.push(child);
    }
    return found;
  }

  clear(): void {
    this.#paths.clear();
    this.#children.clear();
  }
}

function parentOf(path: ByteString): ByteString | undefined {
  const slash = path.lastIndexOf('/');
  if (slash > 0) return path.slice(0, slash);
  return slash === 0 && path.length > 1 ? '/' : undefined;
}
