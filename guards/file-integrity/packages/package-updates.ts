/**
 * The package updates by dpkg that concern a job. Changes by dpkg are held back until its database shows their package,
 * or until that has taken too long. Explained changes are reported as such or, if the FileIntegrity requests it,
 * accepted into the baseline.
 */
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';

import { messageOf } from '../../../lib/errors/errors.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import type { SigningKey } from '../database/signature.ts';
import type { ByteString, Entry } from '../model/entry.ts';
import type { ScanRoot } from '../provider/provider.ts';
import type { CurrentFindings } from '../results/findings.ts';
import { isSame, type PathUpdate } from '../results/held-finding.ts';
import { withoutPrefix } from '../scan/scan-path.ts';
import { type NoteKind, readNote, writeNote } from '../signed-notes/note-file.ts';
import { AcceptableUpdates, type UpdatesToAccept } from './acceptable-updates.ts';
import { DpkgDatabase, dpkgDirectories, type PackageSnapshot } from './dpkg-database.ts';
import { type Explanation, explanationText, type PackageUpdate } from '../model/explanation.ts';
import type { Hand } from '../model/hand.ts';
import { type ContentSums, NodeFiles } from './node-files.ts';
import { isContentOf, isOfDpkg } from './unpacked-file.ts';

/** A change, with the current entry of its path. */
export interface SeenUpdate {
  readonly update: PathUpdate;
  /** Undefined if the path does not exist. */
  readonly entry: Entry | undefined;
}

interface Waiting extends SeenUpdate {
  readonly sinceMs: number;
  /** Checksums of the file's content; `other` if that no longer is the content of `entry`: another event follows then. */
  sums?: ContentSums | 'other';
}

export interface PackageUpdatesOptions {
  readonly root: ScanRoot;
  /** Directory of the job. */
  readonly directory: string;
  readonly findings: CurrentFindings;
  readonly logger: Logger;
  /** Whether explained changes are accepted into the baseline. */
  readonly isAccepting: () => boolean;
  /** Called when there are changes to accept. */
  readonly onAcceptable: () => void;
  /** Called when updates are no longer recognized, see {@link PackageUpdates.unrecognized}. */
  readonly onBroken: () => void;
  /** See {@link defaultIdleMs}. */
  readonly idleMs?: number | undefined;
}

/** dpkg writes its database after the files. Once it has been idle for this long, it is not expected to write more. */
const defaultIdleMs = 30_000;
/** Longest time that a change is held back, even if dpkg remains active. */
const longestMs = 10 * 60_000;
/** Number of changes that are explained in one turn of the event loop. */
const atOnce = 50;
/** Limit of accepted updates that are kept for results. */
const maxAccepted = 20;

const kind: NoteKind = {
  purpose: 'packages of a job',
  unreadable: 'the record of the packages cannot be read',
  unsigned: 'the record of the packages is not signed with the expected key',
};

interface PackagesNote {
  readonly version: 1;
  readonly snapshot?: PackageSnapshot | undefined;
  /** Why there is no database of dpkg. */
  readonly absent?: string | undefined;
  readonly accepted: readonly PackageUpdate[];
}

/** Disposing it drops the waiting changes: a scan finds them. */
export class PackageUpdates implements Disposable {
  readonly #options: PackageUpdatesOptions;
  readonly #files: NodeFiles;
  readonly #path: string;
  readonly #waiting = new Map<ByteString, Waiting>();
  readonly #acceptable = new AcceptableUpdates();
  #database: DpkgDatabase | undefined;
  /** Why there is no database of dpkg; undefined before the first baseline. */
  #absent: string | undefined;
  #accepted: readonly PackageUpdate[] = [];
  #key: SigningKey | undefined;
  #isWatched = false;
  #mustVerify = false;
  #reportedBroken = false;
  #activeMs = 0;
  #isWorking = false;
  #hasMore = false;
  #timer: NodeJS.Timeout | undefined;
  #isDisposed = false;

  constructor(options: PackageUpdatesOptions) {
    this.#options = options;
    this.#files = new NodeFiles(options.root.directory);
    this.#path = join(options.directory, 'packages');
  }

  /** Accepted updates, the latest one last. */
  get accepted(): readonly PackageUpdate[] {
    return this.#accepted;
  }

