/** One job's interest in a root: which directories are watched for it, and which changes are its own. */
import { dirname } from 'node:path';

import type { Change } from '../../../lib/sensor/changes/change.ts';
import type { AideConf } from '../aide-conf/conf.ts';
import { fileTypes, type ByteString, type FileType } from '../model/entry.ts';
import { Selection } from '../aide-conf/selection.ts';
import type { ChangedBy } from './change-author.ts';
import { ChangeQueue } from './change-queue.ts';
import type { LiveJob } from './live-job.ts';

/** It outlives a job for a while: the next one with the same rules takes it over. */
export class FollowedTree {
  readonly queue: ChangeQueue;
  readonly selection: Selection;
  /** Called when something is in the queue, or lost. */
  onQueued: (() => void) | undefined;
  /** All directories that existed are watched, or could not be. */
  isWatched = false;
  /** Called when too much has changed and the changes were dropped. */
  onOverflow: (() => void) | undefined;
  /** Ends the walk over its directories. */
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
    // Most configurations do not ask for types.
    this.#types = conf.rules.some(({ types }) => types !== undefined) ? fileTypes : ['f'];
    this.#own = Buffer.from(dirname(dirname(baseline.path)), 'utf8').toString('latin1');
  }

  suits({ conf, root, packages }: LiveJob): boolean {
    return packages === this.#packages && root.prefix === this.#prefix && rulesOf(conf) === this.#rules;
  }

  /** The path of entries for one below the root. */
  withPrefix(path: ByteString): ByteString {
    return path === '/' && this.#prefix !== '' ? this.#prefix : this.#prefix + path;
  }

  /** Whether changes of what is in a directory, or of it, can be of interest. */
  wants(directory: ByteString): boolean {
    // Files that the agent writes there for each result would lead to another one.
    if (directory === this.#own) return false;
    if (this.#packages?.wants(directory) === true) return true;
    const path = this.withPrefix(directory);
    return this.selection.descend(path) || this.selection.select(path, 'd') !== undefined;
  }

  /** Whether the rules select it, whatever its type is or was. */
  selects(path: ByteString): boolean {
    return this.#types.some((type) => this.selection.select(path, type) !== undefined);
  }

  /** @param change below the root, without the prefix */
  add({ path, kinds, below, atMs }: Change, by: ChangedBy): void {
    const { author, touchedBy, hand, isDiverter } = by;
    this.#packages?.changed(path, hand, isDiverter);
    const whole = this.withPrefix(path);
    const isGone = kinds.includes('moved-from') || kinds.includes('deleted');
    // A directory that no rule selects may have files in it that rules do.
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

  /** Something has changed, and it is unknown what. */
  lose(why: string): void {
    this.#lost = why;
    this.#packages?.verify();
    this.onQueued?.();
  }

  /** Why a scan is needed since this was asked last. */
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
