/**
 * Fetches the Debian packages listed in `debian-packages.json` into `.cache/debian` and unpacks them
 * there; nothing is installed. apt does the work, with directories and lists of its own, so that
 * signatures and checksums are verified and the machine's apt state stays as it is.
 *
 * As a command: `node scripts/debian-packages.ts [ID...]` fetches what is missing and prints what is there.
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

import { errorCodes, RampartError } from '../lib/errors/errors.ts';
import { findMainArchive, stanzaFor } from './debian-sources.ts';

/** An entry of `debian-packages.json`: what may be fetched, and why. */
export interface PackagePin {
  readonly id: string;
  readonly suite: string;
  readonly name: string;
  /** Pattern with `*` for the version without its epoch; the newest that fits is taken. */
  readonly version: string;
  /** Take the dependency of `name` whose name fits this pattern instead of `name`, in the version it asks for. */
  readonly dependency?: string;
  /** More packages for the same root, what a program needs to run: their names, each with a pattern for its version. */
  readonly with?: { readonly [name: string]: string };
  readonly why: string;
}

/** A package that was fetched and unpacked. */
export interface DebianPackage {
  readonly id: string;
  readonly suite: string;
  readonly name: string;
  readonly version: string;
  /** Of the .deb file, as in the signed index. */
  readonly sha256: string;
  /** Of those in the same root: `name version`. */
  readonly with?: readonly string[];
  /** Absolute path of the directory that holds the package's files. Only read from it. */
  readonly root: string;
}

const checkout = resolve(import.meta.dirname, '..');
const execFileAsync = promisify(execFile);

/** The pins of this checkout. */
export function packagePins(): readonly PackagePin[] {
  return JSON.parse(readFileSync(join(import.meta.dirname, 'debian-packages.json'), 'utf8')) as PackagePin[];
}

/** Whether `text` fits `pattern`, in which `*` stands for any characters. */
export function fits(pattern: string, text: string): boolean {
  const parts = pattern.split('*').map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(`^${parts.join('.*')}$`).test(text);
}

/** The newest version in the output of `apt-cache madison`, which lists newest first, that fits the pattern. */
export function newestVersion(madison: string, pattern: string): string | undefined {
  const versions = madison.split('\n').map((line) => line.split('|')[1]?.trim() ?? '');
  return versions.find((version) => version !== '' && fits(pattern, version.replace(/^\d+:/, '')));
}

/** The dependency in a `Depends` value that fits the pattern and is bound to one version. */
export function boundDependency(
  depends: string,
  pattern: string,
): { readonly name: string; readonly version: string } | undefined {
  for (const item of depends.split(/[,|]/)) {
    const match = /^\s*([^\s(]+)\s*\(=\s*([^)\s]+)\s*\)/.exec(item);
    if (match?.[1] !== undefined && match[2] !== undefined && fits(pattern, match[1])) {
      return { name: match[1], version: match[2] };
    }
  }
  return undefined;
}

interface FetchOptions {
  readonly signal: AbortSignal;
  /** Where the packages are kept; default RAMPART_DEBIAN_CACHE, or `.cache/debian` of the checkout. */
  readonly cacheDirectory?: string;
  /** Told what is being fetched, one line at a time. */
  readonly onLine?: (line: string) => void;
}

/**
 * The package `id` of the list, unpacked: from the cache when it is there, else fetched first.
 * A fetch is done in a directory of its own that is renamed into place when it is whole, so an
 * interrupted one never counts and two at once do not disturb each other.
 *
 * @throws {RampartError} `INPUT` for an id that is not in the list, `UNSUPPORTED` when this machine is
 * not Debian, `SYSTEM` when apt cannot fetch it or it cannot be kept. Rejects with the signal's reason when aborted.
 */
