/** Shared by the controllers of the operator while it leads. */
import type { ClusterContext as PartContext } from '../../../guard/context.ts';
import type { Clock } from '../../../lib/time/clock.ts';
import type { ControllerContext } from '../../../lib/kube/controller/controller.ts';
import { referenceTo } from '../../../lib/kube/events/event-object.ts';
import type { EventRecorder } from '../../../lib/kube/events/event-recorder.ts';
import { apiVersionOf, type OwnerReference } from '../../../lib/kube/object/object.ts';
import type { FileIntegrity, IntegrityTypes } from '../api.ts';
import { winnerOf } from '../results/same-name.ts';
import type { ClusterCaches, GroupCaches } from './caches.ts';
import type { ClusterMetrics } from './metrics.ts';
import type { Note } from './taken-result.ts';

/** The ServiceAccount that agents run as. */
export interface AgentAccount {
  readonly namespace: string;
  readonly serviceAccount: string;
}

export interface ClusterContext extends ControllerContext {
  readonly caches: ClusterCaches;
  readonly recorder: Pick<EventRecorder, 'record' | 'flush'>;
  readonly reports: PartContext['reports'];
  readonly agents: AgentAccount;
  readonly counts: ClusterMetrics;
  readonly clock: Clock;
}

export interface Found {
  readonly group: GroupCaches;
  readonly integrity: FileIntegrity;
}

/** All FileIntegrities of this name, in both groups. */
export function foundAt({ groups }: ClusterCaches, key: string): Found[] {
  return groups.flatMap((group) => {
    const integrity = group.integrities.get(key);
    return integrity === undefined ? [] : [{ group, integrity }];
  });
}

/** The one that counts. */
export function countingOf(found: readonly Found[]): Found | undefined {
  const winner = winnerOf(found.map(({ integrity }) => integrity));
  return found.find(({ integrity }) => integrity === winner);
}

/** Without `blockOwnerDeletion`: to set it takes a right on finalizers of the owner on some clusters, and nothing waits for it. */
export function ownerOf({ integrities: type }: IntegrityTypes, { metadata }: FileIntegrity): OwnerReference {
  const { name = '', uid = '' } = metadata;
  return { apiVersion: apiVersionOf(type), kind: type.kind, name, uid, controller: true };
}

/** @param nodeName the node that it is about: events of one node are folded, and those of all the others are not */
export function notify(
  { recorder }: Pick<ClusterContext, 'recorder'>,
  { group, integrity }: Found,
  note: Note,
  action: string,
  nodeName?: string,
): void {
  recorder.record({
    regarding: referenceTo(group.types.integrities, integrity),
    ...(nodeName !== undefined && { related: { apiVersion: 'v1', kind: 'Node', name: nodeName } }),
    action,
    ...note,
  });
}

/** How long events may take to reach the API before their record is written. */
const EVENTS_MS = 1000;

/**
 * Brings reported events to the API before the write that prevents the next process from reporting them: if
 * it is killed in between, they are reported twice rather than never. An API that accepts no events does not
 * delay this any longer.
 *
 * @throws the signal's reason when it aborts.
 */
export async function flushReported(
  { recorder }: Pick<ClusterContext, 'recorder'>,
  signal: AbortSignal,
): Promise<void> {
  const soon = AbortSignal.any([signal, AbortSignal.timeout(EVENTS_MS)]);
  await recorder.flush(soon).catch(() => undefined);
  signal.throwIfAborted();
}

export const fieldManager = 'rampart-file-integrity';
