/**
 * The current differences from the baseline of a job. A full scan determines them for all paths, events for single
 * ones; listeners receive the changes. An event is more recent than a running scan: if a path was compared individually
 * since the scan started, the scan's result for it is ignored.
 */
import { type ByteString, isAtOrBelowAny } from '../model/entry.ts';
import { type Finding, type FindingChange, lastSeenMs, type Reading, type Unread } from '../model/finding.ts';
import { compareInTree } from '../report/report.ts';
import { type ChangeCounts, type ChangeKind, CountedPaths } from '../model/counted-paths.ts';
import type { PackageUpdate } from '../model/explanation.ts';
import { findingOf, type HeldFinding, hostPath, isSame, type PathUpdate, refined } from './held-finding.ts';
import type { LargeFile, Report, ReportCounts } from '../model/report.ts';

/** Limit of findings that are held for a job, each of some kilobytes at most; the others are only counted. */
const maxHeldFindings = 10_000;
/** Limit of paths that are remembered while a scan runs. */
const maxTouched = 300_000;

export interface CurrentFindingsOptions {
  /** Prefix of the scanned root; findings have paths without it. */
  readonly prefix: ByteString;
  /** Called with the changes after each call that causes any. Must be quick. */
  readonly onChange: (changes: readonly FindingChange[]) => void;
  /** Default: {@link maxHeldFindings}. */
  readonly limit?: number;
}

