/** The status that one user sees, made from what was read for all. */
import type { Guard } from '../../guard/guard.ts';
import type { GuardedObject } from '../../guard/guarded.ts';
import type { Asked } from '../status/ask.ts';
import { examine } from '../status/examine.ts';
import type { ReadGuard } from '../status/reader.ts';
import type { StatusReport } from '../status/report.ts';
import { type AccessQuestion, listOf, ofNodes } from './rights.ts';

export type May = (question: AccessQuestion) => Promise<boolean>;

/** @throws what `may` throws */
export async function statusFor({ examined, found }: Asked, may: May): Promise<StatusReport> {
  const seesNodes = (await Promise.all(ofNodes.map(may))).every(Boolean);
  const parts = await Promise.all(found.guards.map((read) => partOf(read, may)));
  if (seesNodes && parts.every(({ isWhole }) => isWhole)) return examined.report;
  const { report } = examine({ ...found, guards: parts.map(({ read }) => read) });
  const why = 'what is about others, or about no namespace, is left out';
  const notRead = [...report.notRead, { resource: 'all that is guarded', why }];
  if (seesNodes) return { ...report, notRead };
  return {
    ...report,
    notRead,
    guards: report.guards.map((guard) => ({ ...guard, on: [], notOn: [], operator: null })),
    nodes: [],
    operator: { state: 'unknown', holder: null, renewedSecondsAgo: null },
  };
}

/** The part of a guard's status that the user may see. Texts of the section are left out: they do not say whose objects they are about. */
async function partOf(
  read: ReadGuard,
  may: May,
): Promise<{ readonly read: ReadGuard; readonly isWhole: boolean }> {
  const { guard, section } = read;
  if (section === undefined) return { read, isWhole: true };
  const { nodes: _nodes, ...ofAll } = section;
  const all = section.objects ?? [];
  // Reviews each place once: there may be thousands of objects in hundreds of namespaces.
  const places = new Map(all.map((object) => [placeOf(object), object]));
  const shown = new Set<string>();
  await Promise.all(
    [...places].map(async ([place, object]) => {
      if (await mayList(guard, object, may)) shown.add(place);
    }),
  );
  const objects = section.objects && all.filter((object) => shown.has(placeOf(object)));
  return {
    read: { ...read, section: { ...ofAll, objects, fields: () => ({}), foot: [] } },
    isWhole: shown.size === places.size,
  };
}

function placeOf({ kind, namespace }: GuardedObject): string {
  return `${kind} ${namespace ?? ''}`;
}

async function mayList(guard: Guard, { kind, namespace }: GuardedObject, may: May): Promise<boolean> {
  const places = namespace === null ? [''] : ['', namespace];
  for (const place of places) {
    const question = listOf(guard, kind, place);
    if (question !== undefined && (await may(question))) return true;
  }
  return false;
}
