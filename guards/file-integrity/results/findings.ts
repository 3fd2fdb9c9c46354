/**
 * What differs from the baseline of a job right now. A full scan determines it for all paths, events for
 * single ones; listeners get the changes. An event is later than a running scan: for a path that was compared
 * individually since the scan began, the scan's result is ignored.
 */
import { type ByteString, isAtOrBelowAny } from '../model/entry.ts';
import { type Finding, type FindingChange, lastSeenMs, type Reading, type Unread } from '../model/finding.ts';
import { compareInTree } from '../report/report.ts';
import { type ChangeCounts, type ChangeKind, CountedPaths } from '../model/counted-paths.ts';
import type { PackageUpdate } from '../model/explanation.ts';
import { findingOf, type HeldFinding, hostPath, isSame, type PathUpdate, refined } from './held-finding.ts';
import type { LargeFile, Report, ReportCounts } from '../model/report.ts';

/** Findings of one job that are held, at some kilobytes each at the most; more are counted. */
const maxHeldFindings = 10_000;
/** Paths that are remembered while a scan runs. */
const maxTouched = 300_000;

export interface CurrentFindingsOptions {
  /** Prefix of the scanned root; findings have paths without it. */
  readonly prefix: ByteString;
  /** Called with the changes after each call that makes any; it must be quick. */
  readonly onChange: (changes: readonly FindingChange[]) => void;
  /** Default: {@link maxHeldFindings}. */
  readonly limit?: number;
}