export class CurrentFindings {
  readonly #prefix: ByteString;
  readonly #onChange: (changes: readonly FindingChange[]) => void;
  readonly #limit: number;
  /** The finding that was seen last is the last entry. */
  #held = new Map<ByteString, HeldFinding>();
  /** Findings that are only counted. */
  #omitted = new CountedPaths();
  /** The counts of the last scan; set while not all counted paths are known. */
  #fixed: ReportCounts | undefined;
  #scanned: Pick<Report, 'redefined' | 'problems'> & {
    /** Number of entries that the last scan would have had without changes: removed entries count, added ones do not. */
    readonly unchangedTotal: number;
    readonly omittedOthers: number;
  } = nothing;
  #touched: Set<ByteString> | undefined;
  /** Paths whose changes are reported later: the results of a scan for them are ignored. */
  readonly #waiting = new Set<ByteString>();
  #problems = 0;
  #isKnown = false;
  #version = 0;

  constructor({ prefix, onChange, limit = maxHeldFindings }: CurrentFindingsOptions) {
    this.#prefix = prefix;
    this.#onChange = onChange;
    this.#limit = limit;
  }

  /** Whether a scan has ended or a baseline was just made. Before that, an absence of findings means nothing. */
  get isKnown(): boolean {
    return this.#isKnown;
  }

  /** Changes whenever the held findings change. */
  get version(): number {
    return this.#version;
  }

  /** The held findings; the one that was seen last is last. */
  get held(): Iterable<HeldFinding> {
    return this.#held.values();
  }

  /**
   * Adds the findings of an earlier process. Call it before the first scan, which determines whether they are still
   * right. Listeners are not called.
   */
  restore(held: readonly HeldFinding[]): void {
    for (const one of held) this.#held.set(one.change.path, one);
  }

  /** Includes findings that are only counted. Exact up to 300,000 of these; otherwise the counts of the last scan. */
  get counts(): ReportCounts {
    if (this.#fixed !== undefined) return this.#fixed;
    const counts = { ...this.#omitted.counts };
    for (const { change } of this.#held.values()) counts[change.kind]++;
    // As in AIDE, the total is the number of current entries.
    const total = this.#scanned.unchangedTotal + counts.added - counts.removed;
    return { total, ...counts, problems: this.#problems };
  }

  get omitted(): number {
    return this.#omitted.size;
  }

  get(path: ByteString): Finding | undefined {
    return this.#held.get(path)?.finding;
  }

  heldOf(path: ByteString): HeldFinding | undefined {
    return this.#held.get(path);
  }

  /** Announces that the state of a path will be reported later, by {@link update} or {@link acceptUpdates}. */
  wait(path: ByteString): void {
    this.#waiting.add(path);
  }

  /** Cancels {@link wait}: the next scan determines the state of the path. */
  unwait(path: ByteString): void {
    this.#waiting.delete(path);
  }

  /** Paths of findings that were last seen no later than this; with the prefix, in no particular order. */
  paths(seenUntilMs = Infinity): ByteString[] {
    return [...this.#held]
      .filter(([, { finding }]) => lastSeenMs(finding) <= seenUntilMs)
      .map(([path]) => path);
  }

  /** Differing paths below a directory, including those that are only counted. */
  pathsBelow(directory: ByteString): ByteString[] {
    const all = [...this.#held.keys(), ...this.#omitted.paths];
    return all.filter((path) => path.startsWith(`${directory}/`));
  }

  /**
   * The findings that were seen last, the latest first, and the number of the others. Findings explained by a package
   * update come after all others, because one update may have more files than fit.
   */
  latest(count: number): { readonly findings: readonly Finding[]; readonly omitted: number } {
    const all = [...this.#held.values()].reverse().map(({ finding }) => finding);
    const findings = [
      ...all.filter(({ explained }) => explained === undefined),
      ...all.filter(({ explained }) => explained !== undefined),
    ].slice(0, count);
    return { findings, omitted: all.length - findings.length + this.#omitted.size };
  }

  /** The package updates that explain findings, each with its number of files; the latest update is last. */
  updates(): PackageUpdate[] {
    const found = new Map<string, PackageUpdate>();
    for (const { finding } of this.#held.values()) {
      const { explained: update, seenMs } = finding;
      if (update === undefined) continue;
      const { files = 0, atMs = 0 } = found.get(update) ?? {};
      found.set(update, { update, files: files + 1, atMs: Math.max(atMs, seenMs), accepted: false });
    }
    return [...found.values()].toSorted((a, b) => a.atMs - b.atMs);
  }

  /** The files that the last scan could not read: their number, and at most `max` paths. Undefined if all could be read. */
  unread(max: number): Unread | undefined {
    if (this.#problems === 0) return undefined;
    const files = this.#scanned.problems.slice(0, max);
    return {
      count: this.#problems,
      files: files.map(({ path, code, message }) => ({
        path: hostPath(path, this.#prefix),
        reason: `${code}: ${message}`,
      })),
    };
  }

  /** Large files that are not read yet: their number, and at most `max` paths. Undefined if all were read. */
  reading(paths: ReadonlySet<ByteString>, max: number): Reading | undefined {
    if (paths.size === 0) return undefined;
    const files = [...paths].slice(0, max).map((path) => hostPath(path, this.#prefix));
    return { count: paths.size, files };
  }

  /** Call when a scan starts: updates of single paths take precedence over its results from now on. */
  beginScan(): void {
    this.#touched = new Set();
  }

  /** Call when a scan was aborted: it has no results. */
  abortScan(): void {
    this.#touched = undefined;
  }

  /**
   * Call when a scan has ended: its result replaces everything that was known before it started.
   *
   * @param counted changes that the report counts but does not list; if it is absent, only their number is known
   * @param large files without a result: their last known state is kept until {@link readLarge}
   */
  endScan(
    report: Report,
    atMs: number,
    counted?: CountedPaths,
    large: ReadonlySet<ByteString> = new Set(),
  ): void {
    const touched = this.#touched ?? new Set();
    this.#touched = undefined;
    // There were too many updates to remember: the findings and counts of the scan are used unchanged.
    const isForgetful = touched.size >= maxTouched;
    if (isForgetful) touched.clear();
    for (const path of this.#waiting) touched.add(path);
    for (const path of large) touched.add(path);
    const before = this.#held;
    const omittedBefore = this.#omitted;
    const changes: FindingChange[] = [];
    const fresh: [ByteString, HeldFinding][] = [];
    const kept = new Map<ByteString, HeldFinding>();
    const omitted = counted ?? unknownOf(report);
    const seen = { seenMs: atMs, seenBy: 'scan' } as const;
    for (const change of report.changes) {
      const { path } = change;
      if (touched.has(path)) continue;
      const known = before.get(path);
      if (known !== undefined && isSame(known.change, change)) kept.set(path, known);
      else fresh.push([path, findingOf(known, { path, change }, seen, this.#prefix)]);
    }
    const unread = new Set(report.problems.map(({ path }) => path));
    for (const [path, known] of before) {
      // A scan has no result for unreadable files.
      if (touched.has(path) || isAtOrBelowAny(path, unread)) kept.set(path, known);
    }
    for (const path of touched) omitted.delete(path);
    for (const path of omittedBefore.paths) {
      const kind = touched.has(path) || isAtOrBelowAny(path, unread) ? omittedBefore.get(path) : undefined;
      if (kind !== undefined) omitted.set(path, kind);
    }
    // Keeps the order in which the findings were seen.
    this.#held = new Map();
    for (const [path] of before) {
      const known = kept.get(path);
      if (known !== undefined) this.#held.set(path, known);
    }
    for (const [path, held] of fresh) this.#held.set(path, held);
    this.#omitted = omitted;
    this.#fixed = undefined;
    const { redefined, counts } = report;
    const ofLarge = this.#scanned.problems.filter(({ path }) => large.has(path));
    const problems = [...report.problems, ...ofLarge];
    const omittedOthers = Math.max(0, report.omitted - sum(unnamedOf(report)));
    const unchangedTotal = counts.total - counts.added + counts.removed;
    this.#scanned = { redefined, problems, unchangedTotal, omittedOthers };
    this.#problems = counts.problems + ofLarge.length;
    if (isForgetful) this.#fixed = counts;
    this.#limitHeld();
    for (const [path, { finding }] of fresh) {
      if (this.#held.has(path)) changes.push({ state: 'found', path, finding });
    }
    // If `omitted` is incomplete, a path may be one of those that are only counted, so it is unknown whether its finding is gone.
    if (omitted.isComplete) {
      for (const [path, { finding }] of before) {
        if (!this.#held.has(path) && omitted.get(path) === undefined)
          changes.push({ state: 'gone', path, finding });
      }
    }
    this.#isKnown = true;
    this.#notify(changes);
  }

  /** Call with the results of events: the current states of paths. */
  update(updates: readonly PathUpdate[], atMs: number): void {
    const changes: FindingChange[] = [];
    let isCounted = false;
    for (const update of updates) {
      const { path, change } = update;
      const known = this.#held.get(path);
      this.#touch(path);
      if (this.#omitted.delete(path) !== undefined) isCounted = true;
      if (change === undefined) {
        if (known === undefined) continue;
        this.#held.delete(path);
        changes.push({ state: 'gone', path, finding: known.finding });
        continue;
      }
      const seen = { seenMs: update.seenMs ?? atMs, seenBy: update.seenBy ?? 'event' } as const;
      const found = { ...update, change };
      const isKnown = known !== undefined && isSame(known.change, change);
      const { held, isNew } = isKnown
        ? refined(known, found, seen)
        : { held: findingOf(known, found, seen, this.#prefix), isNew: true };
      if (!isNew) {
        this.#held.set(path, held);
        continue;
      }
      // Deleted first, so that it becomes the last entry.
      this.#held.delete(path);
      this.#held.set(path, held);
      changes.push({ state: 'found', path, finding: held.finding });
    }
    this.#limitHeld();
    this.#notify(changes, isCounted);
  }

  /** Call with the result for a large file that a scan has left out. */
  readLarge({ path, change, problem }: LargeFile, atMs: number): void {
    const others = this.#scanned.problems.filter((one) => one.path !== path);
    const problems = problem === undefined ? others : [...others, problem];
    this.#problems += problems.length - this.#scanned.problems.length;
    this.#scanned = { ...this.#scanned, problems };
    if (problem === undefined) this.update([{ path, change, seenBy: 'scan' }], atMs);
  }

  /** Call when the current states of these paths have become part of the baseline. */
  accept(paths: Iterable<ByteString>): void {
    const changes: FindingChange[] = [];
    let more = 0;
    for (const path of paths) {
      const known = this.#held.get(path);
      if (known === undefined) continue;
      this.#held.delete(path);
      more += moreEntries[known.change.kind];
      changes.push({ state: 'accepted', path, finding: known.finding });
    }
    this.#scanned = { ...this.#scanned, unchangedTotal: this.#scanned.unchangedTotal + more };
    this.#notify(changes);
  }

  /**
   * Call when changes that were not reported, because they were waiting for their update to be accepted, have become part of the
   * baseline. Findings about the same paths are accepted too.
   */
  acceptUpdates(updates: readonly PathUpdate[], atMs: number): void {
    const unheld: FindingChange[] = [];
    let more = 0;
    for (const update of updates) {
      const { path, change } = update;
      this.#touch(path);
      if (change === undefined || this.#held.has(path)) continue;
      const seen = { seenMs: update.seenMs ?? atMs, seenBy: 'event' } as const;
      more += moreEntries[change.kind];
      const { finding } = findingOf(undefined, { ...update, change }, seen, this.#prefix);
      unheld.push({ state: 'accepted', path, finding });
    }
    this.#scanned = { ...this.#scanned, unchangedTotal: this.#scanned.unchangedTotal + more };
    this.#notify(unheld);
    this.accept(updates.map(({ path }) => path));
  }

  /** Call when a baseline of all files was made, except for `unread` ones. */
  reset(entries: number, unread = 0): void {
    const gone = [...this.#held].map(([path, { finding }]) => ({
      state: 'accepted' as const,
      path,
      finding,
    }));
    this.#held = new Map();
    this.#waiting.clear();
    this.#omitted = new CountedPaths();
    this.#fixed = undefined;
    this.#scanned = { ...nothing, unchangedTotal: entries };
    this.#problems = unread;
    this.#isKnown = true;
    this.#notify(gone);
  }

  /** The report that a scan would produce for the held findings. */
  report(): Report {
    const { redefined, problems, omittedOthers } = this.#scanned;
    const changes = [...this.#held.values()].map(({ change }) => change);
    changes.sort((a, b) => compareInTree(a.path, b.path));
    return { counts: this.counts, changes, redefined, problems, omitted: this.#omitted.size + omittedOthers };
  }

  /** Marks the state of a path as newer than a running scan, which may have read the path before: the scan's result for it is ignored. */
  #touch(path: ByteString): void {
    this.#waiting.delete(path);
    if (this.#touched !== undefined && this.#touched.size < maxTouched) this.#touched.add(path);
  }

  /** Above the limit, the findings that were seen first are only counted. */
  #limitHeld(): void {
    for (const [path, { change }] of this.#held) {
      if (this.#held.size <= this.#limit) break;
      this.#held.delete(path);
      this.#omitted.set(path, change.kind);
    }
    // From now on, a path may be counted twice, so the counts are kept as they are.
    if (!this.#omitted.isComplete) this.#fixed ??= this.counts;
  }

  /** @param isCounted whether counts have changed even if `changes` is empty */
  #notify(changes: readonly FindingChange[], isCounted = false): void {
    if (changes.length === 0 && !isCounted) return;
    this.#version++;
    this.#onChange(changes);
  }
}

/** Number of entries by which a baseline grows when a change is accepted. */
const moreEntries: ChangeCounts = { added: 1, removed: -1, changed: 0 };
const nothing = { redefined: [], problems: [], unchangedTotal: 0, omittedOthers: 0 };

function sum({ added, removed, changed }: ChangeCounts): number {
  return added + removed + changed;
}

/** Numbers of changes that a report counts but does not list. */
function unnamedOf({ counts, changes }: Report): Record<ChangeKind, number> {
  const unnamed = { added: counts.added, removed: counts.removed, changed: counts.changed };
  for (const { kind } of changes) unnamed[kind]--;
  return unnamed;
}

function unknownOf(report: Report): CountedPaths {
  const omitted = new CountedPaths();
  const unnamed = unnamedOf(report);
  for (const kind of ['added', 'removed', 'changed'] as const) omitted.count(kind, unnamed[kind]);
  return omitted;
}
