/** Events, which two groups show: one store, core/v1's form in it. */
import type { Resource, Strategy } from '../../resources/resource.ts';
import type { JsonObject } from '../../schema/json.ts';
import { textAt } from '../access.ts';
import { eventColumns } from '../columns/cluster.ts';
import { eventCodec } from '../event-codec.ts';
import { kindOf } from '../kind.ts';
import { coreEventCauses, newEventCauses } from '../validation/events.ts';

const strategy: Strategy = {
  nameRule: 'dns-subdomain',
  generation: 'none',
  resetFields: [],
  allowCreateOnUpdate: true,
};

/** Go writes these as null where they are not set: they are no pointers. */
function withTimes(...fields: readonly string[]): Pick<Strategy, 'prepareForCreate' | 'prepareForUpdate'> {
  const prepare = (event: JsonObject): void => {
    for (const field of fields) event[field] ??= null;
  };
  return { prepareForCreate: prepare, prepareForUpdate: prepare };
}

const objectFields = ['kind', 'namespace', 'name', 'uid', 'apiVersion', 'resourceVersion', 'fieldPath'];

const text =
  (...path: readonly string[]) =>
  (event: JsonObject): string =>
    textAt(event, ...path);

/** Of the object that an event is about; `name` is what the group calls it. */
function fieldsOf(name: string): Readonly<Record<string, (event: JsonObject) => string>> {
  return Object.fromEntries(objectFields.map((field) => [`${name}.${field}`, text(name, field)]));
}

/** Who has reported it: what `source` selects by, in both groups (kubernetes `pkg/registry/core/event/strategy.go`). */
function source(component: (event: JsonObject) => string, controller: (event: JsonObject) => string) {
  return (event: JsonObject): string => component(event) || controller(event);
}

const coreEvent = kindOf({
  group: '',
  kind: 'Event',
  plural: 'events',
  shortNames: ['ev'],
  namespaced: true,
  columns: eventColumns,
  selectableFields: {
    ...fieldsOf('involvedObject'),
    reason: text('reason'),
    reportingComponent: text('reportingComponent'),
    source: source(text('source', 'component'), text('reportingComponent')),
    type: text('type'),
  },
  strategy: {
    ...strategy,
    ...withTimes('eventTime', 'firstTimestamp', 'lastTimestamp'),
    validate: coreEventCauses,
  },
});

const newEvent = kindOf({
  group: 'events.k8s.io',
  kind: 'Event',
  plural: 'events',
  shortNames: ['ev'],
  namespaced: true,
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
  strategy: {
    ...strategy,
    ...withTimes('eventTime', 'deprecatedFirstTimestamp', 'deprecatedLastTimestamp'),
    validate: newEventCauses,
  },
  stored: { name: 'events', apiVersion: 'v1', codec: eventCodec },
});

/** One set: both are of the same objects. */
export const coreEvents: readonly Resource[] = [coreEvent, newEvent];
