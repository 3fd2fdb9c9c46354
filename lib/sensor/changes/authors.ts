/**
 * Who changed what in the last moments. Pure: time passes when {@link Authors.rotate} is called.
 *
 * A change is attributed only by what names it: its path, or the inode that was put into its directory. That a process changed
 * the directory alone says nothing about which name in it: several may be at work there.
 */
import { fileKey, type FileIdentity } from '../access.ts';
import { inotifyBits } from '../paths/inotify.ts';
import { kindBits, kindsOfMask, type ByteString, type ChangeProcess } from './change.ts';
import type { SeenChange } from './records.ts';

interface Trace {
  readonly process: ChangeProcess;
  readonly atMs: number;
  /** The inotify events that this change may have caused, as `kindBits`. */
  readonly explains: number;
  /** The inode that had the name, if the call may have removed the name. */
  readonly inode?: FileIdentity;
  reported: 'no' | 'with its event' | 'before its event';
}

export interface Found {
  /** Who made the last change. */
  readonly author: ChangeProcess | undefined;
  /** Who made the last change to more than attributes. */
  readonly contentAuthor: ChangeProcess | undefined;
  /** When, ms since 1970; undefined without an author. */
  readonly atMs: number | undefined;
  /** How many other processes changed it. */
  readonly others: number;
  /** Those of `others` that are known. */
  readonly otherAuthors?: readonly ChangeProcess[];
}

/** Events for a name that appears in a directory or disappears from it. */
export const NAMES_COME_AND_GO =
  inotifyBits.CREATE | inotifyBits.DELETE | inotifyBits.MOVED_FROM | inotifyBits.MOVED_TO;
/** Changes that create a name. */
export const IS_NEW = kindBits.created | kindBits.movedTo;
/** With more traces than this, the older generation is dropped early. */
const MAX_TRACES = 32_768;
const NOBODY: Found = { author: undefined, contentAuthor: undefined, atMs: undefined, others: 0 };
const OF_ATTRIBUTES = kindBits.attributes | kindBits.changed;

interface Generation {
  readonly traces: Map<string, Trace[]>;
  size: number;
}

export class Authors {
  #now: Generation = { traces: new Map(), size: 0 };
  #before: Generation = { traces: new Map(), size: 0 };
  #drops = 0;

  get size(): number {
    return this.#now.size + this.#before.size;
  }

  get empty(): boolean {
    return this.#now.traces.size === 0 && this.#before.traces.size === 0;
  }

  /** How often traces were dropped early. */
  get drops(): number {
    return this.#drops;
  }

  /** Remembers what was seen; `directories` are the paths that lead to its directory. */
  add(seen: SeenChange, directories: readonly ByteString[]): void {
    const { process, atMs } = seen;
    // The process that closes a file need not have written to it.
    if (process === undefined || seen.mask & inotifyBits.CLOSE_WRITE) return;
    const explains = explainedBy(seen);
    const { inode, device, generation } = seen;
    const removed =
      explains & kindBits.deleted && inode !== 0n ? { inode: { inode, device, generation } } : {};
    for (const directory of directories) {
      if (seen.name !== undefined) {
        this.#put(pathIn(directory, seen.name), { process, atMs, explains, ...removed, reported: 'no' });
      }
      // A name that came or went changed the directory, too.
      if (seen.name === undefined || seen.mask & NAMES_COME_AND_GO) {
        this.#put(directory, { process, atMs, explains: explains | kindBits.changed, reported: 'no' });
      }
    }
    if (seen.put !== undefined) {
      this.#put(inodeText(seen.put, seen), { process, atMs, explains: 0, reported: 'no' });
    }
    if (this.#now.size > MAX_TRACES) {
      if (this.#before.size > 0) this.#drops += 1;
      this.rotate();
    }
  }

  /**
   * Who changed a path since the last call, and who was last. A change is recorded before its event arrives,
   * so its author may have been returned for another event in between. Then the author is returned again with
   * the event.
   *
   * @param events - `kindBits` of the events of this path since the last call.
   * @param sinceMs - The earliest time that a change with one of these events can have.
   */
  take(path: ByteString, events: number, sinceMs: number): Found {
    const traces = this.#traces(path);
    // The events say that the name is new, but it may be gone again: the trace of its removal then belongs to an event yet to come.
    const isToCome = ({ inode, explains }: Trace): boolean =>
      inode !== undefined && (events & IS_NEW) !== 0 && (explains & events) === 0;
    const fresh = traces.filter((trace) => trace.reported === 'no' && !isToCome(trace));
    const early = (kinds: number): Trace | undefined =>
      traces.findLast(
        ({ explains, reported, atMs }) =>
          explains & kinds && reported !== 'no' && (reported === 'before its event' || atMs >= sinceMs),
      );
    const [lastEarly, earlyWriter] = [early(events), early(events & ~OF_ATTRIBUTES)];
    if (earlyWriter !== undefined) earlyWriter.reported = 'with its event';
    if (fresh.length === 0) {
      if (lastEarly === undefined) return NOBODY;
      lastEarly.reported = 'with its event';
      const { process: author, atMs } = lastEarly;
      const contentAuthor = isOfContent(lastEarly) ? author : earlyWriter?.process;
      return { author, contentAuthor, atMs, others: 0 };
    }
    const processes = new Map<number, ChangeProcess>();
    let last: Trace | undefined;
    for (const trace of fresh) {
      processes.set(trace.process.pid, trace.process);
      if (last === undefined || trace.atMs >= last.atMs) last = trace;
      trace.reported = trace.explains & events ? 'with its event' : 'before its event';
    }
    const writer = fresh.findLast(isOfContent);
    const kept = [fresh.findLast(({ reported }) => reported === 'before its event'), last, writer];
    this.#keep(
      path,
      traces.filter((trace) => kept.includes(trace) || trace.reported === 'no'),
    );
    const contentAuthor = (writer ?? earlyWriter)?.process;
    const author = last?.process;
    if (author !== undefined) processes.delete(author.pid);
    const otherAuthors = [...processes.values()];
    return { author, contentAuthor, atMs: last?.atMs, others: otherAuthors.length, otherAuthors };
  }

