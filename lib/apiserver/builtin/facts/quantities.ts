/**
 * Which fields are quantities (`resource.Quantity` and `ResourceList` in k8s.io/api `types.go`, Kubernetes 1.35). In the
 * OpenAPI models they are strings.
 */

/** Keyed by definition: the fields that are a quantity, or a map or list of quantities. */
export const quantityFields: Readonly<Record<string, readonly string[]>> = {
  'core.ContainerStatus': ['allocatedResources'],
  'core.EmptyDirVolumeSource': ['sizeLimit'],
  'core.LimitRangeItem': ['default', 'defaultRequest', 'max', 'maxLimitRequestRatio', 'min'],
  'core.NodeStatus': ['allocatable', 'capacity'],
  'core.PersistentVolumeClaimStatus': ['allocatedResources', 'capacity'],
  'core.PersistentVolumeSpec': ['capacity'],
  'core.PodSpec': ['overhead'],
  'core.PodStatus': ['allocatedResources'],
  'core.ResourceFieldSelector': ['divisor'],
  'core.ResourceQuotaSpec': ['hard'],
  'core.ResourceQuotaStatus': ['hard', 'used'],
  'core.ResourceRequirements': ['limits', 'requests'],
  'core.VolumeResourceRequirements': ['limits', 'requests'],
};
