/**
 * A baseline of AIDE: its database, and a signed file that names it.
 *
 * ```
 * aide.baseline             JSON on one line, and its signature in base64 on the next; names the database
 * aide.baseline.<id>        previous baselines, in the same form
 * aide.db.<id>.gz           as AIDE wrote it
 * aide.last-baseline        which baseline is the latest: older ones are signed too, see signed-notes/last-baseline.ts
 * ```
 *
 * Each database has its own name and is on disk before `aide.baseline` names it, so a kill at any moment leaves the old
 * or the new baseline. The next writer removes databases that no file names.
 */
import { createHash } from 'node:crypto';
import { link, open, readdir, readFile, rm, unlink, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import manifest from '../../../package.json' with { type: 'json' };
import { fileError, RampartError } from '../../../lib/errors/errors.ts';
import { BaselineError } from '../database/baseline-error.ts';
import { openBaselineFile, unreadable } from '../database/frame-reader.ts';
import {
  checkLast,
  type LastBaseline,
  readLastBaseline,
  writeLastBaseline,
} from '../signed-notes/last-baseline.ts';
import { replaceFile } from '../database/replace-file.ts';
import { keyId, sameDigest, signDigest, verifyDigest } from '../database/signature.ts';
import { digestOf } from '../database/format.ts';
import type { IntegrityJob } from '../provider/provider.ts';

type DatabaseJob = Pick<IntegrityJob, 'directory' | 'signingKey' | 'maxBackups' | 'newest'>;

const format = 1;
const current = 'aide.baseline';
const lastName = 'aide.last-baseline';
const backupName = /^aide\.baseline\.(\d+-[0-9a-f]{12})$/;
const databaseName = /^aide\.db\.(\d+-[0-9a-f]{12})\.gz$/;
/** A partial database, written while findings are accepted. */
const partName = /^aide\.db\.\d+-[0-9a-f]{12}\.part$/;
/** Prefix of the directories of individual AIDE runs. */
export const runPrefix = 'aide.run.';
/** A longer file is not one of ours. */
const longestBytes = 64 * 1024;

export interface DatabaseFacts {
  readonly format: number;
  /** `<ms since 1970>-<12 digits>` */
  readonly id: string;
  readonly sha256: string;
  readonly sizeBytes: number;
  readonly entries: number;
  readonly madeAtMs: number;
  readonly configDigest: string;
  readonly aideVersion: string;
  readonly rampartVersion: string;
  readonly about: Readonly<Record<string, string>>;
  /** Number of paths that could not be read. */
  readonly unread: number;
  /** The latest requests that the baseline fulfils, see `InitOptions.request`. */
  readonly requests: readonly string[];
  readonly scheme: string;
  readonly keyId: string;
}

/** The path of the database with this id, where AIDE writes it. */
export function databasePath(directory: string, id: string): string {
  return join(directory, `aide.db.${id}.gz`);
}

/** A database whose signature and bytes were verified. Whoever opens it disposes it. */
export class SignedDatabase implements AsyncDisposable {
  readonly facts: DatabaseFacts;
  readonly path: string;
  readonly #file: FileHandle;

  constructor(facts: DatabaseFacts, path: string, file: FileHandle) {
    this.facts = facts;
    this.path = path;
    this.#file = file;
  }

  /** Descriptor at the start of the file, for AIDE: it then reads the verified file, whatever the path leads to by now. */
  get fd(): number {
    return this.#file.fd;
  }

  /** @throws {BaselineError} if the bytes are not those that were signed */
  async verify(signal: AbortSignal): Promise<void> {
    const { sizeBytes, sha256 } = this.facts;
    const digest = createHash('sha256');
    const buffer = Buffer.allocUnsafe(256 * 1024);
    let at = 0;
    for (;;) {
      signal.throwIfAborted();
      // The explicit position leaves the descriptor's offset at the start, for AIDE.
      const { bytesRead } = await this.#file.read(buffer, 0, buffer.length, at).catch((cause: unknown) => {
        throw unreadable(this.path, cause);
      });
      if (bytesRead === 0) break;
      digest.update(buffer.subarray(0, bytesRead));
      at += bytesRead;
      if (at > sizeBytes) break;
    }
    if (at < sizeBytes)
      throw new BaselineError(
        'truncated',
        this.path,
        `it has ${at} bytes; when it was signed it had ${sizeBytes}`,
      );
    if (at > sizeBytes || !sameDigest(digest.digest('hex'), sha256))
      throw new BaselineError('damaged', this.path, 'its content is not what was signed');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#file.close();
  }
}

/**
 * The content of the signed file, once its signature is verified; the database itself is not read.
 * `undefined` if there never was one.
 *
 * @throws {BaselineError}
 */
