/** The provider `native`, our own engine: scans with `scan/`, stores baselines with `database/`, compares with `compare.ts`. */
import type { AideConf } from '../aide-conf/conf.ts';
import { configDigest } from '../aide-conf/digest.ts';
import { Selection } from '../aide-conf/selection.ts';
import { readAideConf } from '../aide-conf/evaluate.ts';
import { reportOptionsOf } from '../aide-conf/report-options.ts';
import type { Batches } from '../model/batches.ts';
import { Comparison } from '../compare/compare.ts';
import { nodeEnvironment } from '../aide-conf/conf-environment.ts';
import { BaselineError } from '../database/baseline-error.ts';
import { onlyEntries } from '../database/entry-block.ts';
import type { Baseline } from '../database/read-baseline.ts';
import type { ByteString, Entry, ScanProblem } from '../model/entry.ts';
import type {
  Acceptance,
  AcceptOptions,
  AcceptResult,
  CheckOptions,
  CheckResult,
  InitOptions,
  InitResult,
  IntegrityJob,
  IntegrityProvider,
  RunOptions,
} from '../provider/provider.ts';
import { CountedPaths } from '../model/counted-paths.ts';
import type { LargeFile } from '../model/report.ts';
import { collectReport } from '../report/collect.ts';
import { MovesWithin } from '../live/moves-within.ts';
import { recheckPaths } from '../live/recheck.ts';
import { isSame } from '../results/held-finding.ts';
import { runFacts } from '../check/run-facts.ts';
import { Scanner, type ScanOptions } from '../scan/scanner.ts';
import { ReadRate } from '../scan/shared-state.ts';
import { defaultWorkers } from '../scan/thread-pool.ts';
import { appendAcceptance } from '../signed-notes/acceptance-log.ts';
import { withAccepted } from './accepted-entries.ts';
import { BaselineStore } from './baseline-store.ts';

export interface NativeProviderOptions {
  /** Version of Rampart, for baselines and reports. */
  readonly version: string;
  /** Number of threads that read files. Default: the scanner's. */
  readonly workers?: number | undefined;
  /** Limit for all threads together, in bytes per second. Default: unlimited. */
  readonly readBytesPerSecond?: number | undefined;
  /** Niceness of these threads, as in nice(1). Default: 0. */
  readonly niceness?: number;
}

/** A baseline remembers at most this many request ids. If a forgotten request is repeated, it is carried out again. */
const maxRequests = 100;

/** Holds only memory between two calls. */
export class NativeProvider implements IntegrityProvider {
  readonly name = 'native';
  readonly #options: NativeProviderOptions;
  readonly #rate: ReadRate;
  /** Number of threads that are reading large files. */
  #largeReaders = 0;

  constructor(options: NativeProviderOptions) {
    this.#options = options;
    this.#rate = new ReadRate(options.readBytesPerSecond ?? Infinity);
  }

  async state(job: IntegrityJob): Promise<'ready' | 'none' | 'other-configuration'> {
    const baseline = await new BaselineStore(job).open();
    if (baseline === undefined) return 'none';
    await using _ = baseline;
    return baseline.header.configDigest === configDigest(job.conf) ? 'ready' : 'other-configuration';
  }

  async init(job: IntegrityJob, options: InitOptions): Promise<InitResult> {
    const { signal, request } = options;
    const store = new BaselineStore(job);
    const before = await openIfUsable(store);
    const requests = requestsOf(before);
    await before?.[Symbol.asyncDispose]();
    if (before !== undefined && request !== undefined && requests.includes(request)) {
      return { entries: before.counts.entries, unread: 0 };
    }
    const conf = confOf(job);
    await using scanner = this.#scanner(job);
    const [now] = scanner.scan([conf], scanOptions(options, before === undefined ? [] : [before]));
    const seen = { unread: 0 };
    const { entries } = await store.replace({
      header: this.#header(job, { madeBy: 'init', requests: [...requests, request] }),
      entries: onlyEntries(now ?? [], () => seen.unread++),
      signal,
    });
    return { entries, unread: seen.unread };
  }

  async check(job: IntegrityJob, options: RunOptions): Promise<CheckResult> {
    const [result] = await this.checkTogether([job], options);
    if (result?.status === 'fulfilled') return result.value;
    throw result?.reason;
  }

