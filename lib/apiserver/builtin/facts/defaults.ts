/**
 * Defaults that do not depend on other fields (kubernetes `pkg/apis/*` `/v1/defaults.go`, and the markers
 * `+default` in k8s.io/api `types.go`, Kubernetes 1.35). The others are in `../defaults/`.
 */

import { ofMutatingPolicies } from './names.ts';

type Fields = Readonly<Record<string, unknown>>;

const container: Fields = {
  resources: {},
  terminationMessagePath: '/dev/termination-log',
  terminationMessagePolicy: 'File',
};

const matchResources: Fields = { matchPolicy: 'Equivalent', namespaceSelector: {}, objectSelector: {} };

/** Keyed by definition and field. */
export const defaultValues: Readonly<Record<string, Fields>> = {
  'core.PodSpec': {
    dnsPolicy: 'ClusterFirst',
    restartPolicy: 'Always',
    schedulerName: 'default-scheduler',
    securityContext: {},
    terminationGracePeriodSeconds: 30,
  },
  'core.Container': container,
  'core.EphemeralContainer': container,
  'core.ContainerPort': { protocol: 'TCP' },
  'core.Probe': { failureThreshold: 3, periodSeconds: 10, successThreshold: 1, timeoutSeconds: 1 },
  'core.HTTPGetAction': { path: '/', scheme: 'HTTP' },
  'core.GRPCAction': { service: '' },
  'core.HTTPHeader': { value: '' },
  'core.ObjectFieldSelector': { apiVersion: 'v1' },
  'core.ResourceFieldSelector': { divisor: '0' },
  'core.PodTemplateSpec': { metadata: {} },
  'core.SecretVolumeSource': { defaultMode: 0o644 },
  'core.ConfigMapVolumeSource': { defaultMode: 0o644 },
  'core.DownwardAPIVolumeSource': { defaultMode: 0o644 },
  'core.ProjectedVolumeSource': { defaultMode: 0o644 },
  'core.ServiceAccountTokenProjection': { expirationSeconds: 3600 },
  'core.HostPathVolumeSource': { type: '' },
  'core.ISCSIVolumeSource': { iscsiInterface: 'default' },
  'core.ISCSIPersistentVolumeSource': { iscsiInterface: 'default' },
  'core.RBDVolumeSource': { keyring: '/etc/ceph/keyring', pool: 'rbd', user: 'admin' },
  'core.RBDPersistentVolumeSource': { keyring: '/etc/ceph/keyring', pool: 'rbd', user: 'admin' },
  'core.AzureDiskVolumeSource': {
    cachingMode: 'ReadWrite',
    fsType: 'ext4',
    kind: 'Shared',
    readOnly: false,
  },
  'core.ScaleIOVolumeSource': { fsType: 'xfs', storageMode: 'ThinProvisioned' },
  'core.ScaleIOPersistentVolumeSource': { fsType: 'xfs', storageMode: 'ThinProvisioned' },
  'core.PersistentVolumeSpec': { persistentVolumeReclaimPolicy: 'Retain', volumeMode: 'Filesystem' },
  'core.PersistentVolumeClaimSpec': { resources: {}, volumeMode: 'Filesystem' },
  'core.ServiceSpec': { sessionAffinity: 'None', type: 'ClusterIP' },
  'core.ServicePort': { protocol: 'TCP' },
  'core.EndpointPort': { protocol: 'TCP' },
  'core.Secret': { type: 'Opaque' },
  'core.ReplicationControllerSpec': { replicas: 1 },
  'apps.DeploymentSpec': {
    progressDeadlineSeconds: 600,
    replicas: 1,
    revisionHistoryLimit: 10,
    strategy: { type: 'RollingUpdate' },
  },
  'apps.DeploymentStrategy': { type: 'RollingUpdate' },
  'apps.RollingUpdateDeployment': { maxSurge: '25%', maxUnavailable: '25%' },
  'apps.DaemonSetSpec': { revisionHistoryLimit: 10, updateStrategy: { type: 'RollingUpdate' } },
  'apps.DaemonSetUpdateStrategy': { type: 'RollingUpdate' },
  'apps.RollingUpdateDaemonSet': { maxSurge: 0, maxUnavailable: 1 },
  'apps.StatefulSetSpec': {
    persistentVolumeClaimRetentionPolicy: {},
    podManagementPolicy: 'OrderedReady',
    replicas: 1,
    revisionHistoryLimit: 10,
    updateStrategy: { rollingUpdate: {}, type: 'RollingUpdate' },
  },
  'apps.RollingUpdateStatefulSetStrategy': { partition: 0 },
  'apps.StatefulSetPersistentVolumeClaimRetentionPolicy': { whenDeleted: 'Retain', whenScaled: 'Retain' },
  'apps.ReplicaSetSpec': { replicas: 1 },
  'batch.JobTemplateSpec': { metadata: {} },
  'batch.CronJobSpec': {
    concurrencyPolicy: 'Allow',
    failedJobsHistoryLimit: 1,
    successfulJobsHistoryLimit: 3,
    suspend: false,
  },
  'discovery.EndpointPort': { name: '', protocol: 'TCP' },
  'networking.NetworkPolicyPort': { protocol: 'TCP' },
  'networking.NetworkPolicySpec': { podSelector: {} },
  'networking.IngressClassParametersReference': { scope: 'Cluster' },
  'rbac.RoleRef': { apiGroup: 'rbac.authorization.k8s.io' },
  'scheduling.PriorityClass': { preemptionPolicy: 'PreemptLowerPriority' },
  'admissionregistration.ServiceReference': { port: 443 },
  'admissionregistration.ValidatingWebhook': {
    failurePolicy: 'Fail',
    matchPolicy: 'Equivalent',
    namespaceSelector: {},
    objectSelector: {},
    timeoutSeconds: 10,
  },
  'admissionregistration.MutatingWebhook': {
    failurePolicy: 'Fail',
    matchPolicy: 'Equivalent',
    namespaceSelector: {},
    objectSelector: {},
    reinvocationPolicy: 'Never',
    timeoutSeconds: 10,
  },
  'admissionregistration.RuleWithOperations': { scope: '*' },
  'admissionregistration.NamedRuleWithOperations': { scope: '*' },
  'admissionregistration.MatchResources': matchResources,
  ...ofMutatingPolicies<Fields>({
    NamedRuleWithOperations: { scope: '*' },
    MatchResources: matchResources,
    MutatingAdmissionPolicySpec: { failurePolicy: 'Fail' },
  }),
  'admissionregistration.ValidatingAdmissionPolicySpec': { failurePolicy: 'Fail' },
  'apiextensions.CustomResourceDefinitionSpec': { conversion: { strategy: 'None' } },
  'apiextensions.CustomResourceDefinitionVersion': { served: false, storage: false },
  'apiextensions.ServiceReference': { port: 443 },
};

