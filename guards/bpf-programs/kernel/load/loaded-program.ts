import type { DesiredProgram } from '../desired.ts';
import type { ProgramRecord } from '../records.ts';

/** A desired program that is loaded. */
export interface LoadedProgram {
  readonly program: DesiredProgram;
  readonly record: ProgramRecord;
  /** The version that runs until the new one is attached. */
  readonly previous: ProgramRecord | undefined;
  /** Complete sentences about contents of its maps that were lost. */
  readonly lost: readonly string[];
}