export class CurrentFindings {
  readonly #prefix: ByteString;
  readonly #onChange: (changes: readonly FindingChange[]) => void;
  readonly #limit: number;
  /** The one that was seen last is last. */
  #held = new Map<ByteString, HeldFinding>();
  /** Counted, and not held. */
  #omitted = new CountedPaths();
  /** The counts of the last scan, while the names of some that are counted are not known. */
  #fixed: ReportCounts | undefined;
  #scanned: Pick<Report, 'redefined' | 'problems'> & {
    /** Entries of the baseline that the scan would have found without changes: removed ones count, added ones do not. */
    readonly unchangedTotal: number;
    readonly omittedOthers: number;
  } = nothing;
  #touched: Set<ByteString> | undefined;
  /** Their changes are reported later: a scan's results for them are ignored. */
  readonly #waiting = new Set<ByteString>();
  #problems = 0;
  #isKnown = false;
  #version = 0;

  constructor({ prefix, onChange, limit = maxHeldFindings }: CurrentFindingsOptions) {
    this.#prefix = prefix;
    this.#onChange = onChange;
    this.#limit = limit;
  }

  /** Whether a scan has ended, or a baseline was just made. Before that, the absence of findings means nothing. */
  get isKnown(): boolean {
    return this.#isKnown;
  }

  /** Changes whenever the held findings change. */
  get version(): number {
    return this.#version;
  }

  /** The held findings, the last one seen is last. */
  get held(): Iterable<HeldFinding> {
    return this.#held.values();
  }

  /**
   * Called before the first scan: the findings of an earlier process. Listeners are not called; the scan
   * determines what still holds.
   */
  restore(held: readonly HeldFinding[]): void {
    for (const one of held) this.#held.set(one.change.path, one);
  }

  /** Exact, including findings that are only counted; beyond 300,000 of these, from the last scan. */
  get counts(): ReportCounts {
    if (this.#fixed !== undefined) return this.#fixed;
    const counts = { ...this.#omitted.counts };
    for (const { change } of this.#held.values()) counts[change.kind]++;
    // As in AIDE: the entries that exist now.
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

  /** The state of a path is reported later, by {@link update} or {@link acceptUpdates}. */
  wait(path: ByteString): void {
    this.#waiting.add(path);
  }

  /** Ends the waiting without a report: a scan determines the state. */
  unwait(path: ByteString): void {
    this.#waiting.delete(path);
  }

  /** Paths with a finding that was seen until then, with the prefix; in no order. */
  paths(seenUntilMs = Infinity): ByteString[] {
    return [...this.#held]
      .filter(([, { finding }]) => lastSeenMs(finding) <= seenUntilMs)
      .map(([path]) => path);
  }

  /** Differing paths in a directory, including those that are only counted. */
  pathsBelow(directory: ByteString): ByteString[] {
    const all = [...this.#held.keys(), ...this.#omitted.paths];
    return all.filter((path) => path.startsWith(`${directory}/`));
  }

  /**
   * The last ones seen, the latest first, and how many more there are. Those explained by a package update
   * come after the others: one update may have more files than fit.
   */
  latest(count: number): { readonly findings: readonly Finding[]; readonly omitted: number } {
    const all = [...this.#held.values()].reverse().map(({ finding }) => finding);
    const findings = [
      ...all.filter(({ explained }) => explained === undefined),
      ...all.filter(({ explained }) => explained !== undefined),
    ].slice(0, count);
    return { findings, omitted: all.length - findings.length + this.#omitted.size };
  }

  /** Keyed by update of a package: how many files differ, the latest update last. */
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

  /** The files that the last scan could not read, some of them by name; undefined if it could read all. */
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

  /** Large files that are still to be read, some of them by name; undefined without any. */
  reading(paths: ReadonlySet<ByteString>, max: number): Reading | undefined {
    if (paths.size === 0) return undefined;
    const files = [...paths].slice(0, max).map((path) => hostPath(path, this.#prefix));
    return { count: paths.size, files };
  }

  /** A scan begins now: later updates of single paths take precedence. */
  beginScan(): void {
    this.#touched = new Set();
  }

  /** The scan was given up: it has no results. */
  abortScan(): void {
    this.#touched = undefined;
  }

  /**
   * The result of the last begun scan replaces everything that was known before it began.
   *
   * @param counted changes that the report counts but does not list; without it, only their number is known
   * @param large files without a result: their last known state stays, until {@link readLarge}
   */
  endScan(
    report: Report,
    atMs: number,
    counted?: CountedPaths,
    large: ReadonlySet<ByteString> = new Set(),
  ): void {
    const touched = this.#touched ?? new Set();
    this.#touched = undefined;
    // Too many paths to remember: the findings and counts of the scan are used as they are.
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
    // In the order in which they were seen.
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
    // The finding may be one of those without a name.
    if (omitted.isComplete) {
      for (const [path, { finding }] of before) {
        if (!this.#held.has(path) && omitted.get(path) === undefined)
          changes.push({ state: 'gone', path, finding });
      }
    }
    this.#isKnown = true;
    this.#notify(changes);
  }

  /** The results of events: the present state of these paths. */
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
      // Deleted first, so that it becomes the last entry: the one seen last.
      this.#held.delete(path);
      this.#held.set(path, held);
      changes.push({ state: 'found', path, finding: held.finding });
    }
    this.#limitHeld();
    this.#notify(changes, isCounted);
  }

  /** The result for a large file that a scan had left out. */
  readLarge({ path, change, problem }: LargeFile, atMs: number): void {
    const others = this.#scanned.problems.filter((one) => one.path !== path);
    const problems = problem === undefined ? others : [...others, problem];
    this.#problems += problems.length - this.#scanned.problems.length;
    this.#scanned = { ...this.#scanned, problems };
    if (problem === undefined) this.update([{ path, change, seenBy: 'scan' }], atMs);
  }

  /** These paths are in the baseline now. */
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

  /** Unreported changes that are in the baseline now, including those of reported findings. */
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

  /** A baseline was just made of everything, except for `unread` files. */
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

  /** As a scan would report it, for the held findings. */
  report(): Report {
    const { redefined, problems, omittedOthers } = this.#scanned;
    const changes = [...this.#held.values()].map(({ change }) => change);
    changes.sort((a, b) => compareInTree(a.path, b.path));
    return { counts: this.counts, changes, redefined, problems, omitted: this.#omitted.size + omittedOthers };
  }

  /** The state of the path is known: a running scan may have looked at it earlier. */
  #touch(path: ByteString): void {
    this.#waiting.delete(path);
    if (this.#touched !== undefined && this.#touched.size < maxTouched) this.#touched.add(path);
  }

  /** The ones that were seen first are only counted then. */
  #limitHeld(): void {
    for (const [path, { change }] of this.#held) {
      if (this.#held.size <= this.#limit) break;
      this.#held.delete(path);
      this.#omitted.set(path, change.kind);
    }
    // From here on, one that is counted could be counted again.
    if (!this.#omitted.isComplete) this.#fixed ??= this.counts;
  }

  /** @param isCounted the counts alone have changed */
  #notify(changes: readonly FindingChange[], isCounted = false): void {
    if (changes.length === 0 && !isCounted) return;
    this.#version++;
    this.#onChange(changes);
  }
}

/** Entries that a baseline gains when a change is accepted. */
const moreEntries: ChangeCounts = { added: 1, removed: -1, changed: 0 };
const nothing = { redefined: [], problems: [], unchangedTotal: 0, omittedOthers: 0 };

function sum({ added, removed, changed }: ChangeCounts): number {
  return added + removed + changed;
}

/** Findings that a report counts but does not list. */
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