  /** The inode of a path that has just disappeared; undefined if its removal was not seen. */
  goneFrom(path: ByteString): FileIdentity | undefined {
    return this.#traces(path).findLast(({ inode, reported }) => inode !== undefined && reported === 'no')
      ?.inode;
  }

  /**
   * Who put an inode under its new name, at `sinceMs` or later. Unknown if several processes named it: it is
   * unclear which of them made which name.
   */
  ofName(inode: FileIdentity, sinceMs: number): Found {
    // The rename or link first: the process that made the inode need not be the one that gave it this name.
    for (const put of ['named', 'made'] as const) {
      const traces = this.#traces(inodeText(put, inode)).filter((trace) => trace.atMs >= sinceMs);
      const last = traces.at(-1);
      if (last === undefined) continue;
      const processes = new Map(traces.map((trace) => [trace.process.pid, trace.process]));
      if (processes.size > 1) {
        const otherAuthors = [...processes.values()];
        return { ...NOBODY, atMs: last.atMs, others: otherAuthors.length, otherAuthors };
      }
      return { author: last.process, contentAuthor: last.process, atMs: last.atMs, others: 0 };
    }
    return NOBODY;
  }

  /** Starts a new generation of traces and drops the one before the last: traces live for one to two calls. */
  rotate(): void {
    this.#before = this.#now;
    this.#now = { traces: new Map(), size: 0 };
  }

  #traces(key: string): readonly Trace[] {
    const before = this.#before.traces.get(key);
    const now = this.#now.traces.get(key);
    return before === undefined ? (now ?? []) : now === undefined ? before : [...before, ...now];
  }

  #put(key: string, trace: Trace): void {
    const { traces } = this.#now;
    const known = traces.get(key);
    if (known === undefined) traces.set(key, [trace]);
    else known.push(trace);
    this.#now.size += 1;
  }

  /** Replaces the traces of a key. */
  #keep(key: string, kept: Trace[]): void {
    for (const generation of [this.#now, this.#before]) {
      generation.size -= generation.traces.get(key)?.length ?? 0;
      generation.traces.delete(key);
    }
    this.#now.traces.set(key, kept);
    this.#now.size += kept.length;
  }
}

/** Whether a change may have changed more than attributes; one of an unknown kind may have. */
function isOfContent({ explains }: Trace): boolean {
  return (explains & ~OF_ATTRIBUTES) !== 0;
}

const ANY_BUT_NEW = kindBits.modified | kindBits.attributes | kindBits.deleted | kindBits.movedFrom;

/** The inotify events that a change may cause. Without a mask, new names are not among them: {@link Authors.ofName} finds their authors. */
function explainedBy({ mask, call }: SeenChange): number {
  if (mask !== 0) return kindsOfMask(mask);
  switch (call) {
    case 'content':
      return kindBits.modified;
    case 'attributes':
      return kindBits.attributes;
    case 'names':
      return ANY_BUT_NEW & ~kindBits.modified;
    case 'unknown':
      return ANY_BUT_NEW;
  }
}

export function pathIn(directory: ByteString, name: ByteString): ByteString {
  return directory.endsWith('/') ? directory + name : `${directory}/${name}`;
}

/** A key for an inode, which cannot be a path: it begins with NUL. */
function inodeText(put: 'made' | 'named', identity: FileIdentity): string {
  return `\0${put}:${fileKey(identity)}`;
}
