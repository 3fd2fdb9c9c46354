/**
 * A provider makes baselines and compares files with them: our own engine, or the real AIDE. Both pass the same tests
 * (provider.suite.fixture.ts).
 */
import type { Baseline } from '../database/read-baseline.ts';
import type { SigningKey } from '../database/signature.ts';
import type { ByteString } from '../model/entry.ts';
import type { CountedPaths } from '../model/counted-paths.ts';
import type { LargeFile, Report, ReportedChange, ReportOptions, RunFacts } from '../model/report.ts';
import type { NewestBaseline } from '../database/newest-baseline.ts';

/** Where the files of the node are. */
export interface ScanRoot {
  /** The scanned directory: `/`, the mount of the host in the agent's pod, or a directory of a test. */
  readonly directory: string;
  /**
   * Prefix of paths in configurations, baselines and reports, in place of `directory`: `/hostroot` for
   * converted configurations, empty for those of the machine itself. `/hostroot/etc/passwd` is the file
   * `directory`/etc/passwd.
   */
  readonly prefix: ByteString;
}

export interface IntegrityJob {
  /** `namespace/name` of the FileIntegrity. */
  readonly key: string;
  /** The configuration. `name` is shown in messages: `ConfigMap openshift-file-integrity/example, aide.conf`. */
  readonly conf: { readonly name: string; readonly text: string };
  readonly root: ScanRoot;
  /** The job's own directory on the node, with mode 0700, for its baseline, backups and the log of the last scan. It exists. */
  readonly directory: string;
  readonly signingKey: SigningKey;
  /** Number of previous baselines to keep. */
  readonly maxBackups: number;
  /**
   * Checked and updated when a baseline is read or made. Without it, only the note beside the baseline proves that the
   * baseline is the latest.
   */
  readonly newest?: NewestBaseline;
}

export interface ScanProgress {
  readonly files: number;
  /** Number of bytes read for checksums. */
  readonly bytes: number;
  /** CPU time of another program that does the work; nothing more is known about its progress. */
  readonly cpuMs?: number;
  /** Set if the baseline shows what to expect. */
  readonly expectedFiles?: number;
  readonly expectedBytes?: number;
}

export interface RunOptions {
  readonly signal: AbortSignal;
  readonly onProgress?: (progress: ScanProgress) => void;
}

export interface CheckOptions extends RunOptions {
  /** Larger files are left to `readLarge`. Default: all files are read. */
  readonly largeBytes?: number | undefined;
}

export interface CheckResult {
  readonly report: Report;
  readonly options: ReportOptions;
  readonly facts: RunFacts;
  /** Changes that the report counts but does not list. If it is absent, only their number is known. */
  readonly counted?: CountedPaths;
  /** Large files that were left out, so that the report has no result for them. */
  readonly large?: ReadonlySet<ByteString>;
}

/** Why a baseline is made; stored with it. */
export interface InitOptions extends RunOptions {
  /**
   * Id of the request for the baseline. If that was already carried out and only its report was lost by a kill, the
   * call returns at once.
   */
  readonly request?: string | undefined;
}

export interface InitResult {
  /** Number of entries in the new baseline. */
  readonly entries: number;
  /** Number of paths that could not be read, and so are not in the baseline. */
  readonly unread: number;
}

/** Who accepts findings into a baseline, and why. */
export interface Acceptance {
  readonly author: string;
  readonly reason: string;
  /** As {@link InitOptions.request}. */
  readonly request?: string;
}

export interface AcceptOptions extends RunOptions {
  /**
   * The expected findings, keyed by path: a path is accepted only if its finding is unchanged. If it is absent, the
   * current state is accepted.
   */
  readonly expected?: ReadonlyMap<ByteString, ReportedChange>;
}

export interface AcceptResult {
  /** Paths that could not be read, or differ from what was expected. Their entries in the baseline are unchanged. */
  readonly unread: readonly ByteString[];
}

/**
 * Methods may be called at any time, but only one at a time for a job. A kill at any moment leaves either the old or
 * the new baseline.
 */
export interface IntegrityProvider {
  readonly name: 'native' | 'aide';
  /**
   * Whether there is a baseline that was made with this configuration: otherwise `init` is due.
   *
   * @throws {BaselineError} for a baseline that cannot be trusted, or is missing although there was one: only an
   *   explicit `init` repairs that
   */
  state(job: IntegrityJob): Promise<'ready' | 'none' | 'other-configuration'>;
  /**
   * Makes a baseline of the current files. It replaces the previous one, which becomes a backup.
   *
   * @throws {RampartError} FULL, SYSTEM: the previous baseline is unchanged; the reason of the signal
   */
  init(job: IntegrityJob, options: InitOptions): Promise<InitResult>;
  /**
   * Compares the files with the baseline.
   *
   * @throws {BaselineError} for a baseline that cannot be trusted; RampartError; the reason of the signal
   */
  check(job: IntegrityJob, options: RunOptions): Promise<CheckResult>;
  /**
   * Accepts findings into the baseline: for each path its current state, or its absence. Other paths are unchanged.
   *
   * @param paths with the prefix of the root, sorted by their bytes, without duplicates
   * @param about stored with the baseline
   * @throws as `init` and `check`
   */
  accept(
    job: IntegrityJob,
    paths: readonly ByteString[],
    about: Acceptance,
    options: AcceptOptions,
  ): Promise<AcceptResult>;
  /**
   * Checks several jobs in one pass: a file that several jobs select is read once. If this method is absent, jobs are
   * checked one after another.
   *
   * @returns the results in the order of the jobs; if one job fails, the others still have their result
   * @throws the reason of the signal
   */
  checkTogether?(
    jobs: readonly IntegrityJob[],
    options: CheckOptions,
  ): Promise<readonly PromiseSettledResult<CheckResult>[]>;
  /**
   * Compares the large files that a check has left out, one after another, in a thread of its own. May run at the same
   * time as all other methods; these have one thread less meanwhile.
   *
   * @returns each result as soon as its file was read
   * @throws as `check`
   */
  readLarge?(job: IntegrityJob, paths: readonly ByteString[], options: RunOptions): AsyncIterable<LargeFile>;
  /**
   * The verified baseline of a job, to look up single paths. Whoever opens it disposes it. It remains usable when
   * another baseline replaces it.
   *
   * @throws as `check`
   */
  openBaseline?(job: IntegrityJob): Promise<Baseline>;
}