  async checkTogether(
    jobs: readonly IntegrityJob[],
    options: CheckOptions,
  ): Promise<readonly PromiseSettledResult<CheckResult>[]> {
    const startedMs = Date.now();
    await using opened = new AsyncDisposableStack();
    const parts = await Promise.allSettled(
      jobs.map(async (job) => ({ conf: confOf(job), baseline: opened.use(await this.openBaseline(job)) })),
    );
    const ready = parts.filter((part) => part.status === 'fulfilled').map(({ value }) => value);
    const [first] = jobs;
    if (first === undefined || ready.length === 0)
      return parts as readonly PromiseSettledResult<CheckResult>[];
    const { directory, prefix } = first.root;
    if (jobs.some(({ root }) => root.directory !== directory || root.prefix !== prefix)) {
      throw new TypeError('jobs of different roots cannot be checked together');
    }
    const scanner = opened.use(this.#scanner(first));
    const streams = scanner.scan(
      ready.map(({ conf }) => conf),
      scanOptions(
        options,
        ready.map(({ baseline }) => baseline),
      ),
    );
    const streamOf = new Map(ready.map((part, at) => [part, streams[at] ?? []]));
    const settled = await Promise.allSettled(
      parts.map(async (part) => {
        if (part.status === 'rejected') throw part.reason;
        return this.#compare(part.value, streamOf.get(part.value) ?? [], scanner, options, startedMs);
      }),
    );
    options.signal.throwIfAborted();
    return settled;
  }

  async *readLarge(
    job: IntegrityJob,
    paths: readonly ByteString[],
    { signal, onProgress }: RunOptions,
  ): AsyncGenerator<LargeFile, void, undefined> {
    await using baseline = await this.openBaseline(job);
    const conf = confOf(job);
    await using scanner = this.#scanner(job, 1);
    const parts = { baseline, conf, reportOptions: reportOptionsOf(conf), scanner, onProgress };
    const moves = new MovesWithin({ baseline, root: job.root }, new Selection(conf));
    this.#largeReaders++;
    try {
      for (const path of paths) {
        const others = moves.concerns(path) ? await moves.besides(path, signal) : [];
        const asked = [path, ...others].sort();
        const seen = await recheckPaths(parts, asked, signal);
        moves.looked(asked, seen);
        yield { path, change: seen.changes.get(path), problem: seen.unread.get(path) };
      }
    } finally {
      this.#largeReaders--;
    }
  }

  async accept(
    job: IntegrityJob,
    paths: readonly ByteString[],
    about: Acceptance,
    { signal, expected }: AcceptOptions,
  ): Promise<AcceptResult> {
    const { author, reason, request } = about;
    const store = new BaselineStore(job);
    await using baseline = await this.openBaseline(job);
    const requests = requestsOf(baseline);
    if (request !== undefined && requests.includes(request)) return { unread: [] };
    const conf = confOf(job);
    await using scanner = this.#scanner(job);
    const parts = { baseline, conf, reportOptions: reportOptionsOf(conf), scanner };
    const { now, changes, unread: unreadable } = await recheckPaths(parts, paths, signal);
    const isLeft = (path: ByteString): boolean => {
      const change = expected?.get(path);
      return unreadable.has(path) || (change !== undefined && !isSame(change, changes.get(path)));
    };
    const unread = new Set(paths.filter(isLeft));
    const accepted = paths.filter((path) => !unread.has(path));
    const header = this.#header(job, { madeBy: 'accept', requests: [...requests, request], author, reason });
    await store.replace(
      // Everything else is unchanged, including the configuration that the baseline was made with.
      {
        header: { ...header, configDigest: baseline.header.configDigest },
        entries: withAccepted(baseline.entries(signal), accepted, now),
        signal,
      },
      ({ digest }) => appendAcceptance(job, about, accepted, digest),
    );
    return { unread: [...unread] };
  }

  async openBaseline(job: IntegrityJob): Promise<Baseline> {
    const store = new BaselineStore(job);
    const baseline = await store.open();
    if (baseline === undefined) throw new BaselineError('missing', store.path, 'none has been created yet');
    return baseline;
  }

  async #compare(
    { conf, baseline }: { readonly conf: AideConf; readonly baseline: Baseline },
    now: Batches<Entry | ScanProblem>,
    scanner: Scanner,
    { signal }: RunOptions,
    startedMs: number,
  ): Promise<CheckResult> {
    const options = reportOptionsOf(conf);
    const comparison = new Comparison({
      old: baseline.entries(signal),
      now,
      oldAttributes: baseline.counts.attributes,
      digestStart: (entry, sizeBytes, aborted = signal) => scanner.digestStart(entry, sizeBytes, aborted),
      signal,
    });
    const counted = new CountedPaths();
    const { totals } = comparison;
    const large = new Set<ByteString>();
    const report = await collectReport({ differences: comparison, totals, options, counted, large });
    const program = `Rampart ${this.#options.version}`;
    const facts = runFacts(conf, { action: 'check', program, startedMs });
    return { report, options, facts, counted, large };
  }

  #scanner({ root }: IntegrityJob, maxWorkers = Infinity): Scanner {
    const { workers = defaultWorkers(), niceness = 0 } = this.#options;
    return new Scanner({
      ...{ root, niceness, readBytesPerSecond: this.#rate },
      workers: Math.min(maxWorkers, Math.max(1, workers - this.#largeReaders)),
    });
  }

  #header(
    job: IntegrityJob,
    {
      requests,
      ...about
    }: { readonly requests: readonly (string | undefined)[]; readonly [key: string]: unknown },
  ): { rampartVersion: string; madeAtMs: number; configDigest: string; about: Record<string, string> } {
    const done = requests.filter((id) => id !== undefined).slice(-maxRequests);
    return {
      rampartVersion: this.#options.version,
      madeAtMs: Date.now(),
      configDigest: configDigest(job.conf),
      about: { ...(about as Record<string, string>), requests: done.join(' ') },
    };
  }
}

function confOf({ conf: { name, text }, root }: IntegrityJob): AideConf {
  return readAideConf(name, text, nodeEnvironment(root));
}

/** Opens the current baseline; undefined if it is unusable, which does not matter because it is about to be replaced. */
async function openIfUsable(store: BaselineStore): Promise<Baseline | undefined> {
  try {
    return await store.open();
  } catch (error) {
    if (error instanceof BaselineError) return undefined;
    throw error;
  }
}

function requestsOf(baseline: Baseline | undefined): string[] {
  return baseline?.header.about['requests']?.split(' ').filter((id) => id !== '') ?? [];
}

/** The options of a scan. What it is expected to read is taken from the baselines, if there are any. */
function scanOptions(
  { signal, onProgress, largeBytes }: CheckOptions,
  baselines: readonly Baseline[],
): ScanOptions {
  // The maximum, not the sum: the baselines may have the same files.
  const max = (of: (baseline: Baseline) => number): number => Math.max(0, ...baselines.map(of));
  const expected = {
    files: max(({ counts }) => counts.entries),
    bytes: max(({ counts }) => counts.contentBytes),
  };
  return { signal, onProgress, largeBytes, ...(expected.files > 0 && { expected }) };
}
