/**
 * Checks of jobs and what starts them (kubernetes `pkg/apis/batch/validation/validation.go`).
 *
 * @module
 */
import { labelSelectorOf, labelsMatch } from '../../../kube/selectors.ts';
import { fieldError, type Cause } from '../../schema/field-error.ts';
import { cloneJson, deepEqual, isObject, type JsonObject } from '../../schema/json.ts';
import { numberAt, objectAt, objectsAt, textAt, valueAt } from '../access.ts';
import { ownPodLabels } from '../defaults/workloads.ts';
import { checkImmutable, checkLabels, checkNotNegative, checkSelector, immutable } from './checks.ts';
import { scheduleProblem } from './cron-schedule.ts';
import { checkPodSpec } from './pod-spec.ts';

const counts = [
  'parallelism',
  'completions',
  'activeDeadlineSeconds',
  'backoffLimit',
  'backoffLimitPerIndex',
  'maxFailedIndexes',
  'ttlSecondsAfterFinished',
];

function checkJobSpec(spec: JsonObject, path: string, causes: Cause[]): void {
  checkNotNegative(spec, counts, path, causes);
  checkSelector(objectAt(spec, 'selector'), `${path}.selector`, causes);
  const template = objectAt(spec, 'template');
  checkLabels(objectAt(template, 'metadata', 'labels'), `${path}.template.labels`, causes);
  checkPodSpec(objectAt(template, 'spec'), `${path}.template.spec`, causes);
  const restart = textAt(template, 'spec', 'restartPolicy');
  if (restart === 'Always') {
    const words = 'valid values: "OnFailure", "Never"';
    causes.push(fieldError.required(`${path}.template.spec.restartPolicy`, words));
  }
  const hasPolicy = valueAt(spec, 'podFailurePolicy') !== undefined;
  if (hasPolicy && restart !== '' && restart !== 'Never') {
    const words = 'only "Never" is supported when podFailurePolicy is specified';
    causes.push(fieldError.invalid(`${path}.template.spec.restartPolicy`, restart, words));
  }
  if (textAt(spec, 'completionMode') === 'Indexed' && valueAt(spec, 'completions') === undefined) {
    const words = 'when completion mode is Indexed';
    causes.push(fieldError.required(`${path}.completions`, words));
  }
  for (const [index, rule] of objectsAt(spec, 'podFailurePolicy', 'rules').entries()) {
    const at = `${path}.podFailurePolicy.rules[${index}]`;
    const given = ['onExitCodes', 'onPodConditions'].filter((field) => valueAt(rule, field) !== undefined);
    if (given.length === 0) {
      const words = 'specifying one of OnExitCodes and OnPodConditions is required';
      causes.push(fieldError.invalid(at, rule, words));
    } else if (given.length > 1) {
      const words = 'specifying both OnExitCodes and OnPodConditions is not supported';
      causes.push(fieldError.invalid(at, rule, words));
    }
  }
}

export function jobCauses(job: JsonObject, old: JsonObject | undefined): Cause[] {
  const causes: Cause[] = [];
  checkOwnPods(job, old, causes);
  checkJobSpec(objectAt(job, 'spec'), 'spec', causes);
  checkSelected(objectAt(job, 'spec'), causes);
  if (old !== undefined) checkJobUpdate(job, old, causes);
  return causes;
}

/** The pods are known by labels of this job and no other, unless it is said that the selector is made by hand. */
function checkOwnPods(job: JsonObject, old: JsonObject | undefined, causes: Cause[]): void {
  const spec = objectAt(job, 'spec');
  if (valueAt(spec, 'manualSelector') === true || valueAt(spec, 'selector') === undefined) return;
  const path = 'spec.template.metadata.labels';
  const [labels, before] = [spec, objectAt(old, 'spec')].map((one) =>
    objectAt(one, 'template', 'metadata', 'labels'),
  );
  // Jobs of before Kubernetes 1.27 have only the names without a prefix.
  const expected = Object.entries(ownPodLabels(job)).filter(
    ([name]) => old === undefined || !name.includes('/') || Object.hasOwn(before ?? {}, name),
  );
  for (const [name, value] of expected) {
    const found = valueAt(labels, name);
    const words = `must be '${String(value)}'`;
    if (found === undefined) causes.push(fieldError.required(`${path}[${name}]`, words));
    else if (found !== value) causes.push(fieldError.invalid(`${path}[${name}]`, labels, words));
  }
  if (isSelected(spec, Object.fromEntries(expected)) === false) {
    causes.push(fieldError.invalid('spec.selector', spec['selector'], '`selector` not auto-generated'));
  }
}

function checkSelected(spec: JsonObject, causes: Cause[]): void {
  if (valueAt(spec, 'selector') === undefined) causes.push(fieldError.required('spec.selector'));
  const labels = objectAt(spec, 'template', 'metadata', 'labels');
  if (isSelected(spec, labels) === false) {
    const words = '`selector` does not match template `labels`';
    causes.push(fieldError.invalid('spec.template.metadata.labels', labels, words));
  }
}

