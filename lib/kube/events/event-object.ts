/** Event objects of events.k8s.io/v1, within the limits that the API server holds them to. */
import { visibleText } from '../../output/printable.ts';
import { randomBytes } from 'node:crypto';

import type { EventsV1Event, EventsV1EventSeries, V1ObjectReference } from '@kubernetes/client-node';

import { apiMicroTime } from '../object/api-time.ts';
import {
  apiVersionOf,
  type KubeKind,
  type KubeObject,
  namespacedKind,
  type ResourceType,
  type Wire,
} from '../object/object.ts';

export type ObjectReference = Wire<V1ObjectReference>;
export type KubeEvent = KubeKind<EventsV1Event>;
type EventSeries = Wire<EventsV1EventSeries>;

export const events = namespacedKind<KubeEvent>('events.k8s.io', 'events', 'Event');

export interface EventRecord {
  /** The object that it is about. */
  readonly regarding: ObjectReference;
  /** A second object that is involved. */
  readonly related?: ObjectReference;
  /** Default: `Normal`. */
  readonly type?: 'Normal' | 'Warning';
  /** Why, for programs: `TrapMatched`. 1 to 128 bytes. */
  readonly reason: string;
  /** The action that was done or tried, for programs: `Watching`. 1 to 128 bytes. */
  readonly action: string;
  /** For people. Cut after 1024 bytes. */
  readonly note: string;
}

/** The object that an event is about. */
export function referenceTo(type: ResourceType, { metadata }: KubeObject): ObjectReference {
  const { namespace, name, uid, resourceVersion } = metadata;
  return {
    apiVersion: apiVersionOf(type),
    kind: type.kind,
    ...(namespace !== undefined && { namespace }),
    ...(name !== undefined && { name }),
    ...(uid !== undefined && { uid }),
    ...(resourceVersion !== undefined && { resourceVersion }),
  };
}

/** How often something happened, and when. Times by the wall clock. */
interface Occurrences {
  readonly count: number;
  readonly firstWallMs: number;
  readonly lastWallMs: number;
}

export interface EventReporter {
  /** A qualified name such as `rampart.dev/agent`. */
  readonly controller: string;
  /** Which instance of the controller: the name of its pod or node. At most 128 bytes. */
  readonly instance: string;
}

/** Where an event is stored. Events about cluster-scoped objects are in `default`, where the API wants them. */
export interface EventPlace {
  readonly namespace: string;
  readonly name: string;
}

export function newEventPlace({ namespace = 'default', name = '' }: ObjectReference): EventPlace {
  return { namespace, name: eventName(name) };
}

export function eventObject(
  { namespace, name }: EventPlace,
  record: EventRecord,
  occurrences: Occurrences,
  { controller, instance }: EventReporter,
): KubeEvent {
  const { regarding, related, type = 'Normal', reason, action, note } = record;
  return {
    metadata: { namespace, name },
    eventTime: apiMicroTime(occurrences.firstWallMs),
    ...(occurrences.count > 1 && { series: seriesOf(occurrences) }),
    reportingController: controller,
    reportingInstance: instance,
    type,
    reason,
    action,
    note,
    regarding,
    ...(related && { related }),
  };
}

/** A series has a count of at least 2. */
export function seriesOf({ count, lastWallMs }: Occurrences): EventSeries {
  return { count, lastObservedTime: apiMicroTime(lastWallMs) };
}

/** Limit for notes of events.k8s.io/v1 (kubernetes, pkg/apis/core/validation/events.go). */
const NOTE_BYTES = 1024;

/** A note within the limit of bytes, cut between characters. */
export function cutNote(given: string): string {
  // A note may contain names of files and arguments of processes.
  const note = visibleText(given);
  if (note.length * 3 <= NOTE_BYTES || Buffer.byteLength(note) <= NOTE_BYTES) return note;
  const bytes = Buffer.from(note);
  const ellipsis = '…';
  let end = NOTE_BYTES - Buffer.byteLength(ellipsis);
  // A byte 10xxxxxx continues a character (RFC 3629).
  while (((bytes[end] ?? 0) & 0b1100_0000) === 0b1000_0000) end--;
  return `${bytes.toString('utf8', 0, end)}${ellipsis}`;
}

/** As client-go: the object's name and a number. A DNS subdomain, so that the API accepts it whatever the object's name is. */
function eventName(name: string): string {
  const safe = name.toLowerCase().replaceAll(/[^a-z0-9.-]/g, '-');
  const start = safe.replace(/^[^a-z0-9]+/, '').slice(0, 200);
  // Each part between dots begins and ends with a letter or a digit.
  const parts = start.split('.').map((part) => part.replaceAll(/^-+|-+$/g, ''));
  return [...parts.filter((part) => part !== ''), randomBytes(8).toString('hex')].join('.');
}
