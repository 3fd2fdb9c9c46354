/**
 * Fetches the Debian packages listed in `debian-packages.json` into `.cache/debian` and unpacks them there;
 * nothing is installed. apt does the work, with directories and lists of its own, so that signatures and
 * checksums are verified and the machine's apt state does not change.
 *
 * As a command: `node scripts/debian-packages.ts [ID...]` fetches missing ones and prints all. With `--pin`
 * it fetches the newest that fit, and pins those in the list.
 */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import { errorCodes, RampartError } from '../lib/errors/errors.ts';
import { aptRunner, type Run, writeAptConfiguration } from './debian-apt.ts';

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
  /** The files to unpack, by paths below the package's root. Default: all. */
  readonly only?: readonly string[];
  readonly why: string;
  /**
   * The version and SHA-256 of each package that the tests have passed with, by name. They are used if the
   * archive has them. An archive keeps only the newest version, so another one that fits and that Debian has
   * signed replaces them, which is reported.
   */
  readonly pinned: { readonly [name: string]: PinnedPackage };
}

export interface PinnedPackage {
  /** With its epoch. */
  readonly version: string;
  /** SHA-256 of the .deb file. */
  readonly sha256: string;
}

interface NamedPackage extends PinnedPackage {
  readonly name: string;
}

/** A package that was fetched and unpacked. */
export interface DebianPackage extends NamedPackage {
  readonly id: string;
  readonly suite: string;
  /** Those in the same root. */
  readonly with: readonly NamedPackage[];
  /** Absolute path of the directory that holds the package's files. Only read from it. */
  readonly root: string;
}

const checkout = resolve(import.meta.dirname, '..');
const listPath = join(import.meta.dirname, 'debian-packages.json');

/** The pins of this checkout. */
export function packagePins(): readonly PackagePin[] {
  return JSON.parse(readFileSync(listPath, 'utf8')) as PackagePin[];
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
  return await pinnedPackage(pin, options);
}

/** The package of an entry. See {@link debianPackage}. */
export async function pinnedPackage(pin: PackagePin, options: FetchOptions): Promise<DebianPackage> {
  const { RAMPART_DEBIAN_CACHE: byUser = join(checkout, '.cache/debian') } = process.env;
  const { cacheDirectory = byUser } = options;
  const home = join(cacheDirectory, pin.id);
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

/** The cached package for `pin`; undefined if it is absent or no longer fits the pin. */
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
    Array.isArray(record.with) &&
    Object.entries(pin.with ?? {}).every(([name, version]) =>
      record.with.some((each) => each.name === name && fits(version, each.version.replace(/^\d+:/, ''))),
    ) &&
    [record, ...record.with].every((each) => !contradicts(pin, each));
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

  const [first, ...others] = [await mainPackage(pin, run), ...(await companions(pin, run))];
  onLine?.(
    `fetching ${[first, ...others].map((each) => `${each.name} ${each.version}`).join(', ')} (${pin.suite})`,
  );
  const [main, ...more] = await unpack(pin, [first, ...others], work, run);
  for (const each of [main, ...more]) onLine?.(`unpacked ${each.name} ${each.version} sha256 ${each.sha256}`);
  return { id: pin.id, suite: pin.suite, ...main, with: more };
}

type Wanted = Omit<NamedPackage, 'sha256'>;

/** Whether a package has the pinned version with other content. */
function contradicts({ pinned }: PackagePin, { name, version, sha256 }: NamedPackage): boolean {
  return pinned[name]?.version === version && pinned[name].sha256 !== sha256;
}

/** The packages of `found` that are not the pinned ones. */
export function notPinned({ pinned }: PackagePin, found: DebianPackage): readonly NamedPackage[] {
  return [found, ...found.with].filter((each) => pinned[each.name]?.sha256 !== each.sha256);
}

/** The list of `apt-cache madison`, which fails without names. */
async function listed(names: readonly string[], run: Run): Promise<readonly string[]> {
  return names.length === 0 ? [] : (await run('apt-cache', ['madison', ...names])).split('\n');
}

/** The pinned version if the archive has it, else the newest that fits. */
function versionIn(
  lines: readonly string[],
  name: string,
  pin: PackagePin,
  pattern: string,
): string | undefined {
  const own = lines.filter((line) => line.split('|')[0]?.trim() === name).join('\n');
  const pinned = pin.pinned[name]?.version;
  return (pinned && newestVersion(own, pinned.replace(/^\d+:/, ''))) ?? newestVersion(own, pattern);
}

async function mainPackage(pin: PackagePin, run: Run): Promise<Wanted> {
  const pinnedNames = Object.keys(pin.pinned).filter((name) => fits(pin.dependency ?? pin.name, name));
  const lines = await listed([pin.name, ...pinnedNames], run);
  for (const name of pinnedNames) {
    // A dependency has its version in its name: another version is another package.
    const version = versionIn(lines, name, pin, pin.version);
    if (version !== undefined && version === pin.pinned[name]?.version) return { name, version };
  }
  const version = versionIn(lines, pin.name, pin, pin.version);
  if (version === undefined) throw notInSuite(pin, `${pin.name} ${pin.version}`);
  if (pin.dependency === undefined) return { name: pin.name, version };
  const shown = await run('apt-cache', ['show', `${pin.name}=${version}`]);
  const dependency = boundDependency(/^Depends: (.*)$/m.exec(shown)?.[1] ?? '', pin.dependency);
  if (dependency === undefined) throw notInSuite(pin, pin.dependency);
  return dependency;
}

