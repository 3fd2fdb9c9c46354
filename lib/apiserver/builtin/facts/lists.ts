/**
 * Which lists are maps or sets, and which objects are atomic: the markers `+listType`, `+listMapKey` and
 * `+structType`/`+mapType` of k8s.io/api and k8s.io/apimachinery `types.go` as of Kubernetes 1.35. A list
 * that is not named is atomic. Server-side apply depends on them.
 */
import { ofMutatingPolicies } from './names.ts';

/** The keys of lists that are maps, by definition and field. */
export const listMaps: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  'meta.ObjectMeta': { ownerReferences: ['uid'] },
  'core.PodSpec': {
    containers: ['name'],
    ephemeralContainers: ['name'],
    hostAliases: ['ip'],
    imagePullSecrets: ['name'],
    initContainers: ['name'],
    resourceClaims: ['name'],
    schedulingGates: ['name'],
    topologySpreadConstraints: ['topologyKey', 'whenUnsatisfiable'],
    volumes: ['name'],
  },
  'core.Container': {
    env: ['name'],
    ports: ['containerPort', 'protocol'],
    volumeDevices: ['devicePath'],
    volumeMounts: ['mountPath'],
  },
  'core.EphemeralContainer': {
    env: ['name'],
    ports: ['containerPort', 'protocol'],
    volumeDevices: ['devicePath'],
    volumeMounts: ['mountPath'],
  },
  'core.ResourceRequirements': { claims: ['name'] },
  'core.PodStatus': { conditions: ['type'], podIPs: ['ip'], resourceClaimStatuses: ['name'] },
  'core.ContainerStatus': { allocatedResourcesStatus: ['name'], volumeMounts: ['mountPath'] },
  'core.ServiceSpec': { ports: ['port', 'protocol'] },
  'core.ServiceStatus': { conditions: ['type'] },
  'core.ServiceAccount': { secrets: ['name'] },
  'core.NamespaceStatus': { conditions: ['type'] },
  'core.NodeStatus': { addresses: ['type'], conditions: ['type'] },
  'core.PersistentVolumeClaimStatus': { conditions: ['type'] },
  'core.ReplicationControllerStatus': { conditions: ['type'] },
  'apps.DaemonSetStatus': { conditions: ['type'] },
  'apps.DeploymentStatus': { conditions: ['type'] },
  'apps.ReplicaSetStatus': { conditions: ['type'] },
  'apps.StatefulSetStatus': { conditions: ['type'] },
  'policy.PodDisruptionBudgetStatus': { conditions: ['type'] },
  'admissionregistration.MutatingWebhook': { matchConditions: ['name'] },
  'admissionregistration.MutatingWebhookConfiguration': { webhooks: ['name'] },
  'admissionregistration.ValidatingAdmissionPolicySpec': { matchConditions: ['name'], variables: ['name'] },
  ...ofMutatingPolicies({ MutatingAdmissionPolicySpec: { matchConditions: ['name'] } }),
  'admissionregistration.ValidatingAdmissionPolicyStatus': { conditions: ['type'] },
  'admissionregistration.ValidatingWebhook': { matchConditions: ['name'] },
  'admissionregistration.ValidatingWebhookConfiguration': { webhooks: ['name'] },
  'apiextensions.CustomResourceDefinitionStatus': { conditions: ['type'] },
  'apiextensions.JSONSchemaProps': { 'x-kubernetes-validations': ['rule'] },
};

/** Lists that are sets. */
export const listSets: Readonly<Record<string, readonly string[]>> = {
  'meta.ObjectMeta': ['finalizers'],
  'core.NodeSpec': ['podCIDRs'],
  'admissionregistration.ValidatingAdmissionPolicyBindingSpec': ['validationActions'],
  'batch.PodFailurePolicyOnExitCodesRequirement': ['values'],
  'batch.UncountedTerminatedPods': ['failed', 'succeeded'],
  'discovery.Endpoint': ['addresses'],
};

/** Types of objects that have one owner as a whole, wherever they occur. */
export const atomicTypes: readonly string[] = [
  'meta.LabelSelector',
  'meta.OwnerReference',
  'core.ConfigMapKeySelector',
  'core.EndpointAddress',
  'core.EndpointPort',
  'core.FileKeySelector',
  'core.LocalObjectReference',
  'core.NodeSelector',
  'core.NodeSelectorTerm',
  'core.ObjectFieldSelector',
  'core.ObjectReference',
  'core.ResourceFieldSelector',
  'core.ScopeSelector',
  'core.ScopedResourceSelectorRequirement',
  'core.SecretKeySelector',
  'core.SecretReference',
  'core.TypedLocalObjectReference',
  'admissionregistration.MatchResources',
  'admissionregistration.NamedRuleWithOperations',
  'admissionregistration.ParamKind',
  'admissionregistration.ParamRef',
  ...Object.keys(
    ofMutatingPolicies({ MatchResources: '', NamedRuleWithOperations: '', ParamKind: '', ParamRef: '' }),
  ),
  'discovery.EndpointPort',
  'networking.ServiceBackendPort',
  'rbac.RoleRef',
  'rbac.Subject',
];

/** Fields with a map of texts that has one owner as a whole. */
export const atomicFields: Readonly<Record<string, readonly string[]>> = {
  'core.PodSpec': ['nodeSelector'],
  'core.ReplicationControllerSpec': ['selector'],
  'core.ServiceSpec': ['selector'],
};
