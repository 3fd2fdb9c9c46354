/**
 * Reports that nothing stands behind any more.
 *
 * @module
 */
import { loopSlice } from '../../../shared/time/loop-slice.ts';
import type { Reports } from '../reports/report-store.ts';
import type { FollowedKind } from './followed-kind.ts';
import type { ObjectAudit } from './object-audit.ts';
import type { ObjectStates } from './object-states.ts';

/** What of a scan says which reports are to be there. */
export interface ScanView {
  readonly store: Reports;
  readonly states: ObjectStates;
  readonly audit: ObjectAudit;
  readonly kinds: Iterable<FollowedKind>;
  readonly isAudited: (namespace: string) => boolean;
}

/** Removes reports of objects that are gone, or that no policy is about any more. */
export async function collectGarbage(scan: ScanView, signal: AbortSignal): Promise<void> {
  for (const { metadata, facts } of [...scan.store.all()]) {
    const { name: uid = '', namespace = '' } = metadata;
    // Others may manage reports under our label: ours are called after their objects.
    if (facts.scope?.uid !== uid || !scan.isAudited(namespace)) continue;
    const group = facts.scope.apiVersion.includes('/') ? (facts.scope.apiVersion.split('/')[0] ?? '') : '';
    const followed = [...scan.kinds].find(
      ({ kind }) => kind.type.group === group && kind.type.kind === facts.scope?.kind,
    );
    if (followed?.cache.isSynced === false) continue;
    const key = namespace === '' ? facts.scope.name : `${namespace}/${facts.scope.name}`;
    const isThere = followed?.cache.get(key)?.metadata.uid === uid;
    if (isThere && scan.states.get(uid) !== undefined) continue;
    if (isThere && followed !== undefined && followed.policies.length > 0) continue;
    await scan.audit.forget(namespace, uid, signal);
    if (loopSlice.over) await loopSlice.next();
  }
}
