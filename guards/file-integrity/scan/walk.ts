/**
 * Walks through a piece of the tree in the order of the bytes of paths, and stops after a while: what is left goes back
 * to the queue, where another thread may take it.
 */
import { constants } from 'node:os';

import { errnoName } from '../../../lib/ebpf/libc.ts';
import type { AttributeSet } from '../model/attributes.ts';
import { EntryEncoder } from '../database/entry-codec.ts';
import { type ByteString, fileTypes, type FileType, type ScanProblem } from '../model/entry.ts';
import type { ScanRoot } from '../provider/provider.ts';
import type { ContentReader } from './content.ts';
import { depthOf, type Directory, Directories, type OpenPlace } from './directories.ts';
import { FileLook, type LookOutcome } from './file-look.ts';
import { eachOnce, type Frame, insertItem, restOf } from './frame.ts';
import type { AskedOf, Selected } from './selected.ts';
import type { RunState, ThreadNote } from './shared-state.ts';
import { belowItem, listedType, nameOf, type Part, type Task, type TaskResult } from './tasks.ts';

/** When a walk stops and hands back what is left. */
export interface Budget {
  /** Number of entries, plus one for each directory that the walk leaves. */
  readonly entries: number;
  readonly bytes: number;
  /** Used instead of `entries` if the task is the root: 0 leaves all of its contents to the threads. */
  readonly rootEntries: number;
  /** A file with more content than this is left to another walk. */
  readonly fileBytes: number;
}

export const threadBudget: Budget = {
  ...{ entries: 2048, bytes: 16 * 1024 * 1024, rootEntries: 0, fileBytes: Infinity },
};

/** Limit of directories that stay open on the way down to the current one. */
const openDirectories = 32;
const { ENOENT, ENOTDIR, ELOOP } = constants.errno;
const gone: ReadonlySet<number> = new Set([ENOENT, ENOTDIR, ELOOP]);

/** Thrown if the root cannot be opened, so that nothing can be scanned. */
export class NoRootError extends Error {
  /** Name of the errno, as in errno(3). */
  readonly code: string;

  constructor(number: number) {
    super(errnoName(number));
    this.code = errnoName(number);
  }
}

export interface WalkOptions {
  readonly root: ScanRoot;
  readonly selected: Selected;
  readonly content: ContentReader;
  readonly state: RunState;
  readonly thread: number;
  readonly note: ThreadNote;
  /** See ScanOptions. */
  readonly largeBytes?: number | undefined;
}

/** Walks for one scan in one thread. */
export class Walk {
  readonly #options: WalkOptions;
  readonly #prefix: ByteString;
  readonly #directories: Directories;
  readonly #look: FileLook;
  readonly #encoders: EntryEncoder[];
  #parts: Part[][] = [];
  #stack: Frame[] = [];
  /** The directory that the walk left last: its ancestors can be reopened from it by a short path. */
  #left: OpenPlace | undefined;

  constructor(options: WalkOptions) {
    this.#options = options;
    this.#prefix = options.root.prefix;
    this.#directories = new Directories(Buffer.from(options.root.directory, 'utf8').toString('latin1'));
    this.#look = new FileLook(options.content, options.state, options.thread, options.largeBytes ?? Infinity);
    this.#encoders = Array.from({ length: options.selected.count }, () => new EntryEncoder());
  }