  /** Why updates are not recognized; undefined if they are, or before the first baseline. */
  get unrecognized(): string | undefined {
    if (this.#database === undefined) return this.#absent;
    const { broken } = this.#database;
    return broken && `${broken}; only a new baseline (re-init) trusts it again`;
  }

  /**
   * The current database, for a baseline that is about to be made; a text with the reason if the node has no database
   * or it cannot be read.
   */
  async read(): Promise<DpkgDatabase | string> {
    try {
      return (await DpkgDatabase.read(this.#files)) ?? 'the node has no database of dpkg';
    } catch (err) {
      this.#options.logger.warn(
        { err },
        'updates of packages are not recognized: the database of dpkg cannot be read',
      );
      return `the database of dpkg cannot be read: ${messageOf(err)}`;
    }
  }

  /** Call when a baseline was made, with what {@link read} returned before. */
  async begin(read: DpkgDatabase | string | undefined, key: SigningKey): Promise<void> {
    this.forget();
    [this.#database, this.#absent] = typeof read === 'string' ? [undefined, read] : [read, undefined];
    this.#key = key;
    [this.#isWatched, this.#reportedBroken] = [false, false];
    await this.#save();
  }

  /** Continues with the baseline and the database of an earlier run. */
  async resume(key: SigningKey): Promise<void> {
    const { logger } = this.#options;
    this.#key = key;
    try {
      const note = (await readNote(this.#path, kind, key)) as PackagesNote | undefined;
      this.#absent = 'the baseline has no record of the packages; a new one (re-init) has';
      if (note?.version !== 1) return;
      this.#accepted = note.accepted;
      this.#database = note.snapshot && (await DpkgDatabase.resume(this.#files, note.snapshot));
      if (note.snapshot !== undefined) this.#absent = 'the database of dpkg is gone';
      else this.#absent = note.absent ?? this.#absent;
    } catch (err) {
      this.#absent = `${messageOf(err)}; a new baseline (re-init) begins anew`;
      logger.warn({ err }, 'updates of packages are not recognized until the next baseline');
    }
  }

  /** Whether the directory has to be watched for dpkg's database. */
  wants(directory: ByteString): boolean {
    return this.#database !== undefined && dpkgDirectories.has(directory);
  }

  /** Call when a path of the node has changed; without the root's prefix. */
  changed(path: ByteString, hand: Hand | undefined, isDiverter: boolean): void {
    if (this.#database === undefined) return;
    this.#database.changed(path, hand, isDiverter);
    this.#reportBroken();
    if (!this.#database.isDirty) return;
    this.#activeMs = performance.now();
    this.#workSoon();
  }

  /** Call when all directories of the job are watched. Changes before that were not seen. */
  watched(): void {
    // If the directories were watched before, the events that are still pending suffice.
    if (!this.#isWatched) this.verify();
  }

  /** Call when changes in the directories of the job may have been missed. */
  verify(): void {
    if (this.#database === undefined) return;
    this.#mustVerify = true;
    this.#workSoon();
  }

  /**
   * Holds back changes by dpkg until their package is known.
   *
   * @returns the other changes, to report now
   */
  take(seen: readonly SeenUpdate[]): PathUpdate[] {
    const { findings } = this.#options;
    const reported: PathUpdate[] = [];
    for (const { update, entry } of seen) {
      const { path, change, hand } = update;
      this.#acceptable.delete(path);
      const known = findings.heldOf(path);
      const isDpkgs =
        known === undefined ||
        known.hand === 'packages' ||
        (known.hand === undefined && isSame(known.change, change));
      const waits = this.#database?.broken === undefined && this.#database !== undefined;
      if (waits && change !== undefined && hand === 'packages' && isDpkgs) {
        this.#wait(update, entry);
      } else {
        this.#waiting.delete(path);
        reported.push(update);
      }
    }
    if (reported.length < seen.length) {
      this.#activeMs = performance.now();
      this.#workSoon();
    }
    return reported;
  }

  #wait(update: PathUpdate, entry: Entry | undefined): void {
    const { path, change } = update;
    const known = this.#waiting.get(path);
    const { sinceMs = Date.now() } = known ?? {};
    // If the directory was removed too, the comparison of the directory does not show who removed the file: keep the
    // earlier update, which does.
    const isSaid = known !== undefined && isSame(known.update.change, change) && update.author === undefined;
    this.#waiting.set(path, { update: isSaid ? known.update : update, entry, sinceMs });
    this.#options.findings.wait(path);
  }

  /** Drops held changes, because nothing is reported for a while; a scan follows. */
  forget(): void {
    clearTimeout(this.#timer);
    for (const path of [...this.#waiting.keys(), ...this.#acceptable.paths()])
      this.#options.findings.unwait(path);
    this.#waiting.clear();
    this.#acceptable.clear();
  }

  get hasAcceptable(): boolean {
    return this.#acceptable.size > 0;
  }

  /**
   * Call when the FileIntegrity may have started to accept updates: changes that were already reported as explained are
   * then accepted too.
   */
  acceptHeld(): void {
    if (!this.#options.isAccepting()) return;
    for (const { change, finding, explanation } of this.#options.findings.held) {
      if (finding.explained === undefined || explanation === undefined) continue;
      this.#acceptable.set(change.path, { update: { path: change.path, change }, explanation });
    }
    if (this.hasAcceptable) this.#options.onAcceptable();
  }

  /** The changes to accept now. */
  acceptable(): UpdatesToAccept {
    return this.#acceptable.toAccept();
  }

  /** Call when updates were accepted. @param left paths that could not be accepted: they are reported as ordinary findings */
  async wereAccepted({ all }: UpdatesToAccept, left: ReadonlySet<ByteString>): Promise<void> {
    const { findings } = this.#options;
    const atMs = Date.now();
    const settled = this.#acceptable.settle(all, left, atMs);
    findings.acceptUpdates(settled.taken, atMs);
    findings.update(settled.left, atMs);
    this.#database?.accept(new Set(settled.taken.flatMap(({ explanation }) => explanation?.package ?? [])));
    this.#accepted = [...this.#accepted, ...settled.accepted].slice(-maxAccepted);
    await this.#save();
  }

  #workSoon(): void {
    if (this.#isDisposed) return;
    this.#hasMore = true;
    if (this.#isWorking) return;
    this.#isWorking = true;
    void this.#doWork();
  }

  async #doWork(): Promise<void> {
    while (this.#hasMore && !this.#isDisposed) {
      this.#hasMore = false;
      // Wait for events of the same turn, to handle them together.
      await nextTurn();
      const database = this.#database;
      if (database === undefined) continue;
      try {
        const isChanged = database.isDirty || this.#mustVerify;
        await database.refresh();
        if (this.#mustVerify) {
          this.#mustVerify = false;
          await database.verify();
          this.#isWatched = true;
        }
        if (database !== this.#database) continue;
        this.#reportBroken();
        await this.#explainAll(database);
        if (isChanged) await this.#save();
      } catch (err) {
        this.#options.logger.warn({ err }, 'an update of packages could not be recognized');
      }
    }
    // No await between the last check of `#hasMore` and this, so that no work is missed.
    this.#isWorking = false;
    this.#reportLate();
  }

  async #explainAll(database: DpkgDatabase): Promise<void> {
    const { isAccepting, onAcceptable, findings } = this.#options;
    if (!this.#isWatched) return;
    const reported: PathUpdate[] = [];
    let count = 0;
    for (const [path, waiting] of [...this.#waiting]) {
      if (++count % atOnce === 0) await nextTurn();
      const explanation = await this.#explain(database, waiting);
      // The change may have been replaced or reported meanwhile.
      if (explanation === undefined || this.#isDisposed || this.#waiting.get(path) !== waiting) continue;
      this.#waiting.delete(path);
      const { update, sinceMs } = waiting;
      if (isAccepting()) this.#acceptable.set(path, { update, explanation });
      else
        reported.push({ ...update, seenMs: sinceMs, explained: explanationText(explanation), explanation });
    }
    if (reported.length > 0) findings.update(reported, Date.now());
    if (this.hasAcceptable) onAcceptable();
  }

  async #explain(database: DpkgDatabase, waiting: Waiting): Promise<Explanation | undefined> {
    const { update, entry } = waiting;
    const path = withoutPrefix(update.path, this.#options.root.prefix);
    if (path === undefined || update.change === undefined) return undefined;
    const { kind: change } = update.change;
    if (change === 'removed')
      return database.explain(path, { kind: change, type: undefined, md5: undefined });
    if (entry === undefined || !isOfDpkg(update, entry)) return undefined;
    const { type } = entry;
    if (type !== 'f') return database.explain(path, { kind: change, type, md5: undefined });
    const sums = (waiting.sums ??= await this.#sumsOf(path, entry));
    return sums === 'other' ? undefined : database.explain(path, { kind: change, type, md5: sums.md5 });
  }

  async #sumsOf(path: ByteString, entry: Entry): Promise<ContentSums | 'other'> {
    const sums = await this.#files.sums(path);
    return sums !== undefined && isContentOf(entry, sums) ? sums : 'other';
  }

  /** Reports held changes for which no package was found in time. */
  #reportLate(): void {
    clearTimeout(this.#timer);
    if (this.#isDisposed || this.#waiting.size === 0) return;
    const { findings, idleMs = defaultIdleMs } = this.#options;
    const isIdle = this.#database?.broken !== undefined || performance.now() - this.#activeMs >= idleMs;
    const nowMs = Date.now();
    const late = [...this.#waiting.values()].filter(({ sinceMs }) => isIdle || nowMs - sinceMs >= longestMs);
    for (const { update } of late) this.#waiting.delete(update.path);
    if (late.length > 0)
      findings.update(
        late.map(({ update, sinceMs }) => ({ ...update, seenMs: sinceMs })),
        nowMs,
      );
    if (this.#waiting.size === 0) return;
    this.#timer = setTimeout(
      () => this.#reportLate(),
      Math.max(0, this.#activeMs + idleMs - performance.now()) + 1,
    );
    this.#timer.unref();
  }

  #reportBroken(): void {
    const why = this.#database?.broken;
    if (why === undefined || this.#reportedBroken) return;
    this.#reportedBroken = true;
    this.#options.logger.warn({ why }, 'updates of packages are not recognized until the next baseline');
    this.#options.onBroken();
  }

  async #save(): Promise<void> {
    if (this.#key === undefined) return;
    const note: PackagesNote = {
      version: 1,
      snapshot: this.#database?.snapshot,
      absent: this.#database === undefined ? this.#absent : undefined,
      accepted: this.#accepted,
    };
    try {
      await writeNote(this.#path, kind, note, this.#key);
    } catch (err) {
      this.#options.logger.warn(
        { err },
        'the record of the packages could not be saved; a restart would lose it',
      );
    }
  }

  [Symbol.dispose](): void {
    this.#isDisposed = true;
    clearTimeout(this.#timer);
    this.#waiting.clear();
  }
}
