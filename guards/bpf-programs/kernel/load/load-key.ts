/** Keys of a loaded program's inputs: if the key changes, the program has to be loaded again. */
import { createHash } from 'node:crypto';

import { type Attach, type DesiredProgram, programTypeOf } from '../desired.ts';

/** A key of everything that determines a program in the kernel. A change of priority or attach point needs no new program. */
export function loadKeyOf(program: DesiredProgram): string {
  const { attach, digest, functionName, globals, mapOwner, mapGroup } = program;
  const kernelFunction = kernelFunctionOf(attach) ?? '';
  const parts = [
    ...[programTypeOf(attach), kernelFunction, digest, functionName, valuesOf(globals), mapOwner],
    ...(mapGroup === undefined ? [] : [mapGroup]),
  ];
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex');
}

/** Programs with the same key are loaded together. */
export function unitKeyOf(program: DesiredProgram): string {
  const { id, digest, globals, mapGroup, mapOwner, namespace } = program;
  return mapGroup === undefined
    ? JSON.stringify([id, loadKeyOf(program)])
    : JSON.stringify([mapGroup, namespace, mapOwner, digest, valuesOf(globals)]);
}

function valuesOf(globals: DesiredProgram['globals']): readonly (readonly [string, string])[] {
  return Object.keys(globals)
    .toSorted()
    .map((name) => [name, Buffer.from(globals[name] ?? []).toString('hex')]);
}

export function kernelFunctionOf(attach: Attach): string | undefined {
  if (attach.type === 'nowhere') return attach.kernelFunction;
  return attach.type === 'fentry' || attach.type === 'fexit' ? attach.functionName : undefined;
}

/**
 * Groups of programs that are loaded together. Each group comes after the one whose maps it shares; a cycle is broken at an arbitrary
 * point.
 */
export function loadUnits(
  desired: readonly DesiredProgram[],
  byId: ReadonlyMap<string, DesiredProgram>,
): readonly (readonly DesiredProgram[])[] {
  const units = new Map<string, DesiredProgram[]>();
  for (const program of ownersFirst(desired, byId)) {
    const key = unitKeyOf(program);
    const unit = units.get(key);
    if (unit === undefined) units.set(key, [program]);
    else unit.push(program);
  }
  return [...units.values()];
}

function ownersFirst(
  desired: readonly DesiredProgram[],
  byId: ReadonlyMap<string, DesiredProgram>,
): ReadonlySet<DesiredProgram> {
  const sorted = new Set<DesiredProgram>();
  const visiting = new Set<DesiredProgram>();
  const visit = (program: DesiredProgram): void => {
    if (visiting.has(program)) return;
    visiting.add(program);
    const owner = program.mapOwner === undefined ? undefined : byId.get(program.mapOwner);
    if (owner !== undefined) visit(owner);
    sorted.add(program);
  };
  for (const program of desired) visit(program);
  return sorted;
}
