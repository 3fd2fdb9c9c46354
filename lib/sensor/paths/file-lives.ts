/**
 * Follows which files still exist, under any name, without holding them open.
 *
 * It uses an inotify watch on the file itself: a mark on the inode, which follows the file through every rename
 * and does not keep a deleted file's space, as an open descriptor would. IN_DELETE_SELF comes when the last
 * name is gone and no process has the file open (fsnotify_inoderemove in fs/dcache.c), IN_UNMOUNT with its
 * filesystem. The same holds on overlayfs, tmpfs and bind mounts.
 */
import { readFileSync } from 'node:fs';

import { type Poll, pollReadable } from '../../ebpf/ffi.ts';
import { type Fd, inotifyAddWatch, inotifyInit, inotifyRemoveWatch, readAvailable } from '../../ebpf/libc.ts';
import { errorCodes, RampartError } from '../../errors/errors.ts';
import { type FileIdentity, fileKey } from '../access.ts';
import { decodeInotify, halfOfAllWatches, inotifyBits } from './inotify.ts';

/** Reads in one turn. */
const READS = 64;

interface FileLivesOptions<H extends object> {
  /** A file that `holder` holds, or held a moment ago, is deleted. Never called within a call of this class. */
  readonly onEnd: (holder: H, file: FileIdentity) => void;
  /**
   * Called when the end of files will not be reported, because the inotify watches are used up; once until there
   * is room again.
   */
  readonly onProblem: (problem: RampartError) => void;
  /** Limit of watches. Default: half of what this user may have; the other half is for following paths. */
  readonly budget?: number;
}

interface Life<H extends object> {
  readonly identity: FileIdentity;
  /** A set only if there are several holders: usually there is one. */
  holders: H | Set<H> | undefined;
  /** The watch descriptor; undefined if the file has ended, or no watch was left. */
  wd: number | undefined;
}

/** Files by their identity, each for as long as it has a holder. */
export class FileLives<H extends object> implements Disposable {
  readonly #options: FileLivesOptions<H>;
  readonly #budget: number;
  readonly #inotify: Fd;
  readonly #poll: Poll;
  readonly #buffer = new Uint8Array(16 * 1024);
  readonly #lives = new Map<string, Life<H>>();
  readonly #byWd = new Map<number, Life<H>>();
  /** Followed, but without a holder yet. */
  readonly #unheld = new Set<string>();
  #ended: Life<H>[] = [];
  #reporting: NodeJS.Immediate | undefined;
  #reported = false;
  #disposed = false;

