/** What one job watches below a root: the directories to watch for it, and the changes that concern it. */
import { dirname } from 'node:path';

import type { Change } from '../../../lib/sensor/changes/change.ts';
import type { AideConf } from '../aide-conf/conf.ts';
import { fileTypes, type ByteString, type FileType } from '../model/entry.ts';
import { Selection } from '../aide-conf/selection.ts';
import type { ChangedBy } from './change-author.ts';
import { ChangeQueue } from './change-queue.ts';
import type { LiveJob } from './live-job.ts';

/** The tree remains for a while after its job has ended: the next job with the same rules takes it over. */
export class FollowedTree {
  readonly queue: ChangeQueue;
  readonly selection: Selection;
  /** Called when a change was queued, or changes were lost. */
  onQueued: (() => void) | undefined;
  /** Whether all directories that existed are watched, or cannot be. */
  isWatched = false;
  /** Called when there were too many changes, and they were dropped. */
  onOverflow: (() => void) | undefined;
  /** Ends the walk through its directories. */
  readonly stop = new AbortController();
  #lost: string | undefined;
  readonly #prefix: ByteString;
  readonly #rules: string;
  readonly #types: readonly FileType[];
  readonly #own: ByteString;
  readonly #packages: LiveJob['packages'];

  constructor({ conf, root, baseline, packages }: LiveJob, maxQueued: number) {
    this.#packages = packages;
    this.queue = new ChangeQueue(maxQueued);
    this.selection = new Selection(conf);
    this.#prefix = root.prefix;
    this.#rules = rulesOf(conf);
    // Most configurations do not restrict rules to file types.
    this.#types = conf.rules.some(({ types }) => types !== undefined) ? fileTypes : ['f'];
    this.#own = Buffer.from(dirname(dirname(baseline.path)), 'utf8').toString('latin1');
  }

  suits({ conf, root, packages }: LiveJob): boolean {
    return packages === this.#packages && root.prefix === this.#prefix && rulesOf(conf) === this.#rules;
  }

  /** The path as in entries, given one relative to the root. */
  withPrefix(path: ByteString): ByteString {
    return path === '/' && this.#prefix !== '' ? this.#prefix : this.#prefix + path;
  }

  /** Whether changes of a directory, or of files directly in it, may concern the job. */
  wants(directory: ByteString): boolean {
    // The agent writes files here for each result: watching them would cause another result each time.
    if (directory === this.#own) return false;
    if (this.#packages?.wants(directory) === true) return true;
    const path = this.withPrefix(directory);
    return this.selection.descend(path) || this.selection.select(path, 'd') !== undefined;
  }

  /** Whether the rules select the path, for any type that it may have or have had. */
  selects(path: ByteString): boolean {
    return this.#types.some((type) => this.selection.select(path, type) !== undefined);
  }

  /** @param change its path is relative to the root, without the prefix */
  add({ path, kinds, below, atMs }: Change, by: ChangedBy): void {
    const { author, touchedBy, hand, isDiverter } = by;
    this.#packages?.changed(path, hand, isDiverter);
    const whole = this.withPrefix(path);
    const isGone = kinds.includes('moved-from') || kinds.includes('deleted');
    // Even if no rule selects a directory itself, rules may select files below it.
    if (!this.selects(whole) && !((below || isGone) && this.selection.descend(whole))) return;
    const isMove = kinds.includes('moved-to') || kinds.includes('moved-from');
    this.queue.add(whole, {
      below,
      author,
      touchedBy,
      changedMs: atMs,
      isTouch: kinds.every((kind) => kind === 'attributes' || kind === 'closed' || kind === 'changed'),
      authorBelow: isMove ? author : undefined,
      saysLittle: kinds.every((kind) => kind === 'closed' || kind === 'changed'),
      hand,
    });
    this.onQueued?.();
  }

  /** Call when it is unknown what has changed: a scan is needed. */
  lose(why: string): void {
    this.#lost = why;
    this.#packages?.verify();
    this.onQueued?.();
  }

  /** Why a scan has become necessary since the last call; undefined if it has not. */
  takeLoss(): string | undefined {
    const lost = this.#lost;
    this.#lost = undefined;
    if (!this.queue.takeOverflow()) return lost;
    this.onOverflow?.();
    return 'more has changed than can be checked one by one';
  }

  /** Adds a path that may have changed before it was watched. */
  addUnseen(path: ByteString): void {
    this.queue.add(this.withPrefix(path), {});
    this.onQueued?.();
  }
}

function rulesOf({ rules, dialect }: AideConf): string {
  return JSON.stringify([
    dialect,
    rules.map(({ kind, pattern, types, attributes }) => [kind, pattern, [...(types ?? [])], attributes]),
  ]);
}