export async function readFacts({
  directory,
  signingKey: key,
  newest,
}: DatabaseJob): Promise<DatabaseFacts | undefined> {
  const path = join(directory, current);
  const text = await readSigned(path).catch(async (error: unknown) => {
    if (!(error instanceof BaselineError) || error.fault !== 'missing') throw error;
    const note = await readLastBaseline(join(directory, lastName), key);
    if (note?.digest === undefined) return undefined;
    throw new BaselineError('missing', path, 'it existed before and is gone', error);
  });
  if (text === undefined) return undefined;
  const [line = '', signature, ...more] = text.split('\n');
  const facts = parseFacts(path, line, signature);
  if (signature === undefined || signature === '')
    throw new BaselineError('unsigned', path, 'it has no signature');
  if (more.length !== 1 || more[0] !== '')
    throw new BaselineError(
      'damaged',
      path,
      'there is data after its signature, or the signature is cut off',
    );
  const wanted = keyId(key);
  if (facts.scheme !== key.scheme || facts.keyId !== wanted) {
    const signed = `${facts.scheme}, key ${facts.keyId}`;
    throw new BaselineError(
      'wrong signature',
      path,
      `it is signed with ${signed}; expected ${key.scheme}, key ${wanted}`,
    );
  }
  if (!verifyDigest(digestOf(line), Buffer.from(signature, 'base64'), key))
    throw new BaselineError('wrong signature', path, 'its signature does not match its content');
  const note = await readLastBaseline(join(directory, lastName), key);
  const digest = digestOf(line).toString('hex');
  checkLast(path, digest, note);
  newest?.check(path, { provider: 'aide', digest, madeAtMs: facts.madeAtMs });
  return facts;
}

/** Opens the database, and verifies its signature and all its bytes. @throws {BaselineError} */
export async function openDatabase(job: DatabaseJob, signal: AbortSignal): Promise<SignedDatabase> {
  const { directory } = job;
  const facts = await readFacts(job);
  if (facts === undefined) throw new BaselineError('missing', join(directory, current), 'it does not exist');
  const path = databasePath(directory, facts.id);
  const file = await openBaselineFile(path);
  const database = new SignedDatabase(facts, path, file);
  try {
    if (!(await file.stat()).isFile()) throw new BaselineError('foreign', path, 'it is not a regular file');
    await database.verify(signal);
    return database;
  } catch (error) {
    await file.close();
    throw error;
  }
}

export interface NewDatabase extends Pick<
  DatabaseFacts,
  'id' | 'entries' | 'configDigest' | 'aideVersion' | 'about' | 'unread' | 'requests'
> {
  readonly job: DatabaseJob;
  readonly signal: AbortSignal;
  /** Called with the digest of the new baseline before it replaces the current one; if this throws, the baseline is unchanged. */
  readonly onSigned: (digest: string) => Promise<void>;
}

/**
 * Makes the existing database of this id the baseline; the previous one becomes a backup.
 *
 * @throws {RampartError} FULL, SYSTEM: the baseline is unchanged
 */
export async function adoptDatabase(made: NewDatabase): Promise<void> {
  const { job, signal, onSigned, ...about } = made;
  const { directory, signingKey: key, maxBackups, newest } = job;
  const path = databasePath(directory, made.id);
  const { sha256, sizeBytes } = await digestOnDisk(path, signal);
  const facts: DatabaseFacts = {
    format,
    ...about,
    sha256,
    sizeBytes,
    madeAtMs: Number(made.id.split('-')[0]),
    rampartVersion: manifest.version,
    scheme: key.scheme,
    keyId: keyId(key),
  };
  const line = JSON.stringify(facts);
  const digest = digestOf(line);
  const signature = signDigest(digest, key).toString('base64');
  await onSigned(digest.toString('hex'));
  // Replaces the old note, even if that could not be trusted.
  const before = await readLastBaseline(join(directory, lastName), key).catch(() => undefined);
  const note = (now: LastBaseline): Promise<void> => writeLastBaseline(join(directory, lastName), now, key);
  await note({
    ...(before?.digest !== undefined && { digest: before.digest }),
    next: digest.toString('hex'),
  });
  await keepBackup(directory, maxBackups);
  await replaceFile(join(directory, current), async (file) => {
    await file.writeFile(`${line}\n${signature}\n`);
  });
  newest?.made({ provider: 'aide', digest: digest.toString('hex'), madeAtMs: facts.madeAtMs });
  // If this fails, the baseline is already in effect, and the note above matches it too.
  await note({ digest: digest.toString('hex') }).catch(() => undefined);
  await removeStrays(directory, maxBackups);
}

