/**
 * The file of a uprobe: a path or a library's name, resolved as a process with that root directory would resolve it. An absolute symbolic
 * link in a container leads to a file of the container.
 */
import { fstatSync, opendirSync } from 'node:fs';

import { functionOffset } from './elf-symbols.ts';
import { readAt } from '../../../../lib/ebpf/features/elf.ts';
import { errnoName, Fd, openFlags, resolveFlags, tryOpenat2 } from '../../../../lib/ebpf/libc.ts';
import { RampartError } from '../../../../lib/errors/errors.ts';
import { readBounded } from '../../../../lib/files/bounded-read.ts';
import { ProgramFailure } from '../failure.ts';

export const CACHE = '/etc/ld.so.cache';
const MAGIC = 'glibc-ld.so.cache1.1';
const HEADER_BYTES = 48;
const ENTRY_BYTES = 24;

export interface CachedLibrary {
  /** Such as `libc.so.6`. */
  readonly name: string;
  readonly path: string;
}

/** The kernel's limit (PATH_MAX). */
const LONGEST_PATH = 4096;
/** Limit of the size of ld.so.cache; that of a desktop has some 200 kB. */
const MAX_CACHE_BYTES = 4 * 1024 * 1024;
/** Maximum number of names read from a directory of libraries. */
const MAX_NAMES = 200_000;

/**
 * The libraries of an ld.so.cache, in its order. Empty if the cache is malformed, or refers to the same bytes repeatedly: a valid one has
 * each text once, or twice if a name is the end of a path.
 */
export function librariesOf(cache: Buffer): readonly CachedLibrary[] {
  // Up to glibc 2.31, another table may precede it.
  const begin = cache.indexOf(MAGIC);
  if (begin < 0 || cache.length < begin + HEADER_BYTES) return [];
  const table = cache.subarray(begin);
  const count = Math.min(table.readUInt32LE(20), Math.floor((table.length - HEADER_BYTES) / ENTRY_BYTES));
  const textAt = (offset: number): string => {
    const length = table.subarray(offset, offset + LONGEST_PATH).indexOf(0);
    leftBytes -= length;
    return length <= 0 ? '' : table.toString('latin1', offset, offset + length);
  };
  let leftBytes = 2 * table.length;
  const found: CachedLibrary[] = [];
  for (let index = 0; index < count; index++) {
    const at = HEADER_BYTES + index * ENTRY_BYTES;
    const path = textAt(table.readUInt32LE(at + 8));
    if (path.startsWith('/')) found.push({ name: textAt(table.readUInt32LE(at + 4)), path });
    if (leftBytes < 0) return [];
  }
  return found;
}

/**
 * Where libraries are on Debian, on other distributions and with musl. Subdirectories are searched as well, for
 * /lib/ARCHITECTURE-linux-gnu.
 */
const directories = ['/lib64', '/usr/lib64', '/lib', '/usr/lib', '/usr/local/lib'] as const;
const architecture = process.arch === 'arm64' ? 'aarch64' : 'x86_64';
const ELF_MAGIC = Buffer.from('\x7fELF');

export interface Target {
  /** Open for reading; the caller disposes of it. */
  readonly file: Fd;
  /** The path below the root. */
  readonly path: string;
}

/** Identifies a file and its content: see {@link ProbedFile}. */
export interface FileState {
  readonly file: string;
  readonly content: string;
}

export function fileState(file: Fd): FileState {
  const { dev, ino, size, mtimeNs } = fstatSync(file.number, { bigint: true });
  return { file: `${dev} ${ino}`, content: `${size} ${mtimeNs}` };
}

/** The state of the file that a path in a root now resolves to; undefined if there is no such file. */
export function stateAt(root: Fd, path: string): FileState | undefined {
  const fd = open(root, path, openFlags.PATH);
  if (fd < 0) return undefined;
  using file = new Fd(fd);
  return fileState(file);
}

/** The state of the cache that resolves the name of a library; '' if the target does not need it. */
export function cacheState(root: Fd, target: string): string {
  const state = target.includes('/') ? undefined : stateAt(root, CACHE);
  return state === undefined ? '' : `${state.file} ${state.content}`;
}

