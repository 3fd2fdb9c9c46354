/** Removes obsolete reports. */
import { loopSlice } from '../../../lib/time/loop-slice.ts';
import type { Reports } from '../reports/reports.ts';
import type { FollowedKinds } from './followed-kinds.ts';
import type { ObjectAudit } from './object-audit.ts';
import type { ObjectStates } from './object-states.ts';

/** The parts of a scan's state that determine which reports should exist. */
export interface ScanView {
  readonly store: Reports;
  readonly states: ObjectStates;
  readonly audit: ObjectAudit;
  readonly kinds: FollowedKinds;
  readonly isAudited: (namespace: string) => boolean;
}

/** Removes reports of objects that are gone or that no policy applies to any longer, and reports in the other form. */
export async function collectGarbage(scan: ScanView, signal: AbortSignal): Promise<void> {
  const kinds = [...scan.kinds];
  for (const { namespace, uid, scope } of scan.store.all()) {
    if (loopSlice.over) await loopSlice.next();
    if (!scan.isAudited(namespace)) continue;
    const group = scope.apiVersion.includes('/') ? (scope.apiVersion.split('/')[0] ?? '') : '';
    const followed = kinds.find(({ kind }) => kind.type.group === group && kind.type.kind === scope.kind);
    if (scan.kinds.isUnread(group, scope.kind)) continue;
    const key = namespace === '' ? scope.name : `${namespace}/${scope.name}`;
    const exists = followed?.cache.get(key)?.metadata.uid === uid;
    if (exists && scan.states.get(uid) !== undefined) continue;
    if (exists && followed !== undefined && followed.policies.length > 0) continue;
    await scan.audit.forget(namespace, uid, signal);
  }
  await scan.store.sweep(scan.isAudited, signal);
}
