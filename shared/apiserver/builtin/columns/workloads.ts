/**
 * Columns of the kinds that run pods.
 *
 * @module
 */
import { ageSince } from '../../resources/age.ts';
import type { Column } from '../../resources/resource.ts';
import type { JsonObject } from '../../schema/json.ts';
import { listAt, numberAt, objectAt, objectsAt, textAt, textOf, valueAt } from '../access.ts';
import {
  ageColumn,
  column,
  containerColumns,
  labelsText,
  nameColumn,
  shownSelector,
  since,
} from './column.ts';

const templateSpec = (object: JsonObject): JsonObject => objectAt(object, 'spec', 'template', 'spec');

const selectorColumn: Column = column(
  'Selector',
  'Labels by which the pods are found.',
  (object) => shownSelector(valueAt(object, 'spec', 'selector')),
  { wide: true },
);

function count(name: string, description: string, part: 'spec' | 'status', field: string): Column {
  return column(name, description, (object) => numberAt(object, part, field) ?? 0, { type: 'integer' });
}

const readyOfDesired: Column = column(
  'Ready',
  'How many of the desired pods are ready.',
  (object) =>
    `${numberAt(object, 'status', 'readyReplicas') ?? 0}/${numberAt(object, 'spec', 'replicas') ?? 0}`,
);

export const deploymentColumns: readonly Column[] = [
  nameColumn,
  readyOfDesired,
  count('Up-to-date', 'Pods of the newest template.', 'status', 'updatedReplicas'),
  count('Available', 'Pods that have been ready for long enough.', 'status', 'availableReplicas'),
  ageColumn,
  ...containerColumns(templateSpec),
  selectorColumn,
].map((one) => (one.type === 'integer' ? { ...one, type: 'string' as const } : one));

export const replicaColumns: readonly Column[] = [
  nameColumn,
  count('Desired', 'Pods that there should be.', 'spec', 'replicas'),
  count('Current', 'Number of pods.', 'status', 'replicas'),
  count('Ready', 'Pods that are ready.', 'status', 'readyReplicas'),
  ageColumn,
  ...containerColumns(templateSpec),
  selectorColumn,
];

export const statefulSetColumns: readonly Column[] = [
  nameColumn,
  readyOfDesired,
  ageColumn,
  ...containerColumns(templateSpec),
];

export const daemonSetColumns: readonly Column[] = [
  nameColumn,
  count('Desired', 'Nodes that should run the pod.', 'status', 'desiredNumberScheduled'),
  count('Current', 'Nodes that run at least one pod and should.', 'status', 'currentNumberScheduled'),
  count('Ready', 'Nodes whose pod is ready.', 'status', 'numberReady'),
  count('Up-to-date', 'Nodes whose pod is of the newest template.', 'status', 'updatedNumberScheduled'),
  count('Available', 'Nodes whose pod has been ready for long enough.', 'status', 'numberAvailable'),
  column('Node Selector', 'Labels of the nodes that should run the pod.', (object) =>
    labelsText(objectAt(templateSpec(object), 'nodeSelector')),
  ),
  ageColumn,
  ...containerColumns(templateSpec),
  selectorColumn,
];

function completions(job: JsonObject): string {
  const succeeded = numberAt(job, 'status', 'succeeded') ?? 0;
  const wanted = numberAt(job, 'spec', 'completions');
  if (wanted !== undefined) return `${succeeded}/${wanted}`;
  const parallelism = numberAt(job, 'spec', 'parallelism') ?? 0;
  return parallelism > 1 ? `${succeeded}/1 of ${parallelism}` : `${succeeded}/1`;
}

function duration(job: JsonObject, now: Date): string {
  const start = textAt(job, 'status', 'startTime');
  if (start === '') return '';
  const end = textAt(job, 'status', 'completionTime');
  return ageSince(start, end === '' ? now : new Date(end));
}

/** Conditions of a job, in the order in which they count. */
const jobEnds = ['Complete', 'Failed'];
const jobStates: readonly (readonly [string, string])[] = [
  ['Suspended', 'Suspended'],
  ['FailureTarget', 'FailureTarget'],
];

function jobStatus(job: JsonObject): string {
  const holds = (type: string): boolean =>
    objectsAt(job, 'status', 'conditions').some(
      (condition) => textAt(condition, 'type') === type && textAt(condition, 'status') === 'True',
    );
  const end = jobEnds.find(holds);
  if (end !== undefined) return end;
  if (textAt(job, 'metadata', 'deletionTimestamp') !== '') return 'Terminating';
  return jobStates.find(([type]) => holds(type))?.[1] ?? 'Running';
}

export const jobColumns: readonly Column[] = [
  nameColumn,
  column('Status', 'Whether the job runs, and how it ended.', jobStatus),
  column('Completions', 'Pods that have succeeded, of those that must.', completions),
  column('Duration', 'How long the job has run.', duration),
  ageColumn,
  ...containerColumns(templateSpec),
  selectorColumn,
];

const jobTemplate = (object: JsonObject): JsonObject => objectAt(object, 'spec', 'jobTemplate', 'spec');

export const cronJobColumns: readonly Column[] = [
  nameColumn,
  column('Schedule', 'When jobs are started, as in crontab(5).', (object) =>
    textAt(object, 'spec', 'schedule'),
  ),
  column(
    'Timezone',
    'Time zone of the schedule.',
    (object) => textAt(object, 'spec', 'timeZone') || '<none>',
  ),
  column(
    'Suspend',
    'Whether no jobs are started at present.',
    (object) => {
      const suspend = valueAt(object, 'spec', 'suspend');
      return suspend === undefined ? '<unset>' : suspend === true ? 'True' : 'False';
    },
    { type: 'boolean' },
  ),
  column('Active', 'Jobs that are running.', (object) => listAt(object, 'status', 'active').length, {
    type: 'integer',
  }),
  column('Last Schedule', 'How long ago a job was last started.', (object, now) => {
    const last = textAt(object, 'status', 'lastScheduleTime');
    return last === '' ? '<none>' : since(last, now);
  }),
  ageColumn,
  ...containerColumns((object) => objectAt(jobTemplate(object), 'template', 'spec')),
  column(
    'Selector',
    'Labels by which the pods are found.',
    (object) => shownSelector(jobTemplate(object)['selector']),
    {
      wide: true,
    },
  ),
];

function orNone(value: unknown): string {
  return value === undefined ? 'N/A' : textOf(value);
}

export const disruptionBudgetColumns: readonly Column[] = [
  nameColumn,
  column('Min Available', 'Pods that must stay available.', (object) =>
    orNone(valueAt(object, 'spec', 'minAvailable')),
  ),
  column('Max Unavailable', 'Pods that may be unavailable.', (object) =>
    orNone(valueAt(object, 'spec', 'maxUnavailable')),
  ),
  count('Allowed Disruptions', 'Pods that may be disrupted now.', 'status', 'disruptionsAllowed'),
  ageColumn,
];
