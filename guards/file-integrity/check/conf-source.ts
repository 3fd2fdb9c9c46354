/** The configuration of `rampart integrity check`: where it is found, and what it may do on the machine. */
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
/** Time limit of a program that a configuration executes. */
const EXECUTION_MS = 60_000;
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;

export interface ConfSource {
  /** Name of the configuration in messages. */
  readonly name: string;
  readonly text: Buffer;
}

/**
 * @param given value of `--config`
 * @throws {RampartError} `NOT_FOUND`, `SYSTEM` if it cannot be read; an error if `signal` aborts while waiting for
 *   stdin
 */
export async function findConf(given: string | undefined, signal: AbortSignal): Promise<ConfSource> {
  if (given === undefined && !existsSync(USUAL))
    return { name: 'the configuration of Rampart itself', text: Buffer.from(defaultAideConf) };
  const name = given ?? USUAL;
  try {
    if (name !== '-') return { name, text: readFileSync(name) };
    // Read as a stream: a terminal may have no input yet, and Ctrl-C must end the wait.
    return { name: 'stdin', text: await buffer(addAbortSignal(signal, process.stdin)) };
  } catch (error) {
    throw fileError(`cannot read the configuration ${name}`, error, 'Name another file with --config');
  }
}

/** Also accepts configurations for older versions of AIDE and for FIO. @throws {RampartError} `INPUT` with the wrong lines */
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

/** Includes are read from this machine even if the files to check are elsewhere, as with AIDE. */
function machine(allowExecution: boolean): ConfEnvironment {
  return {
    hostname: hostname().split('.')[0] ?? '',
    exists: (path) => existsSync(path),
    readFile: readRegularFile,
    // The user who runs the command may read these files anyway.
    reportsIncluded: true,
    readDirectory: (path) => readdirSync(path).filter((name) => isIncluded(join(path, name))),
    ...(allowExecution && { execute }),
  };
}

/** Executes a file as AIDE does, see aide.conf(5). @throws Error if it may not be executed, or fails */
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
    // Variables that are already set take precedence.
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
