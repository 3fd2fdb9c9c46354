/**
 * A provider makes baselines and compares files with them: our own engine, or the real AIDE. Both pass the
 * same suite (provider.suite.fixture.ts).
 */
import type { Baseline } from '../database/read-baseline.ts';
import type { SigningKey } from '../database/signature.ts';
import type { ByteString } from '../model/entry.ts';
import type { CountedPaths } from '../model/counted-paths.ts';
import type { LargeFile, Report, ReportedChange, ReportOptions, RunFacts } from '../model/report.ts';
import type { NewestBaseline } from '../database/newest-baseline.ts';

/** Where the files of the node are. */
export interface ScanRoot {
  /** The directory that is scanned: `/`, the mount of the host in the agent's pod, a test's directory. */
  readonly directory: string;
  /**
   * Prefix of paths in configurations, baselines and reports, in place of `directory`: `/hostroot` for
   * converted configurations, empty for those of the machine itself. `/hostroot/etc/passwd` is the file
   * `directory`/etc/passwd.
   */
  readonly prefix: ByteString;
}

export interface IntegrityJob {
  /** `namespace/name` */
  readonly key: string;
  /** The configuration; `name` as in messages: `ConfigMap openshift-file-integrity/example, aide.conf`. */
  readonly conf: { readonly name: string; readonly text: string };
  readonly root: ScanRoot;
  /** Its own on the node, mode 0700: baseline, backups, the log of the last scan. It exists. */
  readonly directory: string;
  readonly signingKey: SigningKey;
  /** Baselines before this one that are kept. */
  readonly maxBackups: number;
  /**
   * Checked and updated when a baseline is read or made. Without it, only the note beside a baseline proves
   * that it is the last one.
   */
  readonly newest?: NewestBaseline;
}

export interface ScanProgress {
  readonly files: number;
  /** Read for checksums. */
  readonly bytes: number;
  /** The CPU time of another program that does it, of which no more is known. */
  readonly cpuMs?: number;
  /** If known from the baseline. */
  readonly expectedFiles?: number;
  readonly expectedBytes?: number;
}

export interface RunOptions {
  readonly signal: AbortSignal;
  readonly onProgress?: (progress: ScanProgress) => void;
}

export interface CheckOptions extends RunOptions {
  /** The content of larger files is left to `readLarge`; default: of none. */
  readonly largeBytes?: number | undefined;
}

export interface CheckResult {
  readonly report: Report;
  readonly options: ReportOptions;
  readonly facts: RunFacts;
  /** Changes that the report counts and does not have. Without it, only their number is known. */
  readonly counted?: CountedPaths;
  /** Files of which the report says nothing, since their content was left out. */
  readonly large?: ReadonlySet<ByteString>;
}

/** Why a baseline is made; kept with it. */
export interface InitOptions extends RunOptions {
  /**
   * The id of the request for it. If it was already executed, and only its report was lost by a kill, the
   * call returns at once.
   */
  readonly request?: string | undefined;
}

export interface InitResult {
  /** Number of entries of the present baseline. */
  readonly entries: number;
  /** Paths that could not be read, and are not in it. */
  readonly unread: number;
}

/** Who takes findings into a baseline, and why. */
export interface Acceptance {
  readonly author: string;
  readonly reason: string;
  /** As {@link InitOptions.request}. */
  readonly request?: string;
}

export interface AcceptOptions extends RunOptions {
  /** The findings, by path: only unchanged ones are accepted. Without it, the present state is. */
  readonly expected?: ReadonlyMap<ByteString, ReportedChange>;
}

export interface AcceptResult {
  /** Paths that cannot be read now, or differ from the expectation. They stay as in the baseline. */
  readonly unread: readonly ByteString[];
}

/**
 * Every call may be made at any time, one at a time for a job. A kill at any moment leaves the old or the new baseline.
 */
export interface IntegrityProvider {
  readonly name: 'native' | 'aide';
  /**
   * Whether there is a baseline that was made with this configuration: without one, or with another's, `init`
   * is due.
   *
   * @throws {BaselineError} for one that cannot be trusted, or is missing although there was one: only an explicit
   * `init` repairs that
   */
  state(job: IntegrityJob): Promise<'ready' | 'none' | 'other-configuration'>;
  /**
   * Makes a baseline of the present files, in place of the previous one, which becomes a backup.
   *
   * @throws {RampartError} FULL, SYSTEM: the previous one is unchanged; the reason of the signal
   */
  init(job: IntegrityJob, options: InitOptions): Promise<InitResult>;
  /**
   * Compares the files with the baseline.
   *
   * @throws {BaselineError} for a baseline that cannot be trusted; RampartError; the reason of the signal
   */
  check(job: IntegrityJob, options: RunOptions): Promise<CheckResult>;
  /**
   * Accepts these findings into the baseline: for each path its present state, or its absence. Other paths
   * are unchanged.
   *
   * @param paths with the prefix of the root, sorted by their bytes, without duplicates
   * @param about kept with the baseline
   * @throws as `init` and `check`
   */
  accept(
    job: IntegrityJob,
    paths: readonly ByteString[],
    about: Acceptance,
    options: AcceptOptions,
  ): Promise<AcceptResult>;
  /**
   * Like `check` of each, with one pass: a file that several select is examined once. Without this they are checked one after
   * the other.
   *
   * @returns in the order of the jobs; that one fails does not keep the others from their result
   * @throws the reason of the signal
   */
  checkTogether?(
    jobs: readonly IntegrityJob[],
    options: CheckOptions,
  ): Promise<readonly PromiseSettledResult<CheckResult>[]>;
  /**
   * Compares the large files that a check has left out, one after the other, in a thread of its own. It may be called beside all others;
   * these have a thread less meanwhile.
   *
   * @returns each when it has been read
   * @throws as `check`
   */
  readLarge?(job: IntegrityJob, paths: readonly ByteString[], options: RunOptions): AsyncIterable<LargeFile>;
  /**
   * The baseline of a job, verified, to look up single paths. The opener disposes it; it is unchanged when another one
   * replaces it.
   *
   * @throws as `check`
   */
  openBaseline?(job: IntegrityJob): Promise<Baseline>;
}
