/**
 * The provider `aide`: runs the real AIDE with the job's configuration. Rampart signs the stored database, because AIDE
 * does not, and AIDE reads a damaged database as "everything was added".
 */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, unlink, writeFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { writtenPath } from '../aide-conf/convert-path.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { configDigest } from '../aide-conf/digest.ts';
import { reportOptionsOf } from '../aide-conf/report-options.ts';
import { aideFailure, closeCutReport, parseAideReport, withoutIncluded } from './aide-output.ts';
import { emptyBaseline } from '../database/baseline-error.ts';
import { type ByteString, isAtOrBelowAny, type ScanProblem } from '../model/entry.ts';
import { appendAcceptance } from '../signed-notes/acceptance-log.ts';
import type {
  Acceptance,
  AcceptResult,
  CheckResult,
  InitOptions,
  InitResult,
  IntegrityJob,
  IntegrityProvider,
  RunOptions,
} from '../provider/provider.ts';
import { exitBits, isAtLeast } from '../report/report.ts';
import { runFacts } from '../check/run-facts.ts';
import { countRows, directoriesIn, mergeRows } from './database-rows.ts';
import { leadAideConf, type LedConf } from './lead-conf.ts';
import { limitFor } from './limit.ts';
import { dialectOf, findAide, matchesCharacters, type AideProgram } from './program.ts';
import { runAide, type AideRun } from './run-aide.ts';
import {
  adoptDatabase,
  databasePath,
  openDatabase,
  readFacts,
  removeStrays,
  runPrefix,
  type DatabaseFacts,
  type SignedDatabase,
} from './signed-database.ts';
import { unseenNames } from './unseen-names.ts';
import { unreadOf, withUnread } from './unread.ts';
import type { Report, ReportOptions } from '../model/report.ts';

export interface AideProviderOptions {
  /** Path of the program; default: `aide` in PATH. */
  readonly program?: string;
  /** AIDE is killed when it has used no CPU time for this long. Default: 10 minutes. */
  readonly stuckMs?: number;
  /** Limit of AIDE's report; findings beyond it are counted but not listed. */
  readonly reportLimitBytes?: number;
}

/** Few requests wait for a node at the same time. */
const rememberedRequests = 64;
/** Shorter than the time after which the agent itself counts as stuck (../node/node-health.ts). */
const defaultStuckMs = 10 * 60_000;
const defaultReportLimit = 16 * 1024 * 1024;

interface Run {
  readonly command: readonly string[];
  /** For error messages, such as `create a baseline`. */
  readonly purpose: string;
  readonly baseline?: SignedDatabase;
  readonly writes?: string;
}

/** Holds no resources between calls. */
export class AideProvider implements IntegrityProvider {
  readonly name = 'aide';
  readonly #options: AideProviderOptions;

  constructor(options: AideProviderOptions = {}) {
    this.#options = options;
  }

  async state(job: IntegrityJob): Promise<'ready' | 'none' | 'other-configuration'> {
    if ((await readFacts(job)) === undefined) return 'none';
    await using baseline = await openDatabase(job, new AbortController().signal);
    return baseline.facts.configDigest === configDigest(job.conf) ? 'ready' : 'other-configuration';
  }

  async init(job: IntegrityJob, { signal, onProgress, request }: InitOptions): Promise<InitResult> {
    // An untrusted baseline does not count as the result of any request.
    const before = await readFacts(job).catch(() => undefined);
    if (before !== undefined && request !== undefined && before.requests.includes(request))
      return { entries: before.entries, unread: before.unread };
    const { id, path, aide, conf } = await this.#prepare(job);
    try {
      const how = { command: ['--init'], purpose: 'create a baseline', writes: path };
      const run = await this.#run(job, aide, conf, how, { signal, onProgress });
      const unseen = await this.#unseen(job, aide, conf, path, signal);
      const unread = unreadIn(run, conf, job).length + unseen.length;
      const requests = requestsAfter(before, request);
      const facts = { about: {}, unread, requests, configDigest: configDigest(job.conf) };
      const entries = await this.#adopt(job, aide, id, facts, signal);
      onProgress?.({ files: entries, bytes: 0 });
      return { entries, unread };
    } catch (error) {
      await this.#giveUp(job, id);
      throw error;
    }
  }

