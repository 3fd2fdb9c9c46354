/** The groups apps, batch and policy, v1. */
import type { Resource, Strategy, Subresource } from '../../resources/resource.ts';
import type { JsonObject } from '../../schema/json.ts';
import { numberAt } from '../access.ts';
import { storedColumns } from '../columns/column.ts';
import {
  daemonSetColumns,
  deploymentColumns,
  disruptionBudgetColumns,
  replicaColumns,
  statefulSetColumns,
} from '../columns/workloads.ts';
import {
  defaultCronJob,
  defaultDaemonSet,
  defaultDeployment,
  defaultJob,
  defaultReplicaSet,
  defaultStatefulSet,
} from '../defaults/workloads.ts';
import { kindOf, type KindParts } from '../kind.ts';
import { scale, statusOf } from '../subresources.ts';
import { daemonSetCauses, deploymentCauses, disruptionBudgetCauses } from '../validation/workloads.ts';

interface Workload extends Omit<KindParts, 'namespaced' | 'strategy'> {
  readonly defaults: (object: JsonObject) => void;
  readonly keptMetadata?: Subresource['keptMetadata'];
  /** Of a new object: what Go shows of a status in which nothing is set. */
  readonly status: JsonObject;
  readonly validate?: Strategy['validate'];
}

function workload({ defaults, status, validate, keptMetadata, ...parts }: Workload): Resource {
  const { group, kind, subresources = [] } = parts;
  return kindOf({
    ...parts,
    namespaced: true,
    subresources: [statusOf({ group, kind, keptMetadata }), ...subresources],
    strategy: {
      nameRule: 'dns-subdomain',
      generation: 'all',
      resetFields: ['status'],
      prepareForCreate: (object) => {
        defaults(object);
        object['status'] = { ...status };
      },
      prepareForUpdate: defaults,
      validate,
    },
  });
}

const all = ['all'];

const deployments = workload({
  group: 'apps',
  kind: 'Deployment',
  plural: 'deployments',
  shortNames: ['deploy'],
  categories: all,
  columns: deploymentColumns,
  subresources: [scale],
  defaults: defaultDeployment,
  keptMetadata: ['labels'],
  status: {},
  validate: deploymentCauses,
});

const daemonSets = workload({
  group: 'apps',
  kind: 'DaemonSet',
  plural: 'daemonsets',
  shortNames: ['ds'],
  categories: all,
  columns: daemonSetColumns,
  defaults: defaultDaemonSet,
  status: { currentNumberScheduled: 0, desiredNumberScheduled: 0, numberMisscheduled: 0, numberReady: 0 },
  validate: daemonSetCauses,
});

const replicaSets = workload({
  group: 'apps',
  kind: 'ReplicaSet',
  plural: 'replicasets',
  shortNames: ['rs'],
  categories: all,
  columns: replicaColumns,
  selectableFields: { 'status.replicas': (object) => String(numberAt(object, 'status', 'replicas') ?? 0) },
  subresources: [scale],
  defaults: defaultReplicaSet,
  status: { replicas: 0 },
});

const statefulSets = workload({
  group: 'apps',
  kind: 'StatefulSet',
  plural: 'statefulsets',
  shortNames: ['sts'],
  categories: all,
  columns: statefulSetColumns,
  subresources: [scale],
  defaults: defaultStatefulSet,
  status: { availableReplicas: 0, replicas: 0 },
});

const jobs = workload({
  group: 'batch',
  kind: 'Job',
  plural: 'jobs',
  categories: all,
  columns: storedColumns,
  selectableFields: { 'status.successful': (job) => String(numberAt(job, 'status', 'succeeded') ?? 0) },
  defaults: defaultJob,
  status: {},
});

const cronJobs = workload({
  group: 'batch',
  kind: 'CronJob',
  plural: 'cronjobs',
  shortNames: ['cj'],
  categories: all,
  columns: storedColumns,
  defaults: defaultCronJob,
  status: {},
});

const disruptionBudgets = workload({
  group: 'policy',
  kind: 'PodDisruptionBudget',
  plural: 'poddisruptionbudgets',
  shortNames: ['pdb'],
  columns: disruptionBudgetColumns,
  defaults: () => {},
  status: { currentHealthy: 0, desiredHealthy: 0, disruptionsAllowed: 0, expectedPods: 0 },
  validate: disruptionBudgetCauses,
});

export const workloadKinds: readonly (readonly Resource[])[] = [
  [daemonSets],
  [deployments],
  [replicaSets],
  [statefulSets],
  [cronJobs],
  [jobs],
  [disruptionBudgets],
];