/**
 * Fields that controllers and the kubelet write: Go always sends them, with the zero value if unset (no
 * `omitempty`). Here an omitted required field of these gets the zero value instead of an error.
 */
export const zeroDefaulted: readonly string[] = [
  'apps.DaemonSetCondition',
  'apps.DaemonSetStatus',
  'apps.DeploymentCondition',
  'apps.ReplicaSetCondition',
  'apps.ReplicaSetStatus',
  'apps.StatefulSetCondition',
  'apps.StatefulSetStatus',
  'apiextensions.CustomResourceDefinitionCondition',
  'autoscaling.ScaleStatus',
  'batch.JobCondition',
  'core.AttachedVolume',
  'core.ContainerStateTerminated',
  'core.ContainerStatus',
  'core.DaemonEndpoint',
  'core.NamespaceCondition',
  'core.NodeAddress',
  'core.NodeCondition',
  'core.NodeSystemInfo',
  'core.PersistentVolumeClaimCondition',
  'core.PodCondition',
  'core.ReplicationControllerCondition',
  'core.ReplicationControllerStatus',
  'core.VolumeMountStatus',
  'policy.PodDisruptionBudgetStatus',
];

/** Fields that are required by the OpenAPI models, but that Kubernetes allows to be missing. */
export const notRequired: Readonly<Record<string, readonly string[]>> = {
  'core.Event': ['involvedObject', 'metadata'],
  'discovery.EndpointSlice': ['endpoints'],
  'discovery.Endpoint': ['addresses'],
  'events.Event': ['eventTime'],
  'rbac.RoleRef': ['apiGroup', 'kind', 'name'],
  'rbac.PolicyRule': ['verbs'],
};
