/** apt with directories, lists and a configuration of its own, so that the machine's apt does not change. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { errorCodes, RampartError } from '../lib/errors/errors.ts';
import { findMainArchive, stanzaFor } from './debian-sources.ts';

const execFileAsync = promisify(execFile);

/**
 * Writes the private configuration and returns the path for APT_CONFIG, which apt reads before the
 * machine's own files (apt.conf(5)). It only moves `Dir::Etc::main`, read last, to a file of ours:
 * that one includes the machine's (proxies stay in force), moves every directory and drops the hooks,
 * which would clean or refresh the machine's own caches.
 */
export async function writeAptConfiguration(work: string, suite: string): Promise<string> {
  for (const directory of ['lists/partial', 'archives/partial']) {
    await mkdir(join(work, directory), { recursive: true });
  }
  await writeFile(join(work, 'status'), '');
  await writeFile(join(work, 'archive.sources'), stanzaFor(findMainArchive(), suite));
  const outer = process.env['APT_CONFIG'];
  const first = join(work, 'first.conf');
  await writeFile(
    first,
    `${outer ? `#include "${outer}";\n` : ''}Dir::Etc::main "${join(work, 'apt.conf')}";\n`,
  );
  const lines = [
    ...(existsSync('/etc/apt/apt.conf') ? ['#include "/etc/apt/apt.conf";'] : []),
    ...['Pre-Invoke', 'Post-Invoke', 'Post-Invoke-Success'].map((hook) => `#clear APT::Update::${hook};`),
    `Dir::Etc::sourcelist "${join(work, 'archive.sources')}";`,
    'Dir::Etc::sourceparts "/dev/null";',
    'Dir::Etc::preferences "/dev/null";',
    'Dir::Etc::preferencesparts "/dev/null";',
    `Dir::State "${work}";`,
    `Dir::State::lists "${join(work, 'lists')}";`,
    `Dir::State::status "${join(work, 'status')}";`,
    `Dir::Cache "${work}";`,
    `Dir::Cache::archives "${join(work, 'archives')}";`,
    // Read by each command after the update; images of Debian for containers have it turned off.
    'Dir::Cache::pkgcache "pkgcache.bin";',
    'Dir::Cache::srcpkgcache "";',
    'APT::Architecture "amd64";',
    'APT::Get::AllowUnauthenticated "false";',
    'Acquire::AllowInsecureRepositories "false";',
    'Acquire::Languages "none";',
    'Acquire::Retries "3";',
    // Without this apt-get update ends with 0 when it could not fetch an index, and the suite seems to have no such package.
    'APT::Update::Error-Mode "any";',
    // Without this apt warns that its unprivileged user cannot write into a checkout owned by root.
    'APT::Sandbox::User "root";',
  ];
  await writeFile(join(work, 'apt.conf'), `${lines.join('\n')}\n`);
  return first;
}

/** Runs a command of apt and returns its stdout. Rejects with `SYSTEM`, or with the signal's reason when aborted. */
export type Run = (command: string, args: readonly string[]) => Promise<string>;

export function aptRunner(aptConfig: string, work: string, signal: AbortSignal): Run {
  const env = { ...process.env, APT_CONFIG: aptConfig, LC_ALL: 'C' };
  return async (command, args) => {
    try {
      const options = { cwd: work, env, signal, maxBuffer: 64 * 1024 * 1024 };
      return (await execFileAsync(command, [...args], options)).stdout;
    } catch (error) {
      signal.throwIfAborted();
      throw new RampartError(errorCodes.SYSTEM, {
        what: `${command} ${args.join(' ')} failed`,
        next: 'Check that apt-get update works on this machine',
        detail: error instanceof Error ? ((error as { stderr?: string }).stderr ?? error.message) : '',
        cause: error,
      });
    }
  };
}
