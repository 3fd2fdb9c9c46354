/**
 * Which processes raise the alerts of a trap, by the program that they run.
 *
 * A program is the file that its path leads to in the container of the trap, or on the node: not its name, which a process may
 * give itself by a mount or a root directory of its own. So what runs as /usr/bin/vault elsewhere is another program.
 */
import { type FileIdentity, sameFile } from '../../lib/sensor/access.ts';

export type ProcessFilterKind = 'except' | 'only';

/** Limit of programs in one trap. */
export const MAX_PROGRAMS = 16;

/** As a policy has it. */
export interface NamedPrograms {
  readonly kind: ProcessFilterKind;
  readonly paths: readonly string[];
}

/** With the files that the paths lead to now; those that lead to none are left out. */
export interface ProcessFilter {
  readonly kind: ProcessFilterKind;
  readonly files: readonly FileIdentity[];
}

/** @param isAtHome - Whether the process is in the file's container or, for a file of the node, in none. */
export function raisesAlert(
  { kind, files }: ProcessFilter,
  executable: FileIdentity | undefined,
  isAtHome: () => boolean,
): boolean {
  // An unknown program is never left out.
  if (executable === undefined) return true;
  const isNamed = files.some((file) => sameFile(file, executable));
  return kind === 'only' ? isNamed : !(isNamed && isAtHome());
}

export function sameFilter(a: ProcessFilter | undefined, b: ProcessFilter | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return (
    a.kind === b.kind &&
    a.files.length === b.files.length &&
    a.files.every((file, at) => sameFile(file, b.files[at] as FileIdentity))
  );
}
