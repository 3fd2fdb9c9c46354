import type { DesiredProgram } from '../desired.ts';
import type { ProgramRecord } from '../records.ts';

/** A program that is desired and loaded. */
export interface LoadedProgram {
  readonly program: DesiredProgram;
  readonly record: ProgramRecord;
  /** The version that runs until this one is attached. */
  readonly previous: ProgramRecord | undefined;
  /** The lost contents of its maps, in complete sentences. */
  readonly lost: readonly string[];
}