  async check(job: IntegrityJob, { signal, onProgress }: RunOptions): Promise<CheckResult> {
    // Open the database before AIDE starts, so that an invalid baseline is reported as such.
    await using baseline = await openDatabase(job, signal);
    const { aide, conf } = await this.#prepare(job);
    refuseNewer(baseline, aide);
    const startedMs = Date.now();
    const run = await this.#run(
      job,
      aide,
      conf,
      { command: ['--check'], purpose: 'check the files', baseline },
      { signal, onProgress },
    );
    // AIDE read the database after Rampart verified it: verify again that it did not change in between.
    await baseline.verify(signal);
    const found = readReport(run, conf, aide);
    const unseen = await this.#unseen(job, aide, conf, baseline.path, signal, found);
    const report = withUnread(found, [...unreadIn(run, conf, job), ...unseen]);
    onProgress?.({ files: report.counts.total, bytes: 0, expectedFiles: baseline.facts.entries });
    const facts = runFacts(conf.conf, { action: 'check', program: `AIDE ${aide.version}`, startedMs });
    return { report, options: reportOptionsOf(conf.conf), facts };
  }

  async accept(
    job: IntegrityJob,
    paths: readonly ByteString[],
    about: Acceptance,
    { signal, onProgress }: RunOptions,
  ): Promise<AcceptResult> {
    const { directory } = job;
    const { author, reason, request } = about;
    await using baseline = await openDatabase(job, signal);
    const { facts } = baseline;
    if (request !== undefined && facts.requests.includes(request)) return { unread: [] };
    const { id, path, aide, conf } = await this.#prepare(job);
    refuseNewer(baseline, aide);
    // AIDE's --update would replace all entries, even if only few are accepted. This run inspects only the accepted
    // paths, and takes nothing else over from the current state.
    const limit = limitFor(paths.map((each) => conf.toAide(each)));
    const fresh = join(directory, `aide.db.${id}.part`);
    try {
      const command = ['--init', ...(limit === undefined ? [] : [`--limit=${limit}`])];
      const how = { command, purpose: 'inspect the accepted files', writes: fresh };
      const run = await this.#run(job, aide, conf, how, { signal, onProgress });
      const shut = new Set(unreadIn(run, conf, job).map((each) => each.path));
      const unread = new Set(paths.filter((each) => isAtOrBelowAny(each, shut)));
      const taken = paths.filter((each) => !unread.has(each));
      const wanted = new Set(taken.map((each) => conf.toAide(each)));
      await mergeRows({ old: baseline.path, now: fresh, into: path, paths: wanted, signal });
      await baseline.verify(signal);
      const requests = requestsAfter(facts, request);
      const entries = await this.#adopt(
        job,
        aide,
        id,
        // Everything else is unchanged, including the configuration that the baseline was made with.
        {
          about: { ...facts.about, acceptedBy: author, acceptedBecause: reason },
          ...{ requests, unread: facts.unread, configDigest: facts.configDigest },
        },
        signal,
        (digest) => appendAcceptance(job, about, taken, digest),
      );
      onProgress?.({ files: entries, bytes: 0 });
      return { unread: [...unread] };
    } catch (error) {
      await this.#giveUp(job, id);
      throw error;
    } finally {
      await unlink(fresh).catch(() => undefined);
    }
  }

  async #prepare(job: IntegrityJob): Promise<{ id: string; path: string; aide: AideProgram; conf: LedConf }> {
    const madeAtMs = job.newest?.nextMs(Date.now()) ?? Date.now();
    const id = `${madeAtMs}-${randomBytes(6).toString('hex')}`;
    const aide = await findAide(this.#options.program);
    const conf = leadAideConf(job.conf.name, job.conf.text, job.root, aide.dialect);
    await removeStrays(job.directory, job.maxBackups);
    return { id, path: databasePath(job.directory, id), aide, conf };
  }

  async #adopt(
    job: IntegrityJob,
    { version }: AideProgram,
    id: string,
    facts: Pick<DatabaseFacts, 'about' | 'unread' | 'requests' | 'configDigest'>,
    signal: AbortSignal,
    onSigned: (digest: string) => Promise<void> = async () => undefined,
  ): Promise<number> {
    const entries = await countRows(databasePath(job.directory, id), signal).catch((cause: unknown) => {
      // AIDE 0.18 exits with 0 even if the disk was full; 0.19 exits with an error.
      throw cause instanceof RampartError && cause.code === errorCodes.CORRUPT
        ? new RampartError(errorCodes.FULL, {
            what: `AIDE could not write the baseline in ${job.directory}`,
            why: 'its output is incomplete',
            next: 'Free space on its file system. The previous baseline is unchanged',
            cause,
          })
        : cause;
    });
    if (entries === 0) throw emptyBaseline(facts.unread);
    await adoptDatabase({ ...facts, id, entries, aideVersion: version, job, signal, onSigned });
    return entries;
  }

  /**
   * Names that this AIDE skips because they are not UTF-8. @param found the check's report, for directories that are
   * not in the database yet
   */
  async #unseen(
    job: IntegrityJob,
    aide: AideProgram,
    { conf, isPartial, toJob }: LedConf,
    database: string,
    signal: AbortSignal,
    found?: Report,
  ): Promise<readonly ScanProblem[]> {
    if (!(await matchesCharacters(aide, signal))) return [];
    const directories = new Set([...(await directoriesIn(database, signal))].map(toJob));
    for (const { kind, path, type } of found?.changes ?? []) {
      if (kind !== 'added') continue;
      directories.add(path.slice(0, Math.max(1, path.lastIndexOf('/'))));
      if (type === 'd') directories.add(path);
    }
    return await unseenNames({ directories, root: job.root, conf, isWhole: !isPartial, signal });
  }

  /** Removes the database after an error, unless it already is the baseline because a later step failed. */
  async #giveUp(job: IntegrityJob, id: string): Promise<void> {
    const { directory } = job;
    const facts = await readFacts(job).catch(() => undefined);
    if (facts?.id !== id) await unlink(databasePath(directory, id)).catch(() => undefined);
  }

  async #run(
    job: IntegrityJob,
    aide: AideProgram,
    conf: LedConf,
    run: Run,
    { signal, onProgress }: Pick<RunOptions, 'signal'> & { onProgress: RunOptions['onProgress'] },
  ): Promise<AideRun> {
    const { stuckMs = defaultStuckMs, reportLimitBytes = defaultReportLimit } = this.#options;
    const directory = await mkdtemp(join(job.directory, runPrefix));
    try {
      const file = join(directory, 'aide.conf');
      await writeFile(file, conf.text, { mode: 0o600 });
      const before = [
        // AIDE requires both options; for a database that the command does not use, any name will do.
        `database_in=${run.baseline === undefined ? 'file:/dev/null' : 'fd:4'}`,
        `database_out=file:${writtenPath(run.writes ?? join(directory, 'none'))}`,
        `num_workers=${Math.min(2, availableParallelism())}`,
        'log_level=warning',
        ...conf.before,
      ];
      const result = await runAide({
        program: aide.path,
        args: [
          `--config=${file}`,
          `--before=${before.join('\n')}`,
          `--after=${reportLines(reportOptionsOf(conf.conf)).join('\n')}`,
          ...run.command,
        ],
        databaseFd: run.baseline?.fd,
        reportLimitBytes,
        stuckMs,
        signal,
        onCpu: onProgress && ((cpuMs) => onProgress({ files: 0, bytes: 0, cpuMs })),
      });
      const { outcome } = result;
      if (outcome.kind !== 'error') return result;
      const messages = withoutIncluded(result.messages, file).replaceAll(file, job.conf.name);
      throw aideFailure(run.purpose, outcome, messages);
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  }
}

