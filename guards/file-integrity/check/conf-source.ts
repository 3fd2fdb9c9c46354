/** The configuration of `rampart integrity check`: where it is, and what it may do on the machine. */
import { spawnSync } from 'node:child_process';
import { constants, existsSync, readdirSync, readFileSync, statSync, type Stats } from 'node:fs';
import { hostname } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { addAbortSignal } from 'node:stream';
import { buffer } from 'node:stream/consumers';

import { fileError, RampartError } from '../../../lib/errors/errors.ts';
import type { AideConf, ConfEnvironment } from '../aide-conf/conf.ts';
import { updateAideConf } from '../aide-conf/convert.ts';
import { defaultAideConf } from '../aide-conf/default-conf.ts';
import { isIncluded, readRegularFile } from '../aide-conf/include.ts';
import { readAideConf } from '../aide-conf/evaluate.ts';

const USUAL = '/etc/aide/aide.conf';
/** A program of a configuration that takes longer hangs. */
const EXECUTION_MS = 60_000;
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;

export interface ConfSource {
  /** Name in messages. */
  readonly name: string;
  readonly text: Buffer;
}

/**
 * @param given as in `--config`
 * @throws {RampartError} `NOT_FOUND`, `SYSTEM` if it cannot be read; an error if the signal ends the wait for stdin
 */
export async function findConf(given: string | undefined, signal: AbortSignal): Promise<ConfSource> {
  if (given === undefined && !existsSync(USUAL))
    return { name: 'the configuration of Rampart itself', text: Buffer.from(defaultAideConf) };
  const name = given ?? USUAL;
  try {
    if (name !== '-') return { name, text: readFileSync(name) };
    // As a stream: a terminal may give nothing yet, and Ctrl-C has to end the wait.
    return { name: 'stdin', text: await buffer(addAbortSignal(signal, process.stdin)) };
  } catch (error) {
    throw fileError(`cannot read the configuration ${name}`, error, 'Name another file with --config');
  }
}

/** Reads configurations for older versions of AIDE and for FIO, too. @throws {RampartError} `INPUT` with the lines that are wrong */
export function readConf({ name, text }: ConfSource, allowExecution: boolean): AideConf {
  try {
    return readAideConf(name, updateAideConf(name, text), machine(allowExecution));
  } catch (error) {
    if (allowExecution || !(error instanceof RampartError) || !error.message.includes('@@x_include'))
      throw error;
    throw new RampartError(error.code, {
      what: error.message.split('\n')[0]?.replace(/\.$/, '') ?? '',
      next: 'With --allow-execution they are run',
      detail: error.detail,
      cause: error,
    });
  }
}

/** Included files are those of this machine, even if the files to be checked are elsewhere; as for AIDE. */
function machine(allowExecution: boolean): ConfEnvironment {
  return {
    hostname: hostname().split('.')[0] ?? '',
    exists: (path) => existsSync(path),
    readFile: readRegularFile,
    // The user of the command may read these files anyway.
    reportsIncluded: true,
    readDirectory: (path) => readdirSync(path).filter((name) => isIncluded(join(path, name))),
    ...(allowExecution && { execute }),
  };
}

/** As AIDE does, aide.conf(5). @throws Error if it may not be run, or fails */
function execute(path: string, environment: ReadonlyMap<string, string>): Buffer {
  const file = resolve(path);
  const stat = statSync(file);
  if ((stat.mode & constants.S_IXUSR) === 0) return readRegularFile(file);
  for (const [place, owned] of [
    [dirname(file), statSync(dirname(file))],
    [file, stat],
  ] as const) {
    const why = unsafe(owned);
    if (why !== undefined) throw new Error(`${place} is ${why}, so it is not run`);
  }
  const run = spawnSync(file, [], {
    // Variables that are already set stay.
    env: { ...Object.fromEntries(environment), ...process.env },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: EXECUTION_MS,
    killSignal: 'SIGKILL',
    maxBuffer: MAX_OUTPUT_BYTES,
  });
  if (run.error !== undefined) throw run.error;
  if (run.stderr.length > 0)
    throw new Error(`it wrote to stderr: ${run.stderr.toString().trim().slice(0, 200)}`);
  if (run.status !== 0) throw new Error(`it ended with ${run.signal ?? `exit code ${String(run.status)}`}`);
  return run.stdout;
}

function unsafe({ mode, uid }: Stats): string | undefined {
  if (uid !== 0 && uid !== process.geteuid?.()) return 'not owned by root or this user';
  return (mode & 0o022) === 0 ? undefined : 'writable by its group or by all';
}
