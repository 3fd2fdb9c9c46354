/**
 * Which processes raise the alerts of a trap, by the program that they run.
 *
 * A program is identified by the file that its path leads to in the container of the trap, or on the node, and not by
 * its name: a process can give itself any name with a mount or a root directory of its own. So /usr/bin/vault in
 * another container is another program.
 */
import { type FileIdentity, sameFile } from '../../lib/sensor/access.ts';

export type ProcessFilterKind = 'except' | 'only';

/** Limit of programs in one trap. */
export const MAX_PROGRAMS = 16;

/** Programs as a policy names them, by path. */
export interface NamedPrograms {
  readonly kind: ProcessFilterKind;
  readonly paths: readonly string[];
}

/** The files that the paths of the programs lead to now; paths that lead to no file are left out. */
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
  // Accesses by an unknown program always raise an alert.
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
