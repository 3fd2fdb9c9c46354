/** What a job remembers across restarts, in signed notes, and which requests are pending. */
import { join } from 'node:path';

import type { Logger } from '../../../lib/telemetry/log.ts';
import type { FileIntegrityNodeStatus } from '../api.ts';
import type { SigningKey, VerifyingKey } from '../database/signature.ts';
import type { NodeRequest } from '../results/node-result.ts';
import { requestsOf } from '../results/node-requests.ts';
import type { IntegrityProvider } from '../provider/provider.ts';
import type { BaselineIdentity } from '../database/newest-baseline.ts';
import { type NoteKind, readNote, writeNote } from '../signed-notes/note-file.ts';

export interface JobNotes {
  readonly sequence: number;
  /** The provider that made the last baseline. */
  readonly madeBy?: IntegrityProvider['name'];
  /** The uid of the FileIntegrity that the last baseline was made for, and when, in ms since 1970. */
  readonly madeFor?: { readonly uid: string; readonly atMs: number } | undefined;
  /** The node's configuration by the Machine Config Operator when the last baseline was made. */
  readonly machineConfig?: string;
  /** When the last scan ended, ms since 1970. */
  readonly checkedMs?: number;
  /** Ids of completed requests, the latest one last. */
  readonly doneRequests: readonly string[];
}

const noNotes: JobNotes = { sequence: 0, doneRequests: [] };
/** More requests than a cluster makes until the annotation of a completed one is removed. */
const maxDoneRequests = 100;

const kind: NoteKind = {
  purpose: 'notes of a job',
  unreadable: "the agent's record of it cannot be read",
  unsigned: "the agent's record of it is not signed with the expected key",
};

/** Writes the notes of a job. @throws RampartError FULL, SYSTEM */
export async function writeJobNotes(path: string, notes: JobNotes, key: SigningKey): Promise<void> {
  await writeNote(path, kind, notes, key);
}

/**
 * Reads the notes of a job; empty if there is no file.
 *
 * @throws BaselineError if they are not signed with the key: then a new baseline has to be requested
 */
export async function readJobNotes(path: string, key: VerifyingKey): Promise<JobNotes> {
  return ((await readNote(path, kind, key)) as JobNotes | undefined) ?? noNotes;
}

export class JobRecord {
  readonly #path: string;
  readonly #uid: string;
  readonly #logger: Logger;
  #status: FileIntegrityNodeStatus | undefined;
  #notes: JobNotes = noNotes;
  #isRead = false;

  constructor(directory: string, uid: string, logger: Logger) {
    this.#path = join(directory, 'notes');
    this.#uid = uid;
    this.#logger = logger;
  }

  get notes(): JobNotes {
    return this.#notes;
  }

  /**
   * When the baseline was made, if it was made for an earlier FileIntegrity with the same name; in ms since 1970.
   * Undefined otherwise.
   */
  get continuedFromMs(): number | undefined {
    const { madeFor } = this.#notes;
    return madeFor === undefined || madeFor.uid === this.#uid ? undefined : madeFor.atMs;
  }

  /**
   * @param status what the operator knows about this node; undefined if it knows nothing
   * @returns whether there is a new request
   */
  takeStatus(status: FileIntegrityNodeStatus | undefined): boolean {
    const before = new Set(this.requests.map(({ id }) => id));
    this.#status = status;
    return this.requests.some(({ id }) => !before.has(id));
  }

  /** The newest baseline that the operator knows. */
  get newestBaseline(): BaselineIdentity | undefined {
    const { baseline } = this.#status ?? {};
    if (baseline === undefined) return undefined;
    const { provider, digest, created } = baseline;
    const madeAtMs = Date.parse(created);
    return Number.isNaN(madeAtMs) ? undefined : { provider, digest, madeAtMs };
  }

  /** Requests that are not completed yet. */
  get requests(): NodeRequest[] {
    const done = new Set(this.#notes.doneRequests);
    return requestsOf(this.#status?.metadata.annotations).filter(({ id }) => !done.has(id));
  }

  /** Whether the operator has received a result of this node for this FileIntegrity: then there was a baseline. */
  get wasSeenByOperator(): boolean {
    const { sequence, results = [], metadata } = this.#status ?? {};
    const owners = metadata?.ownerReferences ?? [];
    if (owners.length > 0 && !owners.some(({ uid }) => uid === this.#uid)) return false;
    return sequence !== undefined && results.some(({ condition }) => condition !== 'Errored');
  }

  /** Whether this provider has made a baseline: if it has none now, the baseline was removed. */
  hadBaselineOf(provider: IntegrityProvider['name']): boolean {
    const { madeBy } = this.#notes;
    return madeBy === undefined ? this.wasSeenByOperator : madeBy === provider;
  }

  /** Reads the notes once. Returns false if they were read before. @throws BaselineError if they are not signed with the key */
  async read(key: SigningKey): Promise<boolean> {
    if (this.#isRead) return false;
    this.#notes = await readJobNotes(this.#path, key);
    this.#isRead = true;
    return true;
  }

  /** Call before a new baseline is made. Ignores notes that are not signed with the key, since they no longer matter. */
  async readIfOurs(key: SigningKey): Promise<void> {
    await this.read(key).catch(() => (this.#isRead = true));
  }

  done(more: Partial<JobNotes>, requests: readonly string[] = []): void {
    const doneRequests = [...this.#notes.doneRequests, ...requests].slice(-maxDoneRequests);
    this.#notes = { ...this.#notes, ...more, doneRequests };
  }

  /**
   * Call after the result was sent. If the process is killed in between, the notes are lost and the requests are made
   * again; the provider recognizes that it has completed them.
   */
  async write(sequence: number, key: SigningKey): Promise<void> {
    this.#notes = { ...this.#notes, sequence };
    try {
      await writeJobNotes(this.#path, this.#notes, key);
    } catch (err) {
      this.#logger.warn({ err }, 'cannot save state for a restart');
    }
  }
}
