/** The files below one directory, by their names and each once by its identity. No I/O. */
import { type Access, fileKey, sameFile, type FileIdentity } from '../access.ts';
import { fromByteString } from './inotify.ts';

/** Symbolic links that are followed in one tree: each costs as much as a path of its own. */
const MAX_LINKS = 4096;

/** A name of a file: the directory that it is in, and a byte string (inotify.ts). */
interface Place {
  readonly node: DirectoryNode;
  readonly name: string;
}

/** A file that has a name below the directory. With several names it is still one file. */
export class DirectoryFile {
  readonly identity: FileIdentity;
  /** The earliest found of the names that still exist. */
  #place: Place;
  #others: Place[] | undefined;

  constructor(identity: FileIdentity, place: Place) {
    this.identity = identity;
    this.#place = place;
  }

  /** Where it is now, as a process of the root writes it; bytes that are not UTF-8 become U+FFFD. */
  get path(): string {
    return fromByteString(pathIn(this.#place.node, this.#place.name));
  }

  add(place: Place): void {
    if (this.#others === undefined) this.#others = [place];
    else this.#others.push(place);
  }

  /** Returns whether it was the last name. */
  remove({ node, name }: Place): boolean {
    const { node: first, name: firstName } = this.#place;
    if (first !== node || firstName !== name) {
      const at = this.#others?.findIndex((one) => one.node === node && one.name === name) ?? -1;
      if (at >= 0) this.#others?.splice(at, 1);
      return false;
    }
    const next = this.#others?.shift();
    if (next === undefined) return true;
    this.#place = next;
    return false;
  }
}

/** A symbolic link. A path tracker follows it. */
export class DirectoryLink {
  /** Path as seen by a process with this root directory. */
  readonly path: string;
  /** The file that it leads to; undefined if it leads to another kind, or the limit of files is reached. */
  file: DirectoryFile | undefined;
  /** Whether the link leads to a file beyond the limit of files. */
  isCut = false;

  constructor(path: string) {
    this.path = path;
  }
}

export type DirectoryEntry = DirectoryFile | DirectoryLink | DirectoryNode;

/** One directory. */
export class DirectoryNode {
  readonly tree: DirectoryTree;
  parent: DirectoryNode | undefined;
  /** Its name in the parent, a byte string; for the topmost directory its whole path. */
  name: string;
  readonly identity: FileIdentity;
  /** The watch descriptor. */
  readonly wd: number;
  readonly entries = new Map<string, DirectoryEntry>();
  /** How many files in this directory are not watched, and how many directories in it are not, as of the last reading. */
  unwatchedFiles = 0;
  unwatchedDirectories = 0;
  /** Whether it was read once. */
  isRead = false;
  /** While the directory is read: the names of entries that were seen so far. */
  seen: Set<string> | undefined;

  constructor(
    tree: DirectoryTree,
    at: Omit<Place, 'node'> & { readonly parent?: DirectoryNode },
    wd: number,
    identity: FileIdentity,
  ) {
    this.tree = tree;
    this.parent = at.parent;
    this.name = at.name;
    this.wd = wd;
    this.identity = identity;
  }

  /** The path, from the root, of the accessed file. The access was reported because of {@link Sensor.expectFilesIn} for this directory. */
  pathOf({ from, to }: Pick<Access, 'from' | 'to'>): string {
    const { path } = this;
    const name = from === '' ? to : from;
    return `${path === '/' ? '' : fromByteString(path)}/${name.slice(name.lastIndexOf('/') + 1)}`;
  }

  /** The path from the root, a byte string. */
  get path(): string {
    return this.parent === undefined ? this.name : pathIn(this.parent, this.name);
  }
}

function pathIn(node: DirectoryNode, name: string): string {
  const { path } = node;
  return path === '/' ? `/${name}` : `${path}/${name}`;
}

/** The part of a tree that is not watched. */
export interface Unwatched {
  readonly files: number;
  /** Directories whose content, at any depth, is unknown. */
  readonly directories: number;
}

/** Changes since the last call of {@link DirectoryTree.takeChanges}. */
export interface DirectoryChanges {
  readonly added: readonly DirectoryFile[];
  readonly removed: readonly DirectoryFile[];
  /** Directories in which files may appear. */
  readonly addedDirectories: readonly DirectoryNode[];
  readonly removedDirectories: readonly DirectoryNode[];
}

/** The names below one directory, and the files they lead to. */
export class DirectoryTree {
  readonly maxFiles: number;
  /** Keyed by {@link fileKey}. */
  readonly files = new Map<string, DirectoryFile>();
  readonly #onNodeGone: (node: DirectoryNode) => void;
  readonly #onLinkGone: (link: DirectoryLink) => void;
  readonly #added = new Set<DirectoryFile>();
  readonly #removed = new Set<DirectoryFile>();
  readonly #addedNodes = new Set<DirectoryNode>();
  readonly #removedNodes = new Set<DirectoryNode>();
  #top: DirectoryNode | undefined;
  #links = 0;
  #unwatchedFiles = 0;
  #unwatchedDirectories = 0;

  constructor(
    maxFiles: number,
    onNodeGone: (node: DirectoryNode) => void,
    onLinkGone: (link: DirectoryLink) => void,
  ) {
    this.maxFiles = maxFiles;
    this.#onNodeGone = onNodeGone;
    this.#onLinkGone = onLinkGone;
  }

  get top(): DirectoryNode | undefined {
    return this.#top;
  }

  get isFull(): boolean {
    return this.files.size >= this.maxFiles;
  }

  get unwatched(): Unwatched {
    return { files: this.#unwatchedFiles, directories: this.#unwatchedDirectories };
  }

  /** Sets the topmost directory, without entries at first. */
  setTop(top: DirectoryNode | undefined): void {
    if (this.#top !== undefined) this.#forget(this.#top);
    this.#top = top;
    if (top !== undefined) this.#addedNodes.add(top);
  }

  /** Puts a file at a name. Returns whether there was room. */
  putFile(node: DirectoryNode, name: string, identity: FileIdentity): boolean {
    const before = node.entries.get(name);
    if (before instanceof DirectoryFile && sameFile(before.identity, identity)) return true;
    // The old file is removed first: if the limit is reached, the new one takes its place. Both are reported together.
    this.remove(node, name);
    const file = this.#hold(identity, { node, name });
    if (file === undefined) {
      this.countFile(node, 1);
      return false;
    }
    node.entries.set(name, file);
    return true;
  }

  /** Puts a link at a name. Returns it if it has to be followed from now on. */
  putLink(node: DirectoryNode, name: string): DirectoryLink | undefined {
    if (node.entries.get(name) instanceof DirectoryLink) return undefined;
    this.remove(node, name);
    const path = pathIn(node, name);
    const text = fromByteString(path);
    // A path tracker needs a text, so a path with invalid UTF-8 cannot be followed.
    const isText = Buffer.from(text, 'utf8').toString('latin1') === path;
    if (!isText || this.#links >= MAX_LINKS) {
      this.countFile(node, 1);
      return undefined;
    }
    this.#links += 1;
    const link = new DirectoryLink(text);
    node.entries.set(name, link);
    return link;
  }

  /** Sets the target of a link; undefined for a target that is not watched. */
  setLinked(
    node: DirectoryNode,
    name: string,
    link: DirectoryLink,
    identity: FileIdentity | undefined,
  ): void {
    const before = link.file;
    if (before !== undefined && identity !== undefined && sameFile(before.identity, identity)) return;
    const place = { node, name };
    if (before !== undefined) this.#release(before, place);
    link.file = identity && this.#hold(identity, place);
    const isCut = identity !== undefined && link.file === undefined;
    if (isCut !== link.isCut) this.countFile(node, isCut ? 1 : -1);
    link.isCut = isCut;
  }

  putDirectory(node: DirectoryNode, name: string, child: DirectoryNode): void {
    this.remove(node, name);
    node.entries.set(name, child);
    this.#addedNodes.add(child);
  }

  /** Gives a directory with all that is in it another name. */
  moveDirectory(child: DirectoryNode, node: DirectoryNode, name: string): void {
    if (child.parent?.entries.get(child.name) === child) child.parent.entries.delete(child.name);
    this.remove(node, name);
    child.parent = node;
    child.name = name;
    node.entries.set(name, child);
    this.#dropLinks(child);
  }

  /** Drops the links below a moved directory: they are followed by their paths, which have changed. */
  #dropLinks(node: DirectoryNode): void {
    for (const [name, entry] of node.entries) {
      if (entry instanceof DirectoryLink) this.remove(node, name);
      else if (entry instanceof DirectoryNode) this.#dropLinks(entry);
    }
  }

  /** Removes a name that is gone or no longer watched. */
  remove(node: DirectoryNode, name: string): void {
    const entry = node.entries.get(name);
    if (entry === undefined) return;
    node.entries.delete(name);
    this.#let(node, name, entry);
  }

  #let(node: DirectoryNode, name: string, entry: DirectoryEntry): void {
    if (entry instanceof DirectoryFile) this.#release(entry, { node, name });
    else if (entry instanceof DirectoryNode) this.#forget(entry);
    else {
      this.setLinked(node, name, entry, undefined);
      this.#links -= 1;
      this.#onLinkGone(entry);
    }
  }

  #forget(node: DirectoryNode): void {
    for (const [name, entry] of node.entries) this.#let(node, name, entry);
    node.entries.clear();
    this.countFile(node, -node.unwatchedFiles);
    this.countDirectory(node, -node.unwatchedDirectories);
    if (!this.#addedNodes.delete(node)) this.#removedNodes.add(node);
    this.#onNodeGone(node);
  }

  countFile(node: DirectoryNode, by: number): void {
    node.unwatchedFiles += by;
    this.#unwatchedFiles += by;
  }

  countDirectory(node: DirectoryNode, by: number): void {
    node.unwatchedDirectories += by;
    this.#unwatchedDirectories += by;
  }

  /** Call before a directory is read again. */
  resetCounts(node: DirectoryNode): void {
    let cutLinks = 0;
    for (const entry of node.entries.values())
      if (entry instanceof DirectoryLink && entry.isCut) cutLinks += 1;
    this.countFile(node, cutLinks - node.unwatchedFiles);
    this.countDirectory(node, -node.unwatchedDirectories);
  }

  /** All directories, each before those in it. */
  *nodes(node: DirectoryNode | undefined = this.#top): Iterable<DirectoryNode> {
    if (node === undefined) return;
    yield node;
    for (const entry of node.entries.values()) if (entry instanceof DirectoryNode) yield* this.nodes(entry);
  }

  takeChanges(): DirectoryChanges {
    const all = [this.#added, this.#removed, this.#addedNodes, this.#removedNodes] as const;
    const changes = {
      ...{ added: [...this.#added], removed: [...this.#removed] },
      ...{ addedDirectories: [...this.#addedNodes], removedDirectories: [...this.#removedNodes] },
    };
    for (const some of all) some.clear();
    return changes;
  }

  #hold(identity: FileIdentity, place: Place): DirectoryFile | undefined {
    const key = fileKey(identity);
    const known = this.files.get(key);
    if (known !== undefined) {
      known.add(place);
      return known;
    }
    if (this.isFull) return undefined;
    const file = new DirectoryFile(identity, place);
    this.files.set(key, file);
    this.#added.add(file);
    return file;
  }

  #release(file: DirectoryFile, place: Place): void {
    if (!file.remove(place)) return;
    this.files.delete(fileKey(file.identity));
    // A file that was never reported is not reported as gone.
    if (!this.#added.delete(file)) this.#removed.add(file);
  }
}
