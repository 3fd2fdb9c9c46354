/**
 * What the policies decide about a packet that the kernel has reported: only the policies of one pod are
 * evaluated, and only the two ends of the packet are considered.
 */
import { RampartError } from '../../../lib/errors/errors.ts';
import type { PodObject, PolicyObject } from '../engine/objects.ts';
import type { Direction, PodKey, PolicyKey } from '../engine/rules.ts';
import { type Decision, judge } from '../judge/judge.ts';
import type { Packet } from '../judge/packet.ts';
import type { FollowedObjects } from './followed-objects.ts';

export type DecidingObjects = Pick<FollowedObjects, 'namespaces' | 'pods' | 'policies'>;

interface DecidedPacket {
  readonly direction: Direction;
  /** Policies that isolate the pod in this direction. */
  readonly isolating: readonly PolicyKey[];
  /** Source and destination of the packet; undefined for an end that is not a pod. */
  readonly pods: readonly (PodKey | undefined)[];
  readonly packet: Packet;
}

/** The decision is undefined if the packet has an impossible address: it is forged. */
export function packetDecision(
  objects: DecidingObjects,
  { direction, isolating, pods, packet }: DecidedPacket,
): { readonly decision: Decision | undefined; readonly policies: readonly PolicyObject[] } {
  const policies = isolating.flatMap((key) => (objects.policies.get(key) as PolicyObject | undefined) ?? []);
  const involved = pods.flatMap(
    (key) => ((key === undefined ? undefined : objects.pods.get(key)) as PodObject | undefined) ?? [],
  );
  const namespaces = involved.flatMap(
    ({ metadata }) => objects.namespaces.get(metadata.namespace ?? '') ?? [],
  );
  try {
    return { decision: judge(policies, involved, namespaces, packet)[direction], policies };
  } catch (error) {
    if (error instanceof RampartError) return { decision: undefined, policies };
    throw error;
  }
}
