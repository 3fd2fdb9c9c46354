/**
 * Walks a piece of a tree in the order of the paths' bytes, and stops after a while: what is left goes back to the queue, where
 * another thread may take it.
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
  /** Entries, plus one for each directory left. */
  readonly entries: number;
  readonly bytes: number;
  /** For the root, after its own entry: 0 gives its contents to all threads. */
  readonly rootEntries: number;
  /** A file with more content than this is left for another walk. */
  readonly fileBytes: number;
}

export const threadBudget: Budget = {
  ...{ entries: 2048, bytes: 16 * 1024 * 1024, rootEntries: 0, fileBytes: Infinity },
};

/** Directories on the way that stay open. */
const openDirectories = 32;
const { ENOENT, ENOTDIR, ELOOP } = constants.errno;
const gone: ReadonlySet<number> = new Set([ENOENT, ENOTDIR, ELOOP]);

/** The root cannot be opened: there is nothing to scan. */
export class NoRootError extends Error {
  /** As errno(3) names it. */
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
  /** As in ScanOptions. */
  readonly largeBytes?: number | undefined;
}

/** One for each thread and scan. */
export class Walk {
  readonly #options: WalkOptions;
  readonly #prefix: ByteString;
  readonly #directories: Directories;
  readonly #look: FileLook;
  readonly #encoders: EntryEncoder[];
  #parts: Part[][] = [];
  #stack: Frame[] = [];
  /** The directory that was left last: from there it is not far to those above it. */
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
    // The way to a deep directory is long: the walk has to be worth it.
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

  /** Returns false if the next file is not for this walk. */
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
      // The item was something else when the directory was listed.
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
   * For directories `a` whose siblings come before their contents (`a.b` before `a/`): whether they can be
   * listed is reported with their own entry, so it has to be known now.
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
      // An unknown type is determined by a look.
      if (!isDirectory) return;
      const name = nameOf(item);
      if (selected.descends(above + name)) items.push(belowItem(name));
    });
    if (number !== 0) this.#unreadable(frame.path, -number);
    frame.items = eachOnce(items.sort());
  }

  /** For a directory: its contents are unknown. */
  #unreadable(path: ByteString, number: number): void {
    if (gone.has(number)) return;
    const code = errnoName(number);
    const whole = path === '' && this.#prefix === '' ? '/' : this.#prefix + path;
    const { selected } = this.#options;
    this.#problem({ path: whole, code, message: `cannot list it (${code})` }, (at) =>
      selected.descendsOf(at, whole),
    );
  }

  /** Passes the problem to the configurations that it concerns. */
  #problem(problem: ScanProblem, concerns: (conf: number) => boolean): void {
    for (const [at, parts] of this.#parts.entries()) {
      if (!concerns(at)) continue;
      this.#endBlock(at);
      parts.push([problem]);
    }
  }

  /** @param asListed the requested attributes, if the type is known from its directory */
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
    // If not even its type is known, all configurations that would select this name get the report.
    const asked = seen !== undefined ? [seen] : this.#ofAnyType(path);
    this.#problem({ path, code, message }, (at) => asked.some((sets) => (sets?.[at] ?? -1) !== -1));
  }

  #ofAnyType(path: ByteString): ReturnType<AskedOf>[] {
    return fileTypes.map((type) => this.#options.selected.attributes(path, type));
  }

  #endBlock(at: number): void {
    const encoder = this.#encoders[at];
    if (encoder === undefined || encoder.count === 0) return;
    // A copy of its own: it goes to another thread.
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
