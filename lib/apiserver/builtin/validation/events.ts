/**
 * Checks of events: little is required in core/v1, but all documented rules apply in events.k8s.io/v1 (kubernetes
 * `pkg/apis/core/validation/events.go`). For both, messages name the fields as in core/v1, like those of the API server.
 */
import { labelKeyProblems } from '../../../kube/selectors/label-names.ts';
import { fieldError, type Cause } from '../../schema/field-error.ts';
import { deepEqual, type JsonObject } from '../../../json/json.ts';
import { numberAt, objectAt, textAt, valueAt } from '../../../json/fields.ts';
import { eventCodec } from '../event-codec.ts';
import { addProblems, immutable } from './checks.ts';

/** @param event in the form of core/v1. */
export function coreEventCauses(event: JsonObject): Cause[] {
  const causes: Cause[] = [];
  const namespace = textAt(event, 'metadata', 'namespace');
  const about = textAt(event, 'involvedObject', 'namespace');
  const mismatch = fieldError.invalid('involvedObject.namespace', about, 'does not match event.namespace');
  if (valueAt(event, 'eventTime') === undefined) {
    const fits = about === '' ? namespace === '' || namespace === 'default' : namespace === about;
    if (!fits) causes.push(mismatch);
    return causes;
  }
  if (about === '' && namespace !== 'default' && namespace !== 'kube-system') causes.push(mismatch);
  checkReporter(event, causes);
  return causes;
}

const limits: readonly (readonly [string, number])[] = [
  ['reportingInstance', 128],
  ['action', 128],
  ['reason', 128],
];

function checkReporter(event: JsonObject, causes: Cause[]): void {
  const controller = textAt(event, 'reportingComponent');
  if (controller === '') causes.push(fieldError.required('reportingController'));
  addProblems(labelKeyProblems(controller), controller, 'reportingController', causes);
  for (const [field, limit] of limits) {
    const text = textAt(event, field);
    if (text === '') causes.push(fieldError.required(field));
    if (Buffer.byteLength(text) > limit) {
      causes.push(fieldError.invalid(field, '', `can have at most ${limit} characters`));
    }
  }
  if (Buffer.byteLength(textAt(event, 'message')) > 1024) {
    causes.push(fieldError.invalid('message', '', 'can have at most 1024 characters'));
  }
}

/** Fields that only an event of core/v1 may have. */
const oldFields: readonly (readonly [string, (event: JsonObject) => boolean])[] = [
  ['firstTimestamp', (event) => valueAt(event, 'firstTimestamp') !== undefined],
  ['lastTimestamp', (event) => valueAt(event, 'lastTimestamp') !== undefined],
  ['count', (event) => (numberAt(event, 'count') ?? 0) !== 0],
  [
    'source',
    (event) => textAt(event, 'source', 'component') !== '' || textAt(event, 'source', 'host') !== '',
  ],
];

const frozen = [
  'involvedObject',
  'reason',
  'message',
  'source',
  'firstTimestamp',
  'lastTimestamp',
  'count',
  'type',
  'eventTime',
  'action',
  'related',
];

/** @param shown in the form of events.k8s.io/v1. */
export function newEventCauses(shown: JsonObject, shownBefore: JsonObject | undefined): Cause[] {
  const event = eventCodec.encode(shown);
  const causes = coreEventCauses(event);
  if (shownBefore !== undefined) {
    const old = eventCodec.encode(shownBefore);
    if (!deepEqual(event['series'], old['series'])) checkSeries(event, causes);
    for (const field of frozen) {
      if (!deepEqual(event[field] ?? null, old[field] ?? null)) {
        causes.push(fieldError.invalid(field, event[field] ?? null, immutable));
      }
    }
    return causes;
  }
  checkSeries(event, causes);
  if (valueAt(event, 'eventTime') === undefined) causes.push(fieldError.required('eventTime'));
  const type = textAt(event, 'type');
  if (type !== 'Normal' && type !== 'Warning') {
    causes.push(fieldError.invalid('type', '', `has invalid value: ${type}`));
  }
  for (const [field, isSet] of oldFields) {
    if (isSet(event)) causes.push(fieldError.invalid(field, '', 'needs to be unset'));
  }
  return causes;
}

function checkSeries(event: JsonObject, causes: Cause[]): void {
  if (valueAt(event, 'series') === undefined) return;
  const series = objectAt(event, 'series');
  if ((numberAt(series, 'count') ?? 0) < 2) {
    causes.push(fieldError.invalid('series.count', '', 'should be at least 2'));
  }
}