/** Whether pods with these labels are selected; undefined for a selector that is none, which is told elsewhere. */
function isSelected(spec: JsonObject, labels: JsonObject): boolean | undefined {
  const selector = valueAt(spec, 'selector');
  if (!isObject(selector)) return undefined;
  try {
    return labelsMatch(labelSelectorOf(selector), labels as Record<string, string>);
  } catch {
    return undefined;
  }
}

function checkJobUpdate(job: JsonObject, old: JsonObject, causes: Cause[]): void {
  const [spec, before] = [objectAt(job, 'spec'), objectAt(old, 'spec')];
  // An indexed job grows and shrinks when both numbers do so together.
  const elastic =
    textAt(before, 'completionMode') === 'Indexed' &&
    numberAt(spec, 'completions') === numberAt(spec, 'parallelism');
  if (!elastic) checkImmutable(job, old, ['spec', 'completions'], causes);
  for (const field of [
    'selector',
    'completionMode',
    'podFailurePolicy',
    'backoffLimitPerIndex',
    'successPolicy',
  ]) {
    checkImmutable(job, old, ['spec', field], causes);
  }
  const free =
    valueAt(before, 'suspend') === true && textAt(old, 'status', 'startTime') === '' ? movable : [];
  const [now, then] = [spec, before].map((one) => templateWithout(objectAt(one, 'template'), free));
  if (!deepEqual(now, then)) {
    causes.push(fieldError.invalid('spec.template', spec['template'] ?? null, immutable));
  }
}

/** Where the pods of a job that waits may run can still be changed (KEP-2926). */
const movable = ['nodeSelector', 'affinity', 'tolerations', 'schedulingGates'];

function templateWithout(template: JsonObject, fields: readonly string[]): JsonObject {
  const copy = cloneJson(template) as JsonObject;
  if (fields.length === 0) return copy;
  for (const field of fields) delete objectAt(copy, 'spec')[field];
  for (const field of ['labels', 'annotations']) delete objectAt(copy, 'metadata')[field];
  return copy;
}

/** The name of a job is that of its CronJob with 11 characters more. */
const maxNameLength = 52;

export function cronJobCauses(object: JsonObject, old: JsonObject | undefined): Cause[] {
  const causes: Cause[] = [];
  const spec = objectAt(object, 'spec');
  const name = textAt(object, 'metadata', 'name');
  if (old === undefined && name.length > maxNameLength) {
    const words = `must be no more than ${maxNameLength} characters`;
    causes.push(fieldError.invalid('metadata.name', name, words));
  }
  checkSchedule(spec, textAt(old, 'spec', 'schedule'), causes);
  checkTimeZone(valueAt(spec, 'timeZone'), causes);
  const limits = ['startingDeadlineSeconds', 'successfulJobsHistoryLimit', 'failedJobsHistoryLimit'];
  checkNotNegative(spec, limits, 'spec', causes);
  const path = 'spec.jobTemplate.spec';
  const jobSpec = objectAt(spec, 'jobTemplate', 'spec');
  checkJobSpec(jobSpec, path, causes);
  if (valueAt(jobSpec, 'manualSelector') === true) {
    causes.push(fieldError.notSupported(`${path}.manualSelector`, true, ['nil', 'false']));
  }
  return causes;
}

function checkSchedule(spec: JsonObject, before: string, causes: Cause[]): void {
  const path = 'spec.schedule';
  const schedule = valueAt(spec, 'schedule');
  if (schedule === '') causes.push(fieldError.required(path));
  if (typeof schedule !== 'string' || schedule === '') return;
  const zone = /^(?:CRON_)?TZ=/.test(schedule);
  if (zone) {
    if (schedule === before) return;
    const words = 'cannot use TZ or CRON_TZ in schedule, use timeZone field instead';
    causes.push(fieldError.invalid(path, schedule, words));
    return;
  }
  const problem = scheduleProblem(schedule);
  if (problem !== undefined) causes.push(fieldError.invalid(path, schedule, problem));
}

function checkTimeZone(zone: unknown, causes: Cause[]): void {
  if (typeof zone !== 'string') return;
  const path = 'spec.timeZone';
  if (zone === '') causes.push(fieldError.invalid(path, zone, 'timeZone must be nil or non-empty string'));
  else if (zone.toLowerCase() === 'local') {
    causes.push(
      fieldError.invalid(
        path,
        zone,
        'timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones',
      ),
    );
  } else if (!isTimeZone(zone)) {
    causes.push(fieldError.invalid(path, zone, `unknown time zone ${zone}`));
  }
}

function isTimeZone(zone: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: zone });
    return true;
  } catch {
    return false;
  }
}
