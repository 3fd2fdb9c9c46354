/**
 * Stores the findings of a job next to its baseline: after a restart, the authors and first times of changes are still
 * known, and findings that were already reported are not reported again. Signed with the key of the baseline.
 */
import { join } from 'node:path';
import type { Logger } from '../../../lib/telemetry/log.ts';
import type { SigningKey } from '../database/signature.ts';
import { type NoteKind, readNote, writeNote } from '../signed-notes/note-file.ts';
import type { CurrentFindings } from '../results/findings.ts';
import type { HeldFinding } from '../results/held-finding.ts';

/** Limit of all findings as JSON; above it, the earliest ones are omitted. */
const maxCharacters = 16 * 1024 * 1024;
/** Files of another version are not read. */
const version = 1;

const kind: NoteKind = {
  purpose: 'findings of a job',
  unreadable: 'the findings from before the restart cannot be read',
  unsigned: 'the findings from before the restart are not signed with the expected key',
};

interface FindingsNote {
  readonly version: number;
  readonly held: readonly HeldFinding[];
}

export class FindingsFile {
  readonly #path: string;
  readonly #findings: CurrentFindings;
  readonly #logger: Logger;
  #writtenVersion = 0;
  #writing: Promise<void> = Promise.resolve();

  /** @param directory the directory of the job */
  constructor(directory: string, findings: CurrentFindings, logger: Logger) {
    this.#path = join(directory, 'findings');
    this.#findings = findings;
    this.#logger = logger;
  }

  /** Call before the first scan. An unusable file is only logged: a scan finds the same changes, without their authors. */
  async restore(key: SigningKey): Promise<void> {
    try {
      const note = (await readNote(this.#path, kind, key)) as FindingsNote | undefined;
      if (note?.version === version) this.#findings.restore(note.held);
    } catch (err) {
      this.#logger.warn({ err }, 'the authors of earlier changes are lost');
    }
  }

  /** Writes the current findings; calls are carried out in order. Resolves when the findings are on disk. A failure is logged. */
  write(key: SigningKey): Promise<void> {
    const { version: now } = this.#findings;
    if (now === this.#writtenVersion) return this.#writing;
    this.#writtenVersion = now;
    const note: FindingsNote = { version, held: latestThatFit(this.#findings.held) };
    this.#writing = this.#writing
      .then(() => writeNote(this.#path, kind, note, key))
      .catch((err: unknown) => {
        // The next write tries again.
        this.#writtenVersion = -1;
        this.#logger.warn({ err }, 'the authors of changes could not be saved; a restart would lose them');
      });
    return this.#writing;
  }
}

function latestThatFit(held: Iterable<HeldFinding>): HeldFinding[] {
  const all = [...held];
  let characters = 0;
  let first = all.length;
  for (const [at, one] of [...all.entries()].reverse()) {
    characters += JSON.stringify(one).length;
    if (characters > maxCharacters) break;
    first = at;
  }
  return all.slice(first);
}
