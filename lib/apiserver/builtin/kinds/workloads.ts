/** v1 of the groups apps, batch and policy. */
import type { Resource, Strategy } from '../../resources/resource.ts';
import { numberAt } from '../../../json/fields.ts';
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
import { kindOf } from '../kind.ts';
import { scale, statusOf } from '../subresources.ts';
import { daemonSetCauses, deploymentCauses, disruptionBudgetCauses } from '../validation/workloads.ts';

const apps = 'apps';
const batch = 'batch';
const policy = 'policy';
const counted: Partial<Strategy> = { generation: 'all' };
const all = ['all'];

export const workloadKinds: readonly Resource[] = [
  kindOf(apps, 'DaemonSet', {
    shortNames: ['ds'],
    categories: all,
    columns: daemonSetColumns,
    defaults: defaultDaemonSet,
    subresources: [statusOf({ group: apps, kind: 'DaemonSet' })],
    newStatus: {
      currentNumberScheduled: 0,
      desiredNumberScheduled: 0,
      numberMisscheduled: 0,
      numberReady: 0,
    },
    strategy: { ...counted, validate: daemonSetCauses },
  }),
  kindOf(apps, 'Deployment', {
    shortNames: ['deploy'],
    categories: all,
    columns: deploymentColumns,
    subresources: [statusOf({ group: apps, kind: 'Deployment', keptMetadata: ['labels'] }), scale],
    defaults: defaultDeployment,
    newStatus: {},
    strategy: { ...counted, validate: deploymentCauses },
  }),
  kindOf(apps, 'ReplicaSet', {
    shortNames: ['rs'],
    categories: all,
    columns: replicaColumns,
    selectableFields: { 'status.replicas': (object) => String(numberAt(object, 'status', 'replicas') ?? 0) },
    subresources: [statusOf({ group: apps, kind: 'ReplicaSet' }), scale],
    defaults: defaultReplicaSet,
    newStatus: { replicas: 0 },
    strategy: counted,
  }),
  kindOf(apps, 'StatefulSet', {
    shortNames: ['sts'],
    categories: all,
    columns: statefulSetColumns,
    subresources: [statusOf({ group: apps, kind: 'StatefulSet' }), scale],
    defaults: defaultStatefulSet,
    newStatus: { availableReplicas: 0, replicas: 0 },
    strategy: counted,
  }),
  kindOf(batch, 'CronJob', {
    shortNames: ['cj'],
    categories: all,
    columns: storedColumns,
    defaults: defaultCronJob,
    subresources: [statusOf({ group: batch, kind: 'CronJob' })],
    newStatus: {},
    strategy: counted,
  }),
  kindOf(batch, 'Job', {
    categories: all,
    columns: storedColumns,
    selectableFields: { 'status.successful': (job) => String(numberAt(job, 'status', 'succeeded') ?? 0) },
    defaults: defaultJob,
    subresources: [statusOf({ group: batch, kind: 'Job' })],
    newStatus: {},
    strategy: counted,
  }),
  kindOf(policy, 'PodDisruptionBudget', {
    shortNames: ['pdb'],
    columns: disruptionBudgetColumns,
    subresources: [statusOf({ group: policy, kind: 'PodDisruptionBudget' })],
    newStatus: { currentHealthy: 0, desiredHealthy: 0, disruptionsAllowed: 0, expectedPods: 0 },
    strategy: { ...counted, validate: disruptionBudgetCauses },
  }),
];
