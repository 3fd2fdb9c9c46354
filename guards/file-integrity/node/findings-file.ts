/**
 * The findings of a job, beside its baseline: after a restart it is known who made a change and when it was seen first, and
 * what was told is not told again. It is signed with the key of the baseline.
 */
import { join } from 'node:path';
import type { Logger } from '../../../lib/telemetry/log.ts';
import type { SigningKey } from '../database/signature.ts';
import { type NoteKind, readNote, writeNote } from '../signed-notes/note-file.ts';
import type { CurrentFindings, HeldFinding } from '../results/findings.ts';

/** Of all findings as JSON; those that were seen first are left out beyond it. */
const maxCharacters = 16 * 1024 * 1024;
/** Of another version nothing is read. */
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

  /** @param directory of the job */
  constructor(directory: string, findings: CurrentFindings, logger: Logger) {
    this.#path = join(directory, 'findings');
    this.#findings = findings;
    this.#logger = logger;
  }

  /** Before the first scan. What cannot be used is told in the log: a scan finds the same, without its author. */
  async restore(key: SigningKey): Promise<void> {
    try {
      const note = (await readNote(this.#path, kind, key)) as FindingsNote | undefined;
      if (note?.version === version) this.#findings.restore(note.held);
    } catch (err) {
      this.#logger.warn({ err }, 'the authors of earlier changes are lost');
    }
  }

  /** Resolves when all that is held now is on the disk, in the order of the calls. A failure is told in the log. */
  write(key: SigningKey): Promise<void> {
    const { version: now } = this.#findings;
    if (now === this.#writtenVersion) return this.#writing;
    this.#writtenVersion = now;
    const note: FindingsNote = { version, held: latestThatFit(this.#findings.held) };
    this.#writing = this.#writing
      .then(() => writeNote(this.#path, kind, note, key))
      .catch((err: unknown) => {
        // The next one tries again.
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
