/** Runs `rampart integrity check`. */
import { existsSync, lstatSync, readlinkSync, realpathSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';

import { makeDirectories } from '../../../lib/files/make-directories.ts';
import { errorCodes, fileError, messageOf, RampartError } from '../../../lib/errors/errors.ts';
import { configDigest } from '../aide-conf/digest.ts';
import { describeProblem } from '../aide-conf/source.ts';
import { reportOptionsOf } from '../aide-conf/report-options.ts';
import type { ThreadPool } from '../scan/thread-pool.ts';
import { Selection } from '../aide-conf/selection.ts';
import { describeFailure } from '../../../lib/cli/failure.ts';
import { say } from '../../../lib/cli/process.ts';
import { findConf, readConf } from '../check/conf-source.ts';
import { checkFiles, type CheckJob, importDatabase, type Imported, initFiles } from '../check/check-modes.ts';
import type { CheckOptions } from './command.ts';
import { aideExit, exitCodeOf, exitCodeOfReport, type Stage } from './exit-codes.ts';
import { keyWarning, makeKeyFile, readSigningKey, readVerifyingKey } from '../check/key-file.ts';
import { ProgressBar } from './progress-bar.ts';
import { printReport } from './report-output.ts';
import { refuseEmpty } from '../../../lib/cli/options.ts';
import type { ReportOptions } from '../model/report.ts';

const DIRECTORY = '/var/lib/rampart/integrity';
const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Sets the exit code. A signal ends the process as usual, after the old baseline is known to be unchanged. */
export async function runCheck(options: CheckOptions, threads: ThreadPool): Promise<void> {
  const stop = new AbortController();
  let received: NodeJS.Signals | undefined;
  const onSignal = (signal: NodeJS.Signals): void => {
    received = signal;
    stop.abort();
  };
  for (const signal of signals) process.on(signal, onSignal);
  const stage = { now: 'arguments' as Stage };
  try {
    await run(options, threads, stop.signal, stage);
  } catch (error) {
    if (received === undefined || !stop.signal.aborted) {
      process.stderr.write(describeFailure(error).text);
      process.exitCode = exitCodeOf(error, stage.now);
      return;
    }
    say('stopped; the baseline is unchanged');
  } finally {
    for (const signal of signals) process.off(signal, onSignal);
  }
  if (received !== undefined) process.kill(process.pid, received);
}

type Mode = 'init' | 'check' | 'update' | 'import';

async function run(
  options: CheckOptions,
  threads: ThreadPool,
  signal: AbortSignal,
  stage: { now: Stage },
): Promise<void> {
  const mode = modeOf(options);
  const root = rootOf(options.root);
  const writes = mode !== 'check';
  const given = resolve(options.db ?? defaultDatabase(root));
  const keyPath = resolve(options.key ?? `${given}.key`);
  const db = writes ? writableDatabase(given) : given;
  stage.now = 'configuration';
  const source = await findConf(options.config, signal);
  const conf = readConf(source, options.allowExecution === true);
  const report: ReportOptions = {
    ...reportOptionsOf(conf),
    ...(options.reportLevel !== undefined && { level: options.reportLevel }),
  };
  // Finds out early if the rules are too large together: an error in the scan would have another exit code.
  asConfiguration(source.name, () => new Selection(conf));
  for (const warning of conf.warnings) say(`warning: ${describeProblem(warning)}`);
  if (!report.quiet) say(`${source.name}, baseline ${db}`);
  stage.now = 'key';
  if (writes) makeDirectory(dirname(db));
  if (writes && options.key === undefined && !existsSync(keyPath)) {
    // An update compares with an existing baseline, which a new key would not fit: fail because the key is missing.
    if (mode === 'update') readVerifyingKey(keyPath);
    if (makeKeyFile(keyPath)) {
      say(
        `created the key ${keyPath}. It reveals damage to the baseline and changes by other users. Root on this machine can read it and forge the baseline; to prevent that, keep key and baseline elsewhere: --key, --db`,
      );
    }
  }
  const signingKey = writes ? readSigningKey(keyPath) : undefined;
  const job: CheckJob = {
    ...{ conf, root, db, signal, report, threads },
    key: signingKey ?? readVerifyingKey(keyPath),
    signingKey,
    configDigest: configDigest(source),
    configName: source.name,
    onProgress: undefined,
    onWarning: (text) => say(`warning: ${text}`),
  };
  const warning = keyWarning(keyPath);
  if (warning !== undefined) say(`warning: ${warning}`);
  stage.now = 'run';
  if (mode === 'import') {
    const path = options.importAide ?? '';
    return reportImported(path, db, await importDatabase(job, path));
  }
  const done = await withProgress(job, (shown) =>
    mode === 'init' ? initFiles(shown) : checkFiles(shown, mode),
  );
  // Set before printing: if the reader closes stdout, the process ends there.
  process.exitCode = mode === 'init' ? 0 : exitCodeOfReport(done.report);
  if (process.exitCode === aideExit.io)
    say(`${done.report.counts.problems} paths could not be read and were not compared`);
  await printReport(done.report, report, done.facts, options.output);
}

async function withProgress<T>(job: CheckJob, work: (job: CheckJob) => Promise<T>): Promise<T> {
  using bar = new ProgressBar(process.stderr);
  return await work(bar.isShown ? { ...job, onProgress: (progress) => bar.show(progress) } : job);
}

function reportImported(
  path: string,
  db: string,
  { entries, refusedChecksums, withoutChecksum }: Imported,
): void {
  say(`${entries} entries of ${path} imported as the baseline ${db}`);
  if (refusedChecksums.length === 0) return;
  say(
    `warning: its checksums ${refusedChecksums.join(', ')} are not used because FIPS 140-3 does not approve them` +
      (withoutChecksum === 0
        ? ''
        : `; ${withoutChecksum} files have no other checksum, so their content is not compared`),
  );
}

function modeOf({ init, check, update, importAide }: CheckOptions): Mode {
  const given = Object.entries({ init, check, update, 'import-aide': importAide }).filter(
    ([, value]) => value !== undefined,
  );
  if (given.length > 1) {
    throw new RampartError(errorCodes.INPUT, {
      what: `${given.map(([name]) => `--${name}`).join(' and ')} together`,
      why: 'each selects a mode',
      next: 'Use only one of them',
    });
  }
  refuseEmpty({ '--import-aide': importAide }, 'Give a file');
  return importAide !== undefined ? 'import' : init === true ? 'init' : update === true ? 'update' : 'check';
}

function rootOf(given: string): string {
  const root = resolve(given);
  if (statSync(root, { throwIfNoEntry: false })?.isDirectory() === true) return root;
  throw new RampartError(errorCodes.NOT_FOUND, {
    what: `cannot check the files of ${root}`,
    why: 'there is no such directory',
    next: 'Name another directory with --root',
  });
}

/** The default path of the baseline; it depends on the root. */
function defaultDatabase(root: string): string {
  return `${DIRECTORY}/baseline${root === '/' ? '' : encodeURIComponent(root)}`;
}

/**
 * The path of the file to replace with the new baseline: for a link, that of its target. Never replaces something like
 * `/dev/null`.
 *
 * @throws {RampartError} `INPUT` if the path exists but is not a regular file, `SYSTEM` if that cannot be determined
 */
function writableDatabase(path: string): string {
  try {
    const stat = statSync(path, { throwIfNoEntry: false });
    if (stat?.isFile() === true) return realpathSync(path);
    if (stat === undefined) {
      const isLink = lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true;
      return isLink ? writableDatabase(resolve(dirname(path), readlinkSync(path))) : path;
    }
  } catch (error) {
    if (error instanceof RampartError) throw error;
    throw notWritable(path, error);
  }
  throw new RampartError(errorCodes.INPUT, {
    what: `cannot write the baseline ${path}`,
    why: 'it is not a regular file',
    next: 'Give a file with --db',
  });
}

function makeDirectory(path: string): void {
  try {
    makeDirectories(path);
  } catch (error) {
    throw notWritable(path, error);
  }
}

function notWritable(path: string, error: unknown): RampartError {
  return fileError(`cannot write ${path}`, error, 'Give another place for the baseline with --db');
}

function asConfiguration(name: string, action: () => unknown): void {
  try {
    action();
  } catch (error) {
    throw new RampartError(errorCodes.INPUT, {
      what: `cannot use the configuration ${name}`,
      why: messageOf(error),
      next: 'Write fewer or simpler rules',
      cause: error,
    });
  }
}