/**
 * If there were more warnings than are kept, it is unknown which paths the others are about: then the whole root counts
 * as unread.
 */
function unreadIn(
  { messages, messagesAreCut }: AideRun,
  { toJob }: LedConf,
  { root }: IntegrityJob,
): readonly ScanProblem[] {
  const found = unreadOf(messages, toJob);
  if (!messagesAreCut) return found;
  const path = root.prefix === '' ? '/' : root.prefix;
  const message = 'AIDE gave more warnings than are kept: files reported as removed may only be unreadable';
  return [...found.filter((each) => each.path !== path), { path, code: 'EOVERFLOW', message }];
}

/** Requests all details of findings; which ones are shown is decided when the report is written, by its options. */
function reportLines({ level }: ReportOptions): readonly string[] {
  return [
    'gzip_dbout=yes',
    'database_attrs=E',
    'report_format=json',
    `report_level=${isAtLeast(level, 'changed_attributes') ? level : 'changed_attributes'}`,
    ...['report_grouped=yes', 'report_summarize_changes=yes', 'report_quiet=no', 'report_append=no'],
    'report_url=fd:3',
  ];
}

function refuseNewer({ facts }: SignedDatabase, { version, dialect }: AideProgram): void {
  if (dialect !== '0.18' || dialectOf(facts.aideVersion) === '0.18') return;
  throw new RampartError(errorCodes.UNSUPPORTED, {
    what: 'AIDE cannot use the baseline',
    why: `it was created by AIDE ${facts.aideVersion}, and AIDE ${version} cannot read its timestamps`,
    next: `Install AIDE ${facts.aideVersion}, or initialize again`,
  });
}

function readReport(
  { outcome, report: bytes, reportIsCut }: AideRun,
  { toJob }: LedConf,
  { version }: AideProgram,
): Report {
  let report = parseAideReport(reportIsCut ? closeCutReport(bytes) : bytes, version);
  if (reportIsCut) {
    // A change whose details were cut off is only counted.
    const changes = report.changes.filter(({ kind, details }) => kind !== 'changed' || details.length > 0);
    report = { ...report, changes, omitted: report.omitted + report.changes.length - changes.length };
  }
  const expected =
    outcome.kind === 'differences' ? outcome : { added: false, removed: false, changed: false };
  const bits = (expected.added ? 1 : 0) + (expected.removed ? 2 : 0) + (expected.changed ? 4 : 0);
  if (exitBits(report.counts) !== bits) {
    throw new RampartError(errorCodes.DECODE, {
      what: 'the report of AIDE is inconsistent',
      why: `its exit code is ${bits}, but its counts give ${exitBits(report.counts)}`,
      next: 'This is a bug in AIDE or Rampart: please report it',
    });
  }
  const led: Report = {
    ...report,
    changes: report.changes.map((change) => ({ ...change, path: toJob(change.path) })),
    redefined: report.redefined.map((each) => ({ ...each, path: toJob(each.path) })),
  };
  return led;
}

function requestsAfter(before: DatabaseFacts | undefined, request: string | undefined): readonly string[] {
  const requests = before?.requests ?? [];
  return request === undefined ? requests : [...requests, request].slice(-rememberedRequests);
}