  /** @throws {RampartError} `LIMIT` when the user has fs.inotify.max_user_instances already. */
  constructor(options: FileLivesOptions<H>) {
    this.#options = options;
    this.#budget = options.budget ?? halfOfAllWatches();
    this.#inotify = inotifyInit();
    this.#poll = pollReadable(this.#inotify.number, () => {
      this.update();
      this.#notify();
    });
  }

  get size(): number {
    return this.#byWd.size;
  }

  /** Follows the file behind an O_PATH descriptor, which is not kept. Hold it, or {@link FileLives.sweep} forgets it. */
  follow(fd: number, identity: FileIdentity): void {
    const key = fileKey(identity);
    let life = this.#lives.get(key);
    if (life?.wd !== undefined) return;
    if (life === undefined) {
      life = { identity, holders: undefined, wd: undefined };
      this.#lives.set(key, life);
      this.#unheld.add(key);
    }
    if (this.#byWd.size >= this.#budget) {
      this.#reportOnce(
        new RampartError(errorCodes.LIMIT, {
          what: `cannot track when file ${key} ends`,
          why: `${this.#budget} files are already tracked, and the rest of fs.inotify.max_user_watches is reserved for paths`,
          next: 'Raise fs.inotify.max_user_watches: without it, a file is no longer watched after a rename',
        }),
      );
      return;
    }
    try {
      const wd = inotifyAddWatch(this.#inotify, { number: fd }, inotifyBits.DELETE_SELF, `file ${key}`);
      const other = this.#byWd.get(wd);
      // The watch of this inode was for another identity, which the inode no longer has.
      if (other !== undefined) this.#end(other);
      life.wd = wd;
      this.#byWd.set(wd, life);
      this.#reported = false;
    } catch (error) {
      if (!(error instanceof RampartError)) throw error;
      this.#reportOnce(error);
    }
  }

  #reportOnce(problem: RampartError): void {
    if (this.#reported) return;
    this.#reported = true;
    this.#options.onProblem(problem);
  }

  /** Forgets files without a holder. */
  sweep(): void {
    for (const key of this.#unheld) {
      const life = this.#lives.get(key);
      if (life !== undefined && life.holders === undefined) this.#forget(key, life);
    }
    this.#unheld.clear();
  }

  hold(identity: FileIdentity, holder: H): void {
    const key = fileKey(identity);
    const life = this.#lives.get(key);
    if (life === undefined) this.#lives.set(key, { identity, holders: holder, wd: undefined });
    else if (life.holders === undefined) life.holders = holder;
    else if (life.holders instanceof Set) life.holders.add(holder);
    else if (life.holders !== holder) life.holders = new Set([life.holders, holder]);
  }

  release(identity: FileIdentity, holder: H): void {
    const key = fileKey(identity);
    const life = this.#lives.get(key);
    if (life === undefined) return;
    if (life.holders instanceof Set) {
      life.holders.delete(holder);
      if (life.holders.size > 0) return;
    } else if (life.holders !== holder) return;
    this.#forget(key, life);
  }

  /** Whether it is known to exist, as of the last {@link FileLives.update}. */
  has(identity: FileIdentity): boolean {
    return this.#lives.get(fileKey(identity))?.wd !== undefined;
  }

  /** Reads all pending events of the kernel. */
  update(): void {
    try {
      for (let reads = 0; reads < READS; reads++) {
        const length = readAvailable(this.#inotify, this.#buffer);
        if (length === 0) break;
        for (const { wd, mask } of decodeInotify(this.#buffer.subarray(0, length))) {
          if (mask & inotifyBits.Q_OVERFLOW) this.#compare();
          else if (mask & (inotifyBits.DELETE_SELF | inotifyBits.UNMOUNT | inotifyBits.IGNORED)) {
            const life = this.#byWd.get(wd);
            if (life !== undefined) this.#end(life);
          }
        }
      }
    } catch (error) {
      if (!(error instanceof RampartError)) throw error;
      this.#options.onProblem(error);
    }
    if (this.#ended.length > 0) this.#reporting ??= setImmediate(() => this.#notify());
  }

  /** Used if events are missing: the kernel's list of the watches shows which have ended (proc_pid_fdinfo(5)). */
  #compare(): void {
    const list = readFileSync(`/proc/self/fdinfo/${this.#inotify.number}`, 'latin1');
    const there = new Set<number>();
    for (const [, wd = ''] of list.matchAll(/^inotify wd:([0-9a-f]+) /gm)) there.add(Number.parseInt(wd, 16));
    for (const [wd, life] of this.#byWd) if (!there.has(wd)) this.#end(life);
  }

  #end(life: Life<H>): void {
    if (life.wd !== undefined) this.#byWd.delete(life.wd);
    life.wd = undefined;
    this.#ended.push(life);
  }

  #notify(): void {
    clearImmediate(this.#reporting);
    this.#reporting = undefined;
    for (const { identity, holders } of this.#ended.splice(0)) {
      if (holders === undefined) continue;
      for (const holder of holders instanceof Set ? [...holders] : [holders]) {
        if (this.#disposed) return;
        this.#options.onEnd(holder, identity);
      }
    }
  }

  #forget(key: string, life: Life<H>): void {
    this.#lives.delete(key);
    if (life.wd === undefined) return;
    this.#byWd.delete(life.wd);
    inotifyRemoveWatch(this.#inotify, life.wd);
  }

  [Symbol.dispose](): void {
    if (this.#disposed) return;
    this.#disposed = true;
    clearImmediate(this.#reporting);
    this.#poll[Symbol.dispose]();
    this.#inotify[Symbol.dispose]();
    this.#lives.clear();
    this.#byWd.clear();
  }
}