/**
 * @param root - The root directory in which the target is resolved.
 * @param maps - The text of /proc/PID/maps, for libraries that a process has loaded from anywhere.
 * @throws {ProgramFailure} `target`: it does not exist.
 */
export function openTarget(root: Fd, target: string, maps: string): Target {
  if (target.includes('\0') || target === '')
    throw new ProgramFailure('target', `The target ${JSON.stringify(target)} does not name a file.`);
  const isPath = target.includes('/');
  const paths = isPath ? [target] : libraryPaths(root, target, maps);
  let answer = 'ENOENT';
  for (const path of paths) {
    const fd = open(root, path, openFlags.NONBLOCK);
    if (fd < 0) {
      answer = errnoName(-fd);
      continue;
    }
    const file = new Fd(fd);
    // On a machine with a compiler, libc.so is a linker script.
    if (fstatSync(fd).isFile() && (isPath || readAt(fd, 0, 4).equals(ELF_MAGIC))) return { file, path };
    file[Symbol.dispose]();
    answer = 'it is not a regular file';
  }
  const looked = isPath ? answer : `no library of that name is in ld.so.cache or the standard directories`;
  throw new ProgramFailure('target', `There is no ${target} to probe: ${looked}.`, true);
}

/**
 * The offset in the file at which the probe is placed.
 *
 * @throws {ProgramFailure} `target`: the file has no such function.
 */
export function probeOffset(
  { file, path }: Target,
  functionName: string | undefined,
  offset: bigint,
): bigint {
  if (functionName === undefined) return offset;
  let found: bigint | undefined;
  try {
    found = functionOffset(file.number, functionName);
  } catch (error) {
    if (!(error instanceof RampartError)) throw error;
    throw new ProgramFailure('target', `${path} cannot be probed: ${error.message}.`, false, error);
  }
  if (found !== undefined) return found + offset;
  throw new ProgramFailure(
    'target',
    `${path} has no function ${functionName}. List its functions with nm -D or nm; a stripped file has only exported functions.`,
  );
}

function open(root: Fd, path: string, flags: number): number {
  return tryOpenat2(root, path, { flags, resolve: resolveFlags.IN_ROOT | resolveFlags.NO_MAGICLINKS });
}

/** Candidate paths for a library: `libc` stands for libc.so.6, and for musl's libc.musl-x86_64.so.1; `libc.so.6` stands for itself. */
function libraryPaths(root: Fd, name: string, maps: string): readonly string[] {
  const isIt = (path: string): boolean => {
    const base = path.slice(path.lastIndexOf('/') + 1);
    if (base === name) return true;
    return base.startsWith(name) && /^(\.musl-\w+|-[\d.]+)?\.so(\.[\d.]+)?$/.test(base.slice(name.length));
  };
  const cached = librariesOf(readCache(root)).filter(({ name: soname }) => isIt(soname));
  const mapped = [...maps.matchAll(/\s(\/\S+)$/gm)].map(([, path = '']) => path).filter(isIt);
  const found = [...cached.map(({ path }) => path), ...new Set(mapped)];
  for (const directory of directories.flatMap((one) => [one, `${one}/${architecture}-linux-gnu`])) {
    const fd = open(root, directory, openFlags.DIRECTORY);
    if (fd < 0) continue;
    using held = new Fd(fd);
    const names = namesIn(`/proc/self/fd/${held.number}`, isIt).toSorted();
    found.push(...names.map((base) => `${directory}/${base}`));
  }
  return found;
}

function readCache(root: Fd): Buffer {
  const fd = open(root, CACHE, openFlags.NONBLOCK);
  if (fd < 0) return Buffer.alloc(0);
  using file = new Fd(fd);
  const stat = fstatSync(fd);
  if (!stat.isFile() || stat.size > MAX_CACHE_BYTES) return Buffer.alloc(0);
  return readBounded(file.number, MAX_CACHE_BYTES, CACHE);
}

/** The wanted names in a directory, within the limit of names for one directory. */
function namesIn(path: string, isWanted: (name: string) => boolean): string[] {
  using directory = opendirSync(path);
  const names: string[] = [];
  for (let seen = 0; seen < MAX_NAMES; seen++) {
    const entry = directory.readSync();
    if (entry === null) break;
    if (isWanted(entry.name)) names.push(entry.name);
  }
  return names;
}
