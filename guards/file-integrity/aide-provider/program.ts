/** The `aide` of this machine: where it is, and whether its version is supported. */
import { execFile } from 'node:child_process';
import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { dialects, type Dialect } from '../aide-conf/source.ts';

export interface AideProgram {
  readonly path: string;
  /** Such as `0.18.3`. */
  readonly version: string;
  /** The dialect in which this version reads aide.conf. */
  readonly dialect: Dialect;
}

const next =
  "Install AIDE 0.18 or 0.19 (Debian and Ubuntu: apt-get install aide), or use the provider 'native'.";
const patienceMs = 30_000;

/** The first executable file with this name in PATH. */
export async function findProgram(
  name: string,
  path = process.env['PATH'] ?? '/usr/sbin:/usr/bin:/sbin:/bin',
): Promise<string | undefined> {
  for (const directory of path.split(delimiter)) {
    if (!directory.startsWith('/')) continue;
    const file = join(directory, name);
    const usable = await access(file, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (usable) return file;
  }
  return undefined;
}

/**
 * @param program a path; default: `aide` in PATH
 * @throws {RampartError} UNSUPPORTED if it is missing, or has another version
 */
export async function findAide(program?: string): Promise<AideProgram> {
  const path = program ?? (await findProgram('aide'));
  if (path === undefined) throw unsupported('AIDE cannot be used', 'aide is not in PATH on this machine');
  const said = await versionText(path);
  const version = /^AIDE (\d+\.\d+(?:\.\d+)*)/m.exec(said)?.[1];
  if (version === undefined)
    throw unsupported(`${path} cannot be used`, 'it does not identify itself as AIDE');
  const dialect = dialectOf(version);
  if (dialect === undefined)
    throw unsupported(`${path} cannot be used`, `it is AIDE ${version}; 0.18 and 0.19 are supported`);
  return { path, version, dialect };
}

/** Dialect of `0.18` and `0.18.3`; `undefined` for an unknown version. */
export function dialectOf(version: string): Dialect | undefined {
  return dialects.find((known) => version === known || version.startsWith(`${known}.`));
}

/**
 * Whether this AIDE reads names as UTF-8, and so skips names that are not. Its version does not show this: 0.19.1 does,
 * but with the patches of Debian 13's 0.19.1-2+deb13u3 it matches bytes, as 0.18 does.
 *
 * @returns `true` also if AIDE does not answer: then names are searched for that it may have skipped
 */
export function matchesCharacters({ path }: AideProgram, signal: AbortSignal): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const options = { timeout: patienceMs, killSignal: 'SIGKILL', signal } as const;
    const args = ['--config=-', '--path-check=f:/\u00e9'];
    const { stdin } = execFile(path, args, options, (error) => {
      if (signal.aborted) reject(signal.reason as Error);
      // AIDE exits with 0 if a rule matches, with 1 if none does.
      else resolve(error?.code !== 1);
    });
    stdin?.on('error', () => undefined).end('/.$ p\n');
  });
}

function versionText(path: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const options = { timeout: patienceMs, killSignal: 'SIGKILL', maxBuffer: 1 << 20 } as const;
    execFile(path, ['--version'], options, (error, stdout, stderr) => {
      // 0.18 prints the version on stderr.
      if (error === null) resolve(`${stdout}\n${stderr}`);
      else
        reject(
          unsupported(`${path} cannot be used`, `aide --version failed: ${error.message.trim()}`, error),
        );
    });
  });
}

function unsupported(what: string, why: string, cause?: unknown): RampartError {
  return new RampartError(errorCodes.UNSUPPORTED, { what, why, next, ...(cause !== undefined && { cause }) });
}