/** Removes backups beyond `maxBackups`, and files left by killed writers. Nothing else may work on the job meanwhile. */
export async function removeStrays(directory: string, maxBackups: number): Promise<void> {
  const names = await readdir(directory);
  const backups = names.map((name) => backupName.exec(name)?.[1]).filter((id) => id !== undefined);
  const byAge = backups.toSorted(
    (a, b) => Number.parseInt(b, 10) - Number.parseInt(a, 10) || (a < b ? 1 : -1),
  );
  const wanted = new Set(byAge.slice(0, maxBackups));
  for (const name of names) {
    if (!partName.test(name) && !name.startsWith(runPrefix)) continue;
    await rm(join(directory, name), { recursive: true, force: true }).catch(ignore);
  }
  const ownId = await idOf(join(directory, current));
  // It is unknown which database an unreadable baseline refers to, so none is removed.
  if (ownId === 'unknown') return;
  for (const id of backups)
    if (!wanted.has(id)) await unlink(join(directory, `${current}.${id}`)).catch(ignore);
  for (const name of names) {
    const id = databaseName.exec(name)?.[1];
    if (id !== undefined && id !== ownId && !wanted.has(id))
      await unlink(join(directory, name)).catch(ignore);
  }
}

async function keepBackup(directory: string, maxBackups: number): Promise<void> {
  const id = await idOf(join(directory, current));
  if (maxBackups <= 0 || id === undefined || id === 'unknown') return;
  try {
    // A second link, so that the baseline always has a name.
    await link(join(directory, current), join(directory, `${current}.${id}`));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return;
    const what = `cannot keep the baseline in ${directory} as a backup`;
    throw fileError(what, error, 'The baseline is unchanged');
  }
}

/**
 * The id in a signed file, without verifying the signature: only to know which files are in use. `unknown` if it cannot
 * be read.
 */
async function idOf(path: string): Promise<string | undefined> {
  try {
    const [line = ''] = (await readFile(path, 'utf8')).split('\n');
    const id = (JSON.parse(line) as { id?: unknown } | null)?.id;
    return typeof id === 'string' && databaseName.test(`aide.db.${id}.gz`) ? id : 'unknown';
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === 'ENOENT' || code === 'ENOTDIR' ? undefined : 'unknown';
  }
}

async function readSigned(path: string): Promise<string> {
  await using file = await openBaselineFile(path);
  try {
    const stat = await file.stat();
    if (!stat.isFile()) throw new BaselineError('foreign', path, 'it is not a regular file');
    if (stat.size > longestBytes)
      throw new BaselineError('foreign', path, 'it is too long for a baseline of Rampart');
    return await file.readFile('utf8');
  } catch (error) {
    throw error instanceof RampartError ? error : unreadable(path, error);
  }
}

function parseFacts(path: string, line: string, signature: string | undefined): DatabaseFacts {
  if (line === '') throw new BaselineError('truncated', path, 'it is empty');
  let value: Partial<DatabaseFacts> | null;
  try {
    value = JSON.parse(line) as Partial<DatabaseFacts> | null;
  } catch (error) {
    if (!line.startsWith('{"format":'))
      throw new BaselineError('foreign', path, 'it is not a baseline of AIDE', error);
    const fault = signature === undefined ? 'truncated' : 'damaged';
    throw new BaselineError(fault, path, 'it is not JSON', error);
  }
  if (typeof value?.format !== 'number' || typeof value.id !== 'string')
    throw new BaselineError('foreign', path, 'it is not a baseline of AIDE');
  if (value.format !== format)
    throw new BaselineError(
      'newer',
      path,
      `it has format ${value.format}; this version of Rampart supports format ${format}`,
    );
  if (!databaseName.test(`aide.db.${value.id}.gz`))
    throw new BaselineError('damaged', path, 'its id is malformed');
  return value as DatabaseFacts;
}

async function digestOnDisk(
  path: string,
  signal: AbortSignal,
): Promise<{ sha256: string; sizeBytes: number }> {
  try {
    await using file = await open(path, 'r+');
    await file.chmod(0o600);
    await file.sync();
    const digest = createHash('sha256');
    let sizeBytes = 0;
    const chunks: AsyncIterable<Buffer> = file.createReadStream({ start: 0, autoClose: false, signal });
    for await (const chunk of chunks) {
      digest.update(chunk);
      sizeBytes += chunk.length;
    }
    return { sha256: digest.digest('hex'), sizeBytes };
  } catch (error) {
    signal.throwIfAborted();
    throw unreadable(path, error);
  }
}

function ignore(): void {
  // The next writer tries again.
}
