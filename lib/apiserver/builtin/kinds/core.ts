/** v1 of the core group, as listed by `kubectl api-resources` for Kubernetes 1.35. */
import { allVerbs, type Resource, type Subresource, type Verb } from '../../resources/resource.ts';
import type { JsonObject } from '../../../json/json.ts';
import { listAt, madeObject, objectsAt, setDefault, textAt, valueAt } from '../../../json/fields.ts';
import {
  configMapColumns,
  namespaceColumns,
  nodeColumns,
  secretColumns,
  serviceAccountColumns,
} from '../columns/cluster.ts';
import { plainColumns, storedColumns } from '../columns/column.ts';
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

/** Without `deletecollection`: a namespace can only be deleted by name. */
const namespaceVerbs: ReadonlySet<Verb> = new Set(
  [...allVerbs].filter((verb) => verb !== 'deletecollection'),
);

const text =
  (...path: readonly string[]) =>
  (object: JsonObject): string =>
    textAt(object, ...path);

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

export const coreKinds: readonly Resource[] = [
  kindOf(group, 'ConfigMap', {
    shortNames: ['cm'],
    columns: configMapColumns,
    strategy: { validate: configMapCauses },
  }),
  kindOf(group, 'Endpoints', {
    plural: 'endpoints',
    shortNames: ['ep'],
    columns: storedColumns,
    strategy: { allowCreateOnUpdate: true },
  }),
  ...coreEvents,
  kindOf(group, 'Namespace', {
    shortNames: ['ns'],
    namespaced: false,
    verbs: namespaceVerbs,
    columns: namespaceColumns,
    selectableFields: { 'status.phase': text('status', 'phase') },
    subresources: [{ ...status('Namespace'), fillMetadata: labelNamespace }, finalizeOf(namespaceCauses)],
    strategy: {
      nameRule: 'dns-label',
      prepareForCreate: prepareNamespace,
      prepareForUpdate: prepareNamespaceUpdate,
      validate: namespaceCauses,
      hasOwnFinalizers: (namespace) => listAt(namespace, 'spec', 'finalizers').length > 0,
      markDeleted: (namespace) => {
        madeObject(namespace, 'status')['phase'] = 'Terminating';
      },
    },
  }),
  kindOf(group, 'Node', {
    shortNames: ['no'],
    namespaced: false,
    columns: nodeColumns,
    selectableFields: {
      'spec.unschedulable': (node) => String(valueAt(node, 'spec', 'unschedulable') === true),
    },
    subresources: [status('Node')],
    strategy: {
      createKeepsResetFields: true,
      prepareForCreate: defaultNode,
      validate: nodeCauses,
    },
  }),
  kindOf(group, 'Pod', {
    shortNames: ['po'],
    categories: all,
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
      generation: 'all',
      prepareForCreate: preparePod,
      prepareForUpdate: preparePodUpdate,
      validate: podCauses,
      gracePeriodSeconds: podGracePeriod,
    },
  }),
  kindOf(group, 'ReplicationController', {
    shortNames: ['rc'],
    categories: all,
    columns: storedColumns,
    selectableFields: { 'status.replicas': (object) => String(valueAt(object, 'status', 'replicas') ?? 0) },
    subresources: [status('ReplicationController'), scale],
    defaults: defaultReplicaSet,
    newStatus: { replicas: 0 },
    strategy: { generation: 'all' },
  }),
  kindOf(group, 'Secret', {
    columns: secretColumns,
    selectableFields: { type: text('type') },
    strategy: {
      prepareForCreate: mergeStringData,
      prepareForUpdate: (secret, old) => {
        mergeStringData(secret);
        // A client that omits the type does not want to change it.
        setDefault(secret, 'type', textAt(old, 'type'));
      },
      validate: secretCauses,
    },
  }),
  kindOf(group, 'ServiceAccount', { shortNames: ['sa'], columns: serviceAccountColumns }),
  kindOf(group, 'Service', {
    shortNames: ['svc'],
    categories: all,
    columns: serviceColumns,
    selectableFields: { 'spec.clusterIP': text('spec', 'clusterIP'), 'spec.type': text('spec', 'type') },
    subresources: [status('Service')],
    strategy: {
      nameRule: 'dns1035-label',
      prepareForCreate: prepareService,
      prepareForUpdate: prepareServiceUpdate,
      validate: serviceCauses,
    },
  }),

  // Limits and storage. Nothing here acts on these kinds.
  kindOf(group, 'LimitRange', { shortNames: ['limits'], columns: plainColumns }),
  kindOf(group, 'PersistentVolumeClaim', {
    shortNames: ['pvc'],
    columns: storedColumns,
    subresources: [status('PersistentVolumeClaim')],
    newStatus: { phase: 'Pending' },
  }),
  kindOf(group, 'PersistentVolume', {
    shortNames: ['pv'],
    namespaced: false,
    columns: storedColumns,
    subresources: [status('PersistentVolume')],
    newStatus: { phase: 'Pending' },
  }),
  kindOf(group, 'ResourceQuota', {
    shortNames: ['quota'],
    columns: storedColumns,
    subresources: [status('ResourceQuota')],
    newStatus: {},
  }),
];
