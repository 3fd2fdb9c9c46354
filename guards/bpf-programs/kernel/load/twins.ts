/** Programs from one load that are attached in several places: in the kernel they are a single program. */
import { attachPoint } from '../attach-point.ts';
import type { DesiredProgram } from '../desired.ts';
import type { ProgramRecord } from '../records.ts';
import { loadKeyOf } from './load-key.ts';
import type { LoadedProgram } from './loaded-program.ts';

/**
 * A loaded program that can be attached in this place as well. It must not already be attached there: a TCX hook accepts a program only
 * once, and the members of a chain are identified by their programs.
 */
export function twinOf(program: DesiredProgram, loaded: readonly LoadedProgram[]): LoadedProgram | undefined {
  const loadKey = loadKeyOf(program);
  const here = programsAt(program, loaded);
  return loaded.find(({ record }) => record.loadKey === loadKey && !here.has(record.programId));
}

/**
 * Identically loaded programs of the same application whose places are no longer wanted: the new program continues with their maps.
 *
 * @param left - Programs that are no longer wanted.
 */
export function leftBehind(
  program: DesiredProgram,
  left: readonly ProgramRecord[],
  loaded: readonly LoadedProgram[],
): readonly ProgramRecord[] {
  if (program.mapGroup === undefined) return [];
  const loadKey = loadKeyOf(program);
  const here = programsAt(program, loaded);
  // A program that is still attached to the same TCX hook cannot be used: the hook accepts a program only once, and the existing link of
  // this one is removed only after the pass has attached the new programs.
  const isHere = (record: ProgramRecord): boolean =>
    record.type === 'tcx' && record.attachPoint === attachPoint(program.attach) && record.pod === program.pod;
  return left.filter(
    (record) => record.loadKey === loadKey && !here.has(record.programId) && !isHere(record),
  );
}

/** The kernel's IDs of the programs that are loaded for the same place. */
function programsAt(program: DesiredProgram, loaded: readonly LoadedProgram[]): ReadonlySet<number> {
  return new Set(
    loaded.filter((one) => hookKey(one.program) === hookKey(program)).map(({ record }) => record.programId),
  );
}

function hookKey({ attach }: DesiredProgram): string {
  const container = 'hook' in attach ? attach.hook.container : undefined;
  return `${attachPoint(attach)} ${container?.pid ?? ''}`;
}
