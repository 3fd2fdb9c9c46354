/**
 * Containers of a pod share its network: a program that is requested for several of them runs only once, or it would count each packet
 * several times. If the container that it was loaded for disappears and the pod stays, the program continues for another container.
 */
import { statSync } from 'node:fs';

import type { DesiredProgram } from './desired.ts';
import { loadKeyOf } from './load/load-key.ts';
import type { Programs } from './load/programs.ts';
import type { ChainRecord, ProgramRecord } from './records.ts';

export interface OncePerPod {
  /** The programs to run. */
  readonly once: readonly DesiredProgram[];
  /** For each other program, by its id: the id of the one that runs in its place. */
  readonly others: ReadonlyMap<string, string>;
}

/**
 * Chooses one program per pod. Its only effect is on the records of `programs`: a loaded program may be handed over to another id.
 *
 * @param held - Ids of programs that stay, although they are not desired.
 */
export function oncePerPod(
  desired: readonly DesiredProgram[],
  held: ReadonlySet<string>,
  programs: Programs,
  chains: ReadonlyMap<string, ChainRecord>,
): OncePerPod {
  const groups = new Map<string, DesiredProgram[]>();
  const single: DesiredProgram[] = [];
  for (const program of desired) {
    const key = groupOf(program);
    if (key === undefined) single.push(program);
    else groups.set(key, [...(groups.get(key) ?? []), program]);
  }
  const others = new Map<string, string>();
  const wanted = held.union(new Set(desired.map(({ id }) => id)));
  const first = [...groups.values()].flatMap((group) => {
    const chosen =
      group.find(({ id }) => programs.known.has(id)) ?? group.toSorted((a, b) => (a.id < b.id ? -1 : 1))[0];
    if (chosen === undefined) return [];
    for (const { id } of group) if (id !== chosen.id) others.set(id, chosen.id);
    if (!programs.known.has(chosen.id)) {
      const candidates = [...programs.known.values()].filter(
        (record) => !wanted.has(record.id) && isSuccessor(chosen, record, chains),
      );
      // Prefer a record of the same version: another version would keep running until this one is attached.
      const left = candidates.find(({ loadKey }) => loadKey === loadKeyOf(chosen)) ?? candidates[0];
      if (left !== undefined) programs.handOver(left, chosen.id);
    }
    return [chosen];
  });
  const once = [...single, ...first].map((program) => {
    const owner = program.mapOwner === undefined ? undefined : others.get(program.mapOwner);
    return owner === undefined ? program : { ...program, mapOwner: owner };
  });
  return { once, others };
}

/** Equal for programs that are the same in one network namespace; undefined for programs that are not attached to a pod's network. */
function groupOf(program: DesiredProgram): string | undefined {
  const inode = podInode(program);
  if (inode === undefined) return undefined;
  const { attach, owner, name, namespace } = program;
  const { hook, ...how } = attach as typeof attach & { readonly hook: { readonly interface: string } };
  return JSON.stringify([inode, hook.interface, how, owner, name, namespace, loadKeyOf(program)]);
}

function podInode({ attach }: DesiredProgram): string | undefined {
  if (attach.type !== 'xdp' && attach.type !== 'tc' && attach.type !== 'tcx') return undefined;
  if (attach.hook.container === undefined) return undefined;
  try {
    return String(statSync(`/proc/${attach.hook.container.pid}/ns/net`, { bigint: true }).ino);
  } catch {
    // The container is gone; attaching reports that.
    return undefined;
  }
}

function isSuccessor(
  program: DesiredProgram,
  record: ProgramRecord,
  chains: ReadonlyMap<string, ChainRecord>,
): boolean {
  const inode = podInode(program);
  if (
    record.owner !== program.owner ||
    record.name !== program.name ||
    record.functionName !== program.functionName
  )
    return false;
  if (record.type === 'tcx') return record.attachKey.endsWith(` ${inode}`);
  const { attach } = program;
  if (attach.type !== 'xdp' && attach.type !== 'tc') return false;
  return [...chains.values()].some(
    ({ namespaceInode, interface: name, members }) =>
      namespaceInode === inode &&
      name === attach.hook.interface &&
      members.some(({ programId }) => programId === record.programId),
  );
}
