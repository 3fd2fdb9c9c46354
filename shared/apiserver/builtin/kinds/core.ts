/** The core group, v1: as `kubectl api-resources` lists it for Kubernetes 1.35. */
import {
  allVerbs,
  type Resource,
  type Strategy,
  type Subresource,
  type Verb,
} from '../../resources/resource.ts';
import type { JsonObject } from '../../schema/json.ts';
import { listAt, madeObject, objectsAt, setDefault, textAt, valueAt } from '../access.ts';
import {
  configMapColumns,
  namespaceColumns,
  nodeColumns,
  secretColumns,
  serviceAccountColumns,
} from '../columns/cluster.ts';
import { storedColumns } from '../columns/column.ts';
import { serviceColumns } from '../columns/network.ts';
import { podColumns } from '../columns/pods.ts';
import {
  defaultNode,
  labelNamespace,
  mergeStringData,
  prepareNamespace,
  prepareNamespaceUpdate,
} from '../defaults/config.ts';
import { prepareService, prepareServiceUpdate } from '../defaults/network.ts';
import { preparePod, preparePodUpdate, withAgreeingAddresses } from '../defaults/pod.ts';
import { defaultReplicaSet } from '../defaults/workloads.ts';
import { kindOf } from '../kind.ts';
import { ephemeralContainersOf, finalizeOf, log, scale, statusOf } from '../subresources.ts';
import { namespaceCauses, nodeCauses } from '../validation/cluster.ts';
import { configMapCauses, secretCauses } from '../validation/config.ts';
import { serviceCauses } from '../validation/services.ts';
import { ephemeralContainerCauses, podCauses, podGracePeriod, podStatusCauses } from '../validation/pods.ts';
import { coreEvents } from './events.ts';

const group = '';
const all = ['all'];
const status = (kind: string) => statusOf({ group, kind });

/** A namespace is deleted by name only. */
const namespaceVerbs: ReadonlySet<Verb> = new Set(
  [...allVerbs].filter((verb) => verb !== 'deletecollection'),
);

const plain: Strategy = { nameRule: 'dns-subdomain', generation: 'none', resetFields: [] };
const withStatus: Strategy = { ...plain, resetFields: ['status'] };

const text =
  (...path: readonly string[]) =>
  (object: JsonObject): string =>
    textAt(object, ...path);

const namespaces = kindOf({
  group,
  kind: 'Namespace',
  plural: 'namespaces',
  shortNames: ['ns'],
  namespaced: false,
  verbs: namespaceVerbs,
  columns: namespaceColumns,
  selectableFields: { 'status.phase': text('status', 'phase') },
  subresources: [{ ...status('Namespace'), fillMetadata: labelNamespace }, finalizeOf(namespaceCauses)],
  strategy: {
    ...withStatus,
    nameRule: 'dns-label',
    prepareForCreate: prepareNamespace,
    prepareForUpdate: prepareNamespaceUpdate,
    validate: namespaceCauses,
    hasOwnFinalizers: (namespace) => listAt(namespace, 'spec', 'finalizers').length > 0,
    markDeleted: (namespace) => {
      madeObject(namespace, 'status')['phase'] = 'Terminating';
    },
  },
});

const nodes = kindOf({
  group,
  kind: 'Node',
  plural: 'nodes',
  shortNames: ['no'],
  namespaced: false,
  columns: nodeColumns,
  selectableFields: {
    'spec.unschedulable': (node) => String(valueAt(node, 'spec', 'unschedulable') === true),
  },
  subresources: [status('Node')],
  strategy: {
    ...withStatus,
    createKeepsResetFields: true,
    prepareForCreate: defaultNode,
    validate: nodeCauses,
  },
});

const plainPodStatus = statusOf({
  group,
  kind: 'Pod',
  keptMetadata: ['ownerReferences'],
  validate: podStatusCauses,
});

const podStatus: Subresource = {
  ...plainPodStatus,
  write: (pod, sent) => plainPodStatus.write(pod, withAgreeingAddresses(sent)),
};

