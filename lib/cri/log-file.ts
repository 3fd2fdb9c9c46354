/** The log file of a container: opened safely, read from its end, followed when it is rotated. */
import { constants } from 'node:fs';
import { type FileHandle, lstat, open, readdir, readlink, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';

import { errorCodes, messageOf, RampartError } from '../errors/errors.ts';
import { headerLength, MAX_HEADER_BYTES, parseHeader } from './log-decoder.ts';

const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;
const BLOCK_BYTES = 64 * 1024;
/** Limit of rotated files that are examined. kubelet keeps five by default. */
const MAX_ROTATED = 100;
const TRIES = 5;

/**
 * Opens a log file. A container that has the log directory mounted could replace its log by a link to another file, to make
 * this process read that: so it has to be a regular file without other hard links, in the container's own directory.
 *
 * @throws {RampartError} `NOT_FOUND`, `SYSTEM`.
 */
export async function openLogFile(path: string): Promise<FileHandle> {
  for (let tries = 1; ; tries++) {
    const file = await opened(path);
    const objection = await whyNot(file, path).catch((error: unknown) => String(error));
    if (objection === undefined) return file;
    await file.close();
    // The file was renamed after it was opened: the log is now another file with this name.
    if (tries < TRIES && objection === ELSEWHERE) continue;
    throw new RampartError(errorCodes.SYSTEM, { what: `log file ${path} is not read`, why: objection });
  }
}

const ELSEWHERE = 'its path leads elsewhere';

async function opened(path: string): Promise<FileHandle> {
  try {
    return await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    throw new RampartError(code === 'ENOENT' ? errorCodes.NOT_FOUND : errorCodes.SYSTEM, {
      what: `failed to open log file ${JSON.stringify(path)}`,
      why: code === 'ELOOP' ? 'it is a symbolic link' : messageOf(error),
      cause: error,
    });
  }
}

async function whyNot(file: FileHandle, path: string): Promise<string | undefined> {
  const stats = await file.stat();
  if (!stats.isFile()) return 'it is not a regular file';
  const real = await readlink(`/proc/self/fd/${file.fd}`);
  // The directory of all logs may be a link to another disk; only the directories below it are made by the runtime.
  const own = (of: string): string => of.split('/').slice(-3).join('/');
  if (own(real) !== own(path)) return ELSEWHERE;
  return stats.nlink > 1 ? 'it has more than one hard link' : undefined;
}

/**
 * The offset at which the last lines of a file begin. Records that are parts of the same line count as one.
 *
 * @param sizeBytes the part of the file to examine.
 */
export async function tailStart(
  file: FileHandle,
  sizeBytes: number,
  lines: number,
  signal: AbortSignal,
): Promise<number> {
  const block = Buffer.allocUnsafe(BLOCK_BYTES);
  let counted = 0;
  /** Offset after the newline of the examined record. */
  let recordEnd: number | undefined;
  /** @returns the offset at which the tail begins; undefined if it is not known yet. */
  const look = async (start: number, known: Buffer): Promise<number | undefined> => {
    if (recordEnd === undefined) return undefined;
    const isWhole = endsLine(known.length < MAX_HEADER_BYTES ? await headerAt(file, start) : known);
    if (isWhole && counted === lines) return recordEnd;
    // The last line counts even if it is incomplete.
    if (isWhole || counted === 0) counted++;
    return undefined;
  };
  for (let end = sizeBytes; end > 0;) {
    signal.throwIfAborted();
    const start = Math.max(0, end - BLOCK_BYTES);
    const { bytesRead } = await file.read(block, 0, end - start, start);
    const bytes = block.subarray(0, bytesRead);
    for (let at = bytes.lastIndexOf(0x0a); at !== -1; at = at === 0 ? -1 : bytes.lastIndexOf(0x0a, at - 1)) {
      const found = await look(start + at + 1, bytes.subarray(at + 1, at + 1 + MAX_HEADER_BYTES));
      if (found !== undefined) return found;
      recordEnd = start + at + 1;
      if (lines === 0) return recordEnd;
    }
    end = start;
  }
  return (await look(0, await headerAt(file, 0))) ?? 0;
}

async function headerAt(file: FileHandle, start: number): Promise<Buffer> {
  const bytes = Buffer.alloc(MAX_HEADER_BYTES);
  const { bytesRead } = await file.read(bytes, 0, MAX_HEADER_BYTES, start);
  return bytes.subarray(0, bytesRead);
}

/** Whether the record with this beginning ends a line. Malformed records also do. */
function endsLine(bytes: Buffer): boolean {
  const length = headerLength(bytes) ?? 0;
  return parseHeader(bytes.toString('latin1', 0, length))?.isPartial !== true;
}

/** The file to read after another was read to its end. */
type Successor =
  /** It does not exist yet. */
  | undefined
  /** The same file from its beginning: it was truncated. */
  | 'emptied'
  /** Another file. `isGap`: whether files between the two may have been deleted. */
  | { readonly path: string; readonly isGap: boolean };

/**
 * Finds the next file after a rotation: the old file is renamed to its name plus a dot and a suffix, and a new one is created
 * (kubelet, pkg/kubelet/logs/container_log_manager.go). A slow reader may be several files behind.
 *
 * @param readBytes how much of the old file was read.
 */
export async function successorOf(file: FileHandle, path: string, readBytes: number): Promise<Successor> {
  const own = await file.stat();
  const current = await stat(path).catch(() => undefined);
  // The old file is already renamed, but the new one does not exist yet.
  if (current === undefined) return undefined;
  if (current.ino === own.ino && current.dev === own.dev) {
    return own.size < readBytes ? 'emptied' : undefined;
  }
  const directory = dirname(path);
  const names = (await readdir(directory).catch(() => []))
    .filter((name) => name.startsWith(`${basename(path)}.`) && !name.endsWith('.tmp'))
    .sort()
    .slice(-MAX_ROTATED);
  let later: readonly string[] | undefined;
  for (const [at, name] of names.entries()) {
    const stats = await lstat(join(directory, name)).catch(() => undefined);
    if (stats?.ino === own.ino && stats.dev === own.dev) later = names.slice(at + 1);
  }
  // The oldest files are compressed and deleted first, so an uncompressed file is newer than any deleted one.
  const plain = (later ?? names).filter((name) => !name.endsWith('.gz'));
  const isGap = later === undefined ? names.length > 0 : plain.length < later.length;
  return { path: plain[0] === undefined ? path : join(directory, plain[0]), isGap };
}
