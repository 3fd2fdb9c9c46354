/** What the controllers of the operator share while it is the leader. */
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

/** All FileIntegrities with this key (`namespace/name`), in both groups. */
export function foundAt({ groups }: ClusterCaches, key: string): Found[] {
  return groups.flatMap((group) => {
    const integrity = group.integrities.get(key);
    return integrity === undefined ? [] : [{ group, integrity }];
  });
}

/** The one that is in effect, if both groups have a FileIntegrity with the same name. */
export function countingOf(found: readonly Found[]): Found | undefined {
  const winner = winnerOf(found.map(({ integrity }) => integrity));
  return found.find(({ integrity }) => integrity === winner);
}

/** Omits `blockOwnerDeletion`: some clusters require a right on finalizers of the owner to set it, and nothing depends on it. */
export function ownerOf({ integrities: type }: IntegrityTypes, { metadata }: FileIntegrity): OwnerReference {
  const { name = '', uid = '' } = metadata;
  return { apiVersion: apiVersionOf(type), kind: type.kind, name, uid, controller: true };
}

/** @param nodeName the node that the event is about: repeated events are folded for each node separately */
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

/** How long to wait for events to reach the API before the write that follows them. */
const EVENTS_MS = 1000;

/**
 * Sends the recorded events to the API. Call it before the write after which no later process would report them again:
 * if this process is killed in between, events are reported twice rather than never. Waits one second at most, in case
 * the API accepts no events.
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
