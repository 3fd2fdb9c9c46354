/** Events, which two groups serve from one store, in the form of core/v1. */
import type { Resource } from '../../resources/resource.ts';
import type { JsonObject } from '../../../json/json.ts';
import { textAt } from '../../../json/fields.ts';
import { eventColumns } from '../columns/cluster.ts';
import { eventCodec } from '../event-codec.ts';
import { kindOf } from '../kind.ts';
import { coreEventCauses, newEventCauses } from '../validation/events.ts';

/** Adds time fields, which Go writes as null if they are not set, because they are not pointers. */
function withTimes(...fields: readonly string[]) {
  return (event: JsonObject): void => {
    for (const field of fields) event[field] ??= null;
  };
}

const objectFields = ['kind', 'namespace', 'name', 'uid', 'apiVersion', 'resourceVersion', 'fieldPath'];

const text =
  (...path: readonly string[]) =>
  (event: JsonObject): string =>
    textAt(event, ...path);

/** Selectable fields of the object that an event is about; `name` is the group's name for the reference to it. */
function fieldsOf(name: string): Readonly<Record<string, (event: JsonObject) => string>> {
  return Object.fromEntries(objectFields.map((field) => [`${name}.${field}`, text(name, field)]));
}

/** Who reported an event, for the field selector `source` in both groups (kubernetes `pkg/registry/core/event/strategy.go`). */
function source(component: (event: JsonObject) => string, controller: (event: JsonObject) => string) {
  return (event: JsonObject): string => component(event) || controller(event);
}

const coreEvent = kindOf('', 'Event', {
  shortNames: ['ev'],
  columns: eventColumns,
  selectableFields: {
    ...fieldsOf('involvedObject'),
    reason: text('reason'),
    reportingComponent: text('reportingComponent'),
    source: source(text('source', 'component'), text('reportingComponent')),
    type: text('type'),
  },
  defaults: withTimes('eventTime', 'firstTimestamp', 'lastTimestamp'),
  strategy: { allowCreateOnUpdate: true, validate: coreEventCauses },
});

const newEvent = kindOf('events.k8s.io', 'Event', {
  shortNames: ['ev'],
  columns: eventColumns.map((column) => ({
    ...column,
    cell: (event: JsonObject, now: Date) => column.cell(eventCodec.encode(event), now),
  })),
  selectableFields: {
    ...fieldsOf('regarding'),
    reason: text('reason'),
    reportingController: text('reportingController'),
    source: source(text('deprecatedSource', 'component'), text('reportingController')),
    type: text('type'),
  },
  defaults: withTimes('eventTime', 'deprecatedFirstTimestamp', 'deprecatedLastTimestamp'),
  strategy: { allowCreateOnUpdate: true, validate: newEventCauses },
  stored: { name: 'events', apiVersion: 'v1', codec: eventCodec },
});

/** One set of resources, because both groups serve the same objects. */
export const coreEvents: readonly Resource[] = [coreEvent, newEvent];