export async function debianPackage(id: string, options: FetchOptions): Promise<DebianPackage> {
  const pin = packagePins().find((candidate) => candidate.id === id);
  if (pin === undefined) {
    throw new RampartError(errorCodes.INPUT, {
      what: `no package ${id}`,
      why: `the list has ${packagePins()
        .map((known) => known.id)
        .join(', ')}`,
      next: 'Add it to scripts/debian-packages.json',
    });
  }
  const { RAMPART_DEBIAN_CACHE: byUser = join(checkout, '.cache/debian') } = process.env;
  const { cacheDirectory = byUser } = options;
  const home = join(cacheDirectory, id);
  const cached = await readRecord(home, pin);
  if (cached !== undefined) return cached;

  await mkdir(cacheDirectory, { recursive: true }).catch((error: NodeJS.ErrnoException) => {
    throw new RampartError(errorCodes.SYSTEM, {
      what: `cannot keep Debian packages in ${cacheDirectory}`,
      why: error.message,
      next: 'Set RAMPART_DEBIAN_CACHE to a directory that can be written',
    });
  });
  await removeAbandoned(cacheDirectory);
  const work = await mkdtemp(join(cacheDirectory, `.fetch-${process.pid}-`));
  try {
    const record = await fetchInto(work, pin, options);
    const ready = join(work, 'ready');
    await writeFile(join(ready, 'package.json'), `${JSON.stringify(record, undefined, 2)}\n`);
    // Another process may have been first: then its copy stays, it may already be in use.
    const other = await readRecord(home, pin);
    if (other !== undefined) return other;
    if (existsSync(home)) await rename(home, join(work, 'outdated'));
    await rename(ready, home);
    return { ...record, root: join(home, 'root') };
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

type Record = Omit<DebianPackage, 'root'>;

/** What the cache holds for `pin`; undefined when it is absent or does not fit the pin any more. */
async function readRecord(home: string, pin: PackagePin): Promise<DebianPackage | undefined> {
  let record: Record;
  try {
    record = JSON.parse(await readFile(join(home, 'package.json'), 'utf8')) as Record;
  } catch {
    return undefined;
  }
  const fitsPin =
    record.suite === pin.suite &&
    fits(pin.version, record.version.replace(/^\d+:/, '')) &&
    fits(pin.dependency ?? pin.name, record.name) &&
    Object.entries(pin.with ?? {}).every(([name, version]) =>
      record.with?.some((each) => fits(`${name} ${version}`, each.replace(/ \d+:/, ' '))),
    );
  return fitsPin ? { ...record, root: join(home, 'root') } : undefined;
}

/** Removes what a killed fetch left: directories that carry the pid of a process that is gone. */
async function removeAbandoned(cacheDirectory: string): Promise<void> {
  for (const name of await readdir(cacheDirectory)) {
    const pid = /^\.fetch-(\d+)-/.exec(name)?.[1];
    if (pid === undefined || existsSync(`/proc/${pid}`)) continue;
    await rm(join(cacheDirectory, name), { recursive: true, force: true });
  }
}

async function fetchInto(work: string, pin: PackagePin, options: FetchOptions): Promise<Record> {
  const { signal, onLine } = options;
  const run = aptRunner(await writeAptConfiguration(work, pin.suite), work, signal);
  await run('apt-get', ['update']);

  const version = newestVersion(await run('apt-cache', ['madison', pin.name]), pin.version);
  if (version === undefined) throw notInSuite(pin, `${pin.name} ${pin.version}`);
  let wanted: Wanted = { name: pin.name, version };
  if (pin.dependency !== undefined) {
    const shown = await run('apt-cache', ['show', `${pin.name}=${version}`]);
    const dependency = boundDependency(/^Depends: (.*)$/m.exec(shown)?.[1] ?? '', pin.dependency);
    if (dependency === undefined) throw notInSuite(pin, pin.dependency);
    wanted = dependency;
  }
  onLine?.(`fetching ${wanted.name} ${wanted.version} (${pin.suite})`);
  const [sha256 = ''] = await unpack(pin, [wanted], work, run);
  onLine?.(`unpacked ${wanted.name} ${wanted.version} sha256 ${sha256}`);
  const record = { id: pin.id, suite: pin.suite, name: wanted.name, version: wanted.version, sha256 };
  if (pin.with === undefined) return record;
  const names = Object.keys(pin.with);
  const madison = (await run('apt-cache', ['madison', ...names])).split('\n');
  const more = Object.entries(pin.with).map(([name, pattern]) => {
    const own = madison.filter((line) => line.split('|')[0]?.trim() === name).join('\n');
    const found = newestVersion(own, pattern);
    if (found === undefined) throw notInSuite(pin, `${name} ${pattern}`);
    return { name, version: found };
  });
  onLine?.(`fetching ${more.map((each) => `${each.name} ${each.version}`).join(', ')} (${pin.suite})`);
  await unpack(pin, more, work, run);
  return { ...record, with: more.map((each) => `${each.name} ${each.version}`) };
}

interface Wanted {
  readonly name: string;
  readonly version: string;
}

/** Fetches packages and adds their files to `ready/root`. Returns their SHA-256, which were compared with the index. */
async function unpack(pin: PackagePin, wanted: readonly Wanted[], work: string, run: Run): Promise<string[]> {
  // One call for all: apt reads its lists anew each time.
  const which = wanted.map(({ name, version }) => `${name}=${version}`);
  const known = new Set(
    [...(await run('apt-cache', ['show', ...which])).matchAll(/^SHA256: (\S+)$/gm)].map((match) => match[1]),
  );
  await run('apt-get', ['download', ...which]);
  await mkdir(join(work, 'ready'), { recursive: true });
  const digests: string[] = [];
  for (const { name } of wanted) {
    const file = (await readdir(work)).find((each) => each.startsWith(`${name}_`) && each.endsWith('.deb'));
    if (file === undefined) throw notInSuite(pin, name);
    const sha256 = createHash('sha256')
      .update(await readFile(join(work, file)))
      .digest('hex');
    if (!known.has(sha256)) {
      throw new RampartError(errorCodes.SYSTEM, {
        what: `${file} is damaged`,
        why: `its SHA-256 ${sha256} is not the one in the index`,
        next: 'Try again',
      });
    }
    await run('dpkg-deb', ['-x', join(work, file), join(work, 'ready/root')]);
    digests.push(sha256);
  }
  return digests;
}

/**
 * Writes the private configuration and returns the path for APT_CONFIG, which apt reads before the
 * machine's own files (apt.conf(5)). It only moves `Dir::Etc::main`, read last, to a file of ours:
 * that one includes the machine's (proxies stay in force), moves every directory and drops the hooks,
 * which would clean or refresh the machine's own caches.
 */
async function writeAptConfiguration(work: string, suite: string): Promise<string> {
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

type Run = (command: string, args: readonly string[]) => Promise<string>;

function aptRunner(aptConfig: string, work: string, signal: AbortSignal): Run {
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

function notInSuite(pin: PackagePin, wanted: string): RampartError {
  return new RampartError(errorCodes.SYSTEM, {
    what: `cannot fetch ${wanted}`,
    why: `suite ${pin.suite} of this machine's Debian archive does not have it`,
    next: `Change ${pin.id} in scripts/debian-packages.json`,
  });
}

if (import.meta.main) {
  const ids = process.argv.slice(2);
  try {
    for (const id of ids.length > 0 ? ids : packagePins().map((pin) => pin.id)) {
      const found = await debianPackage(id, {
        signal: new AbortController().signal,
        onLine: (line) => process.stderr.write(`${line}\n`),
      });
      process.stdout.write(`${found.id}\t${found.name}\t${found.version}\t${found.sha256}\t${found.root}\n`);
    }
  } catch (error) {
    process.stderr.write(`${error instanceof RampartError ? error.message : String(error)}\n`);
    process.exitCode = error instanceof RampartError && error.code === errorCodes.INPUT ? 2 : 1;
  }
}
