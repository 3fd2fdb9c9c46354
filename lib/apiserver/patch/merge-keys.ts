/**
 * How a strategic merge patch merges the lists of the built-in types, from the struct tags `patchStrategy` and
 * `patchMergeKey` in k8s.io/api as of Kubernetes 1.34. A list that is not named here is replaced as a whole
 * (tolerations, taints, args, rules); a map is merged.
 *
 * These keys differ from those of server-side apply: here ports of a container are merged by `containerPort`
 * alone, there by `containerPort` and `protocol`.
 */

/** The fields of an object whose merging is not the default. */
export type PatchType = ReadonlyMap<string, PatchField>;

export interface PatchField {
  /** Whether a list is merged; otherwise it is replaced. */
  readonly mergesList: boolean;
  /** The field that identifies the items of a merged list of objects; a merged list without it is a set of scalars. */
  readonly mergeKey: string | undefined;
  /** The type of the field's value, or of the items of its list. */
  readonly type: PatchType | undefined;
}

type Fields = Readonly<Record<string, PatchField>>;

const typeOf = (fields: Fields): PatchType => new Map(Object.entries(fields));
/** A list of objects that is merged: items with the same value in the field `mergeKey` are the same item. */
const by = (mergeKey: string, type?: PatchType): PatchField => ({ mergesList: true, mergeKey, type });
/** A list of scalars, merged as a set. */
const set: PatchField = { mergesList: true, mergeKey: undefined, type: undefined };
/** An object, or a list that is replaced, with nested fields whose merging is not the default. */
const of = (fields: Fields): PatchField => ({ mergesList: false, mergeKey: undefined, type: typeOf(fields) });

const metadata = of({ finalizers: set, ownerReferences: by('uid') });
const conditions = of({ conditions: by('type') });

const container = typeOf({
  env: by('name'),
  ports: by('containerPort'),
  volumeDevices: by('devicePath'),
  volumeMounts: by('mountPath'),
});

const podSpec = of({
  containers: by('name', container),
  ephemeralContainers: by('name', container),
  hostAliases: by('ip'),
  imagePullSecrets: by('name'),
  initContainers: by('name', container),
  resourceClaims: by('name'),
  schedulingGates: by('name'),
  topologySpreadConstraints: by('topologyKey'),
  volumes: by('name'),
});

const template = of({ metadata, spec: podSpec });
const workload: Fields = { spec: of({ template }), status: conditions };
const jobSpec = of({ template });
const webhooks: Fields = { webhooks: by('name', typeOf({ matchConditions: by('name') })) };

/** For kinds that have no such fields except in their metadata. */
const plain = typeOf({ metadata });

const kind = (fields: Fields): PatchType => typeOf({ metadata, ...fields });

const byKind: ReadonlyMap<string, PatchType> = new Map([
  [
    '/Pod',
    kind({
      spec: podSpec,
      status: of({
        conditions: by('type'),
        hostIPs: by('ip'),
        podIPs: by('ip'),
        resourceClaimStatuses: by('name'),
      }),
    }),
  ],
  ['/PodTemplate', kind({ template })],
  ['/ReplicationController', kind(workload)],
  ['/Service', kind({ spec: of({ ports: by('port') }), status: conditions })],
  ['/Namespace', kind({ status: conditions })],
  [
    '/Node',
    kind({
      spec: of({ podCIDRs: set }),
      status: of({ addresses: by('type'), conditions: by('type') }),
    }),
  ],
  ['/ServiceAccount', kind({ secrets: by('name') })],
  ['/PersistentVolumeClaim', kind({ status: conditions })],
  ['/ComponentStatus', kind({ conditions: by('type') })],
  ['apps/Deployment', kind(workload)],
  ['apps/DaemonSet', kind(workload)],
  ['apps/ReplicaSet', kind(workload)],
  ['apps/StatefulSet', kind(workload)],
  ['batch/Job', kind({ spec: jobSpec, status: conditions })],
  ['batch/CronJob', kind({ spec: of({ jobTemplate: of({ metadata, spec: jobSpec }) }) })],
  ['autoscaling/HorizontalPodAutoscaler', kind({ status: conditions })],
  ['policy/PodDisruptionBudget', kind({ status: conditions })],
  ['storage.k8s.io/CSINode', kind({ spec: of({ drivers: by('name') }) })],
  ['admissionregistration.k8s.io/ValidatingWebhookConfiguration', kind(webhooks)],
  ['admissionregistration.k8s.io/MutatingWebhookConfiguration', kind(webhooks)],
  [
    'admissionregistration.k8s.io/ValidatingAdmissionPolicy',
    kind({
      spec: of({ matchConditions: by('name'), variables: by('name') }),
    }),
  ],
  [
    'admissionregistration.k8s.io/MutatingAdmissionPolicy',
    kind({ spec: of({ matchConditions: by('name') }) }),
  ],
  ['apiregistration.k8s.io/APIService', kind({ status: conditions })],
]);

/** How objects of a built-in kind are merged; the version does not matter. */
export function patchTypeOf(apiVersion: string, objectKind: string): PatchType {
  const slash = apiVersion.indexOf('/');
  return byKind.get(`${slash < 0 ? '' : apiVersion.slice(0, slash)}/${objectKind}`) ?? plain;
}