const pods = kindOf({
  group,
  kind: 'Pod',
  plural: 'pods',
  shortNames: ['po'],
  categories: all,
  namespaced: true,
  columns: podColumns,
  selectableFields: {
    'spec.nodeName': text('spec', 'nodeName'),
    'spec.restartPolicy': text('spec', 'restartPolicy'),
    'spec.schedulerName': text('spec', 'schedulerName'),
    'spec.serviceAccountName': text('spec', 'serviceAccountName'),
    'spec.hostNetwork': (pod) => String(valueAt(pod, 'spec', 'hostNetwork') === true),
    'status.phase': text('status', 'phase'),
    'status.podIP': (pod) =>
      textAt(objectsAt(pod, 'status', 'podIPs')[0], 'ip') || textAt(pod, 'status', 'podIP'),
    'status.nominatedNodeName': text('status', 'nominatedNodeName'),
  },
  subresources: [podStatus, ephemeralContainersOf(ephemeralContainerCauses), log],
  strategy: {
    ...withStatus,
    generation: 'all',
    prepareForCreate: preparePod,
    prepareForUpdate: preparePodUpdate,
    validate: podCauses,
    gracePeriodSeconds: podGracePeriod,
  },
});

const services = kindOf({
  group,
  kind: 'Service',
  plural: 'services',
  shortNames: ['svc'],
  categories: all,
  namespaced: true,
  columns: serviceColumns,
  selectableFields: { 'spec.clusterIP': text('spec', 'clusterIP'), 'spec.type': text('spec', 'type') },
  subresources: [status('Service')],
  strategy: {
    ...withStatus,
    nameRule: 'dns1035-label',
    prepareForCreate: prepareService,
    prepareForUpdate: prepareServiceUpdate,
    validate: serviceCauses,
  },
});

const endpoints = kindOf({
  group,
  kind: 'Endpoints',
  plural: 'endpoints',
  shortNames: ['ep'],
  namespaced: true,
  columns: storedColumns,
  strategy: { ...plain, allowCreateOnUpdate: true },
});

const configMaps = kindOf({
  group,
  kind: 'ConfigMap',
  plural: 'configmaps',
  shortNames: ['cm'],
  namespaced: true,
  columns: configMapColumns,
  strategy: { ...plain, validate: configMapCauses },
});

const secrets = kindOf({
  group,
  kind: 'Secret',
  plural: 'secrets',
  namespaced: true,
  columns: secretColumns,
  selectableFields: { type: text('type') },
  strategy: {
    ...plain,
    prepareForCreate: mergeStringData,
    prepareForUpdate: (secret, old) => {
      mergeStringData(secret);
      // A client that says nothing of the type does not mean another one.
      setDefault(secret, 'type', textAt(old, 'type'));
    },
    validate: secretCauses,
  },
});

const serviceAccounts = kindOf({
  group,
  kind: 'ServiceAccount',
  plural: 'serviceaccounts',
  shortNames: ['sa'],
  namespaced: true,
  columns: serviceAccountColumns,
  strategy: plain,
});

const replicationControllers = kindOf({
  group,
  kind: 'ReplicationController',
  plural: 'replicationcontrollers',
  shortNames: ['rc'],
  categories: all,
  namespaced: true,
  columns: storedColumns,
  selectableFields: { 'status.replicas': (object) => String(valueAt(object, 'status', 'replicas') ?? 0) },
  subresources: [status('ReplicationController'), scale],
  strategy: {
    ...withStatus,
    generation: 'all',
    prepareForCreate: (object) => {
      defaultReplicaSet(object);
      object['status'] = { replicas: 0 };
    },
    prepareForUpdate: defaultReplicaSet,
  },
});

export const coreKinds: readonly (readonly Resource[])[] = [
  [configMaps],
  [endpoints],
  coreEvents,
  [namespaces],
  [nodes],
  [pods],
  [replicationControllers],
  [secrets],
  [serviceAccounts],
  [services],
];