  /** @throws StoppedError, NoRootError */
  run(task: Task, budget: Budget): TaskResult {
    const { state, thread } = this.#options;
    this.#parts = this.#encoders.map(() => []);
    this.#stack = [];
    for (const encoder of this.#encoders) encoder.take();
    this.#look.maxBytes = budget.fileBytes;
    this.#look.begin();
    const bytesBefore = state.bytesOf(thread);
    // Opening a deep directory takes long, so the walk must visit enough entries to be worth it.
    const max =
      task.items === undefined ? budget.rootEntries : Math.max(budget.entries, depthOf(task.directory));
    try {
      if (task.items === undefined) this.#root(task.onlyRoot === true);
      else this.#pushAll(task);
      for (let done = 0; this.#stack.length > 0; done++) {
        state.throwIfStopped();
        if (done >= max || state.bytesOf(thread) - bytesBefore >= budget.bytes) break;
        if (!this.#step()) break;
      }
      const rest = restOf(this.#stack);
      for (const [at] of this.#encoders.entries()) this.#endBlock(at);
      return { parts: this.#parts, rest };
    } finally {
      while (this.#stack.length > 0) this.#pop();
      this.#leave(undefined);
    }
  }

  #pushAll({ directory, items = [], identity, after = [] }: Task): void {
    for (const names of [{ directory, items, identity }, ...after].reverse()) {
      this.#push({
        ...{ path: names.directory, items: [...names.items], next: 0 },
        ...{ directory: undefined, identity: names.identity },
      });
    }
  }

  #root(alone: boolean): void {
    const directory = this.#directories.openRoot();
    if (typeof directory === 'number') throw new NoRootError(-directory);
    const { selected } = this.#options;
    const path = this.#prefix === '' ? '/' : this.#prefix;
    const outcome = this.#look.lookAtRoot(directory.fd, (type) => selected.attributes(path, type));
    this.#notify(path, outcome);
    const frame: Frame = { path: '', items: [], next: 0, directory, identity: directory };
    this.#push(frame);
    if (!alone && selected.descends(path)) this.#list(frame, directory);
  }

  /** Examines the next item. Returns false if it is a file that this walk must not read. */
  #step(): boolean {
    const frame = this.#stack.at(-1);
    const item = frame?.items[frame.next];
    if (frame === undefined || item === undefined) {
      this.#pop();
      return true;
    }
    frame.next++;
    const directory = frame.directory ?? this.#reopen(frame);
    if (directory === undefined) {
      this.#pop();
      return true;
    }
    if (item.endsWith('/')) {
      this.#enter(frame, directory, item.slice(0, -1));
      return true;
    }
    return this.#visit(frame, directory, item);
  }

  #visit(frame: Frame, directory: Directory, item: string): boolean {
    const name = nameOf(item);
    const listed = listedType(item);
    const path = `${this.#prefix}${frame.path}/${name}`;
    const { selected } = this.#options;
    const isListed = listed !== '?' && listed !== '.';
    const asListed = isListed ? this.#asked(frame, path, listed) : undefined;
    if (isListed && asListed === undefined) return true;
    let type: FileType | undefined;
    const askedOf = (now: FileType): ReturnType<AskedOf> => {
      type = now;
      return now === listed ? asListed : selected.attributes(path, now);
    };
    const outcome = this.#look.look(directory, name, askedOf, listed === 'f' ? asListed : undefined);
    if (outcome === 'not here') {
      frame.next--;
      return false;
    }
    this.#notify(path, outcome, asListed);
    if (type === 'd' && outcome !== 'gone') {
      // The name was not a directory yet when its parent was listed.
      if (listed !== 'd' && listed !== '.' && selected.descends(path)) insertItem(frame, belowItem(name));
      this.#listBefore(frame, directory, name);
    }
    return true;
  }

