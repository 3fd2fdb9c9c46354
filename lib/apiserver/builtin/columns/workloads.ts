import type { Column } from '../../resources/resource.ts';
import type { JsonObject } from '../../../json/json.ts';
import { numberAt, objectAt, textOf, valueAt } from '../../../json/fields.ts';
import { ageColumn, column, containerColumns, labelsText, nameColumn, shownSelector } from './column.ts';

const templateSpec = (object: JsonObject): JsonObject => objectAt(object, 'spec', 'template', 'spec');

const selectorColumn: Column = column(
  'Selector',
  'Labels that select the pods.',
  (object) => shownSelector(valueAt(object, 'spec', 'selector')),
  { wide: true },
);

function count(name: string, description: string, part: 'spec' | 'status', field: string): Column {
  return column(name, description, (object) => numberAt(object, part, field) ?? 0, { type: 'integer' });
}

const readyOfDesired: Column = column(
  'Ready',
  'Number of ready pods and of desired pods.',
  (object) =>
    `${numberAt(object, 'status', 'readyReplicas') ?? 0}/${numberAt(object, 'spec', 'replicas') ?? 0}`,
);

export const deploymentColumns: readonly Column[] = [
  nameColumn,
  readyOfDesired,
  count('Up-to-date', 'Pods that match the latest template.', 'status', 'updatedReplicas'),
  count('Available', 'Pods that have been ready for long enough.', 'status', 'availableReplicas'),
  ageColumn,
  ...containerColumns(templateSpec),
  selectorColumn,
].map((one) => (one.type === 'integer' ? { ...one, type: 'string' as const } : one));

export const replicaColumns: readonly Column[] = [
  nameColumn,
  count('Desired', 'Number of desired pods.', 'spec', 'replicas'),
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
  count('Current', 'Nodes that should run the pod and do.', 'status', 'currentNumberScheduled'),
  count('Ready', 'Nodes whose pod is ready.', 'status', 'numberReady'),
  count('Up-to-date', 'Nodes whose pod matches the latest template.', 'status', 'updatedNumberScheduled'),
  count('Available', 'Nodes whose pod has been ready for long enough.', 'status', 'numberAvailable'),
  column('Node Selector', 'Labels of the nodes that should run the pod.', (object) =>
    labelsText(objectAt(templateSpec(object), 'nodeSelector')),
  ),
  ageColumn,
  ...containerColumns(templateSpec),
  selectorColumn,
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
  count('Allowed Disruptions', 'Pods that may currently be disrupted.', 'status', 'disruptionsAllowed'),
  ageColumn,
];
