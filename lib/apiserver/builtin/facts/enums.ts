/**
 * Allowed values of fields that do not take any text (kubernetes `pkg/apis/*` `/validation/validation.go`,
 * Kubernetes 1.35), in the order in which the API server names them. An empty text is not allowed, but a field
 * with a default is filled in before the check.
 */

import { ofMutatingPolicies } from './names.ts';

type Fields = Readonly<Record<string, readonly string[]>>;

const protocol: Fields = { protocol: ['SCTP', 'TCP', 'UDP'] };
const pullPolicies = ['Always', 'IfNotPresent', 'Never'];
const container: Fields = {
  imagePullPolicy: pullPolicies,
  terminationMessagePolicy: ['File', 'FallbackToLogsOnError'],
};
const profile: Fields = { type: ['Localhost', 'RuntimeDefault', 'Unconfined'] };
const taintEffects = ['NoSchedule', 'PreferNoSchedule', 'NoExecute'];
const accessModes = ['ReadOnlyMany', 'ReadWriteMany', 'ReadWriteOnce', 'ReadWriteOncePod'];
const volumeModes = ['Block', 'Filesystem'];
const nodePolicies = ['Honor', 'Ignore'];
const preemption = ['Never', 'PreemptLowerPriority'];
const matchPolicies = ['Equivalent', 'Exact'];
const failurePolicies = ['Fail', 'Ignore'];
const rule: Fields = {
  operations: ['*', 'CONNECT', 'CREATE', 'DELETE', 'UPDATE'],
  scope: ['*', 'Cluster', 'Namespaced'],
};

/** Keyed by definition and field; for a list, the allowed items. */
export const enumerations: Readonly<Record<string, Fields>> = {
  'core.PodSpec': {
    dnsPolicy: ['ClusterFirst', 'ClusterFirstWithHostNet', 'Default', 'None'],
    preemptionPolicy: preemption,
    restartPolicy: ['Always', 'OnFailure', 'Never'],
  },
  'core.PodOS': { name: ['linux', 'windows'] },
  'core.Container': container,
  'core.EphemeralContainer': container,
  'core.ContainerPort': protocol,
  'core.HTTPGetAction': { scheme: ['HTTP', 'HTTPS'] },
  'core.ImageVolumeSource': { pullPolicy: pullPolicies },
  'core.VolumeMount': { mountPropagation: ['Bidirectional', 'HostToContainer', 'None'] },
  'core.HostPathVolumeSource': {
    type: [
      '',
      'BlockDevice',
      'CharDevice',
      'Directory',
      'DirectoryOrCreate',
      'File',
      'FileOrCreate',
      'Socket',
    ],
  },
  'core.PodSecurityContext': { fsGroupChangePolicy: ['Always', 'OnRootMismatch'] },
  'core.SecurityContext': { procMount: ['Default', 'Unmasked'] },
  'core.SeccompProfile': profile,
  'core.AppArmorProfile': profile,
  'core.Taint': { effect: taintEffects },
  'core.TopologySpreadConstraint': {
    nodeAffinityPolicy: nodePolicies,
    nodeTaintsPolicy: nodePolicies,
    whenUnsatisfiable: ['DoNotSchedule', 'ScheduleAnyway'],
  },
  'core.ServiceSpec': {
    externalTrafficPolicy: ['Cluster', 'Local'],
    internalTrafficPolicy: ['Cluster', 'Local'],
    ipFamilies: ['IPv4', 'IPv6'],
    ipFamilyPolicy: ['PreferDualStack', 'RequireDualStack', 'SingleStack'],
    sessionAffinity: ['ClientIP', 'None'],
    type: ['ClusterIP', 'ExternalName', 'LoadBalancer', 'NodePort'],
  },
  'core.ServicePort': protocol,
  'core.EndpointPort': protocol,
  'core.PersistentVolumeSpec': {
    accessModes,
    persistentVolumeReclaimPolicy: ['Delete', 'Recycle', 'Retain'],
    volumeMode: volumeModes,
  },
  'core.PersistentVolumeClaimSpec': { accessModes, volumeMode: volumeModes },
  'apps.DeploymentStrategy': { type: ['Recreate', 'RollingUpdate'] },
  'apps.DaemonSetUpdateStrategy': { type: ['OnDelete', 'RollingUpdate'] },
  'apps.StatefulSetPersistentVolumeClaimRetentionPolicy': {
    whenDeleted: ['Delete', 'Retain'],
    whenScaled: ['Delete', 'Retain'],
  },
  'batch.CronJobSpec': { concurrencyPolicy: ['Allow', 'Forbid', 'Replace'] },
  'batch.JobSpec': {
    completionMode: ['Indexed', 'NonIndexed'],
    podReplacementPolicy: ['Failed', 'TerminatingOrFailed'],
  },
  'batch.PodFailurePolicyRule': { action: ['Count', 'FailIndex', 'FailJob', 'Ignore'] },
  'batch.PodFailurePolicyOnExitCodesRequirement': { operator: ['In', 'NotIn'] },
  'discovery.EndpointSlice': { addressType: ['FQDN', 'IPv4', 'IPv6'] },
  'discovery.EndpointPort': protocol,
  'networking.NetworkPolicyPort': protocol,
  'networking.NetworkPolicySpec': { policyTypes: ['Ingress', 'Egress'] },
  'networking.HTTPIngressPath': { pathType: ['Exact', 'ImplementationSpecific', 'Prefix'] },
  'networking.IngressClassParametersReference': { scope: ['Cluster', 'Namespace'] },
  'policy.PodDisruptionBudgetSpec': { unhealthyPodEvictionPolicy: ['AlwaysAllow', 'IfHealthyBudget'] },
  'scheduling.PriorityClass': { preemptionPolicy: preemption },
  'admissionregistration.ValidatingWebhook': {
    failurePolicy: failurePolicies,
    matchPolicy: matchPolicies,
    sideEffects: ['None', 'NoneOnDryRun'],
  },
  'admissionregistration.MutatingWebhook': {
    failurePolicy: failurePolicies,
    matchPolicy: matchPolicies,
    reinvocationPolicy: ['IfNeeded', 'Never'],
    sideEffects: ['None', 'NoneOnDryRun'],
  },
  'admissionregistration.RuleWithOperations': rule,
  'admissionregistration.NamedRuleWithOperations': rule,
  'admissionregistration.MatchResources': { matchPolicy: matchPolicies },
  'admissionregistration.ParamRef': { parameterNotFoundAction: ['Allow', 'Deny'] },
  ...ofMutatingPolicies<Fields>({
    NamedRuleWithOperations: rule,
    MatchResources: { matchPolicy: matchPolicies },
    ParamRef: { parameterNotFoundAction: ['Allow', 'Deny'] },
    MutatingAdmissionPolicySpec: {
      failurePolicy: failurePolicies,
      reinvocationPolicy: ['IfNeeded', 'Never'],
    },
    Mutation: { patchType: ['ApplyConfiguration', 'JSONPatch'] },
  }),
  'admissionregistration.ValidatingAdmissionPolicySpec': { failurePolicy: failurePolicies },
  'admissionregistration.ValidatingAdmissionPolicyBindingSpec': {
    validationActions: ['Audit', 'Deny', 'Warn'],
  },
};