  #asked(frame: Frame, path: ByteString, type: FileType): ReturnType<AskedOf> {
    const { selected } = this.#options;
    if (type !== 'f') return selected.attributes(path, type);
    frame.files ??= selected.ofFiles(`${this.#prefix}${frame.path}`);
    if (frame.files === 'by name') return selected.attributes(path, type);
    return frame.files === 'none' ? undefined : frame.files;
  }

  /**
   * Lists a directory `a` early if siblings come between its entry and its contents (`a.b` before `a/`): if it cannot
   * be listed, that is reported with its entry.
   */
  #listBefore(frame: Frame, parent: Directory, name: string): void {
    const below = belowItem(name);
    let at = frame.next;
    if (frame.items[at] === below) return;
    while (frame.items[at] !== below && frame.items[at]?.startsWith(name) === true) at++;
    if (frame.items[at] !== below) return;
    const child = this.#open(frame, parent, name);
    if (child === undefined) frame.items.splice(at, 1);
    else {
      (frame.listed ??= new Map()).set(name, child.items);
      if (child.directory !== undefined) this.#directories.close(child.directory);
    }
  }

  #enter(frame: Frame, parent: Directory, name: string): void {
    const listed = frame.listed?.get(name);
    frame.listed?.delete(name);
    const path = `${frame.path}/${name}`;
    if (listed !== undefined) this.#push({ path, items: listed, next: 0, directory: undefined });
    else {
      // A rule may select files below a directory that no rule selects itself.
      const child = this.#options.selected.descends(this.#prefix + path)
        ? this.#open(frame, parent, name)
        : undefined;
      if (child !== undefined) this.#push(child);
    }
  }

  #open(frame: Frame, parent: Directory, name: string): Frame | undefined {
    const path = `${frame.path}/${name}`;
    this.#options.note.write(this.#prefix + path);
    const directory = this.#directories.openChild(parent, name);
    if (typeof directory === 'number') {
      if (directory !== 0) this.#unreadable(path, -directory);
      return undefined;
    }
    const child: Frame = { path, items: [], next: 0, directory, identity: directory };
    this.#list(child, directory);
    return child;
  }

  #list(frame: Frame, directory: Directory): void {
    const { selected } = this.#options;
    const items: string[] = [];
    const above = `${this.#prefix}${frame.path}/`;
    const number = this.#directories.list(directory, (item, isDirectory) => {
      items.push(item);
      // An unknown type is found out when the file is examined.
      if (!isDirectory) return;
      const name = nameOf(item);
      if (selected.descends(above + name)) items.push(belowItem(name));
    });
    if (number !== 0) this.#unreadable(frame.path, -number);
    frame.items = eachOnce(items.sort());
  }

  /** Reports that a directory cannot be listed. */
  #unreadable(path: ByteString, number: number): void {
    if (gone.has(number)) return;
    const code = errnoName(number);
    const whole = path === '' && this.#prefix === '' ? '/' : this.#prefix + path;
    const { selected } = this.#options;
    this.#problem({ path: whole, code, message: `cannot list it (${code})` }, (at) =>
      selected.descendsOf(at, whole),
    );
  }

  /** Adds the problem to the results of the configurations for which `concerns` is true. */
  #problem(problem: ScanProblem, concerns: (conf: number) => boolean): void {
    for (const [at, parts] of this.#parts.entries()) {
      if (!concerns(at)) continue;
      this.#endBlock(at);
      parts.push([problem]);
    }
  }

  /** Adds the examined file to the results. @param asListed the requested attributes, if its directory listed its type */
  #notify(path: ByteString, outcome: LookOutcome, asListed?: readonly AttributeSet[]): void {
    if (outcome === 'gone' || outcome === 'not selected' || outcome === 'not here') return;
    const { state, thread } = this.#options;
    const { entry, known } = this.#look;
    entry.path = path;
    for (let at = 0; at < known.length; at++) {
      const set = known[at] ?? -1;
      if (set === -1) continue;
      entry.attributes = set;
      const encoder = this.#encoders[at];
      encoder?.add(entry);
      if (encoder?.isFull === true) this.#endBlock(at);
    }
    state.add(thread, 1, 0);
    if (outcome !== 'problem') return;
    const { code, message } = this.#look.problem;
    const seen = known.length > 0 ? known : asListed;
    // If not even the type is known, the problem is reported to all configurations that would select the name for some
    // type.
    const asked = seen !== undefined ? [seen] : this.#ofAnyType(path);
    this.#problem({ path, code, message }, (at) => asked.some((sets) => (sets?.[at] ?? -1) !== -1));
  }

  #ofAnyType(path: ByteString): ReturnType<AskedOf>[] {
    return fileTypes.map((type) => this.#options.selected.attributes(path, type));
  }

  #endBlock(at: number): void {
    const encoder = this.#encoders[at];
    if (encoder === undefined || encoder.count === 0) return;
    // Copied, because it is sent to another thread.
    this.#parts[at]?.push({ ...encoder.facts, bytes: new Uint8Array(encoder.take()) });
  }

  #push(frame: Frame): void {
    const above = this.#stack.at(-openDirectories);
    if (above?.directory !== undefined) {
      this.#directories.close(above.directory);
      above.directory = undefined;
    }
    this.#stack.push(frame);
  }

  #pop(): void {
    const frame = this.#stack.pop();
    if (frame?.directory !== undefined) this.#leave({ path: frame.path, directory: frame.directory });
  }

  #leave(place: OpenPlace | undefined): void {
    if (this.#left !== undefined) this.#directories.close(this.#left.directory);
    this.#left = place;
  }

  #reopen(frame: Frame): Directory | undefined {
    this.#options.note.write(this.#prefix + frame.path);
    const above = this.#stack.at(-2);
    const near =
      above?.directory !== undefined && frame.path.startsWith(`${above.path}/`)
        ? { path: above.path, directory: above.directory }
        : this.#left;
    const directory = this.#directories.openPath(frame.path, near, frame.identity);
    if (typeof directory !== 'number') return (frame.directory = frame.identity = directory);
    if (frame.path === '') throw new NoRootError(-directory);
    this.#unreadable(frame.path, -directory);
    return undefined;
  }
}