async function companions(pin: PackagePin, run: Run): Promise<Wanted[]> {
  const lines = await listed(Object.keys(pin.with ?? {}), run);
  return Object.entries(pin.with ?? {}).map(([name, pattern]) => {
    const version = versionIn(lines, name, pin, pattern);
    if (version === undefined) throw notInSuite(pin, `${name} ${pattern}`);
    return { name, version };
  });
}

/** Fetches packages and adds their files to `ready/root`. Their SHA-256 is compared with the signed index and with the list. */
async function unpack(
  pin: PackagePin,
  wanted: readonly [Wanted, ...Wanted[]],
  work: string,
  run: Run,
): Promise<[NamedPackage, ...NamedPackage[]]> {
  // One call for all: apt reads its lists anew each time.
  const which = wanted.map(({ name, version }) => `${name}=${version}`);
  const known = new Set(
    [...(await run('apt-cache', ['show', ...which])).matchAll(/^SHA256: (\S+)$/gm)].map((match) => match[1]),
  );
  await run('apt-get', ['download', ...which]);
  await mkdir(join(work, 'ready'), { recursive: true });
  const unpackOne = async ({ name, version }: Wanted): Promise<NamedPackage> => {
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
    if (contradicts(pin, { name, version, sha256 })) {
      throw new RampartError(errorCodes.SYSTEM, {
        what: `${name} ${version} of this machine's Debian archive is not the pinned one`,
        why: `its SHA-256 is ${sha256}, pinned is ${pin.pinned[name]?.sha256}, and Debian never changes a version`,
        next: 'Do not use this archive before you know why',
      });
    }
    await unpackFiles(join(work, file), join(work, 'ready/root'), pin.only, run);
    return { name, version, sha256 };
  };
  const [first, ...others] = wanted;
  const unpacked: [NamedPackage, ...NamedPackage[]] = [await unpackOne(first)];
  for (const each of others) unpacked.push(await unpackOne(each));
  return unpacked;
}

async function unpackFiles(
  archive: string,
  root: string,
  only: readonly string[] | undefined,
  run: Run,
): Promise<void> {
  if (only === undefined) return void (await run('dpkg-deb', ['-x', archive, root]));
  const contents = `${archive}.tar`;
  await run('sh', ['-c', 'dpkg-deb --fsys-tarfile "$1" > "$2"', 'sh', archive, contents]);
  await mkdir(root, { recursive: true });
  await run('tar', ['-x', '-f', contents, '-C', root, ...only.map((path) => `./${path}`)]);
}

function notInSuite(pin: PackagePin, wanted: string): RampartError {
  return new RampartError(errorCodes.SYSTEM, {
    what: `cannot fetch ${wanted}`,
    why: `suite ${pin.suite} of this machine's Debian archive does not have it`,
    next: `Change ${pin.id} in scripts/debian-packages.json`,
  });
}

/** Fetches the newest packages that fit into an empty cache, and writes them into the list. */
async function pinNewest(signal: AbortSignal, onLine: (line: string) => void): Promise<void> {
  const cacheDirectory = await mkdtemp(join(tmpdir(), 'rampart-packages-'));
  try {
    const pins: PackagePin[] = [];
    for (const pin of packagePins()) {
      const found = await pinnedPackage({ ...pin, pinned: {} }, { signal, cacheDirectory, onLine });
      const pinned = [found, ...found.with].map(({ name, version, sha256 }) => [name, { version, sha256 }]);
      pins.push({ ...pin, pinned: Object.fromEntries(pinned) as PackagePin['pinned'] });
    }
    await writeFile(listPath, `${JSON.stringify(pins, undefined, 2)}\n`);
  } finally {
    await rm(cacheDirectory, { recursive: true, force: true });
  }
}

if (import.meta.main) {
  const ids = process.argv.slice(2);
  const { signal } = new AbortController();
  const onLine = (line: string): boolean => process.stderr.write(`${line}\n`);
  try {
    if (ids[0] === '--pin') await pinNewest(signal, onLine);
    else {
      for (const id of ids.length > 0 ? ids : packagePins().map((pin) => pin.id)) {
        const found = await debianPackage(id, { signal, onLine });
        const pin = packagePins().find((each) => each.id === id);
        for (const { name, version } of pin === undefined ? [] : notPinned(pin, found)) {
          onLine(
            `${name} ${version} is signed by Debian, but not the pinned version: scripts/debian-packages.ts --pin`,
          );
        }
        process.stdout.write(`${id}\t${found.name}\t${found.version}\t${found.sha256}\t${found.root}\n`);
      }
    }
  } catch (error) {
    process.stderr.write(`${error instanceof RampartError ? error.message : String(error)}\n`);
    process.exitCode = error instanceof RampartError && error.code === errorCodes.INPUT ? 2 : 1;
  }
}
