/**
 * Defaults of pods and their templates that depend on other fields (kubernetes `pkg/apis/core/v1/defaults.go` and
 * `conversion.go`), and what admission adds to each new pod there (`plugin/pkg/admission/serviceaccount`,
 * `defaulttolerationseconds`, `priority`).
 */
import { cloneJson, fieldOf, isObject, type JsonObject } from '../../../json/json.ts';
import {
  listAt,
  madeObject,
  objectAt,
  objectsAt,
  setDefault,
  textAt,
  valueAt,
} from '../../../json/fields.ts';
import { parseQuantity } from '../quantities.ts';

const containerLists = ['initContainers', 'containers', 'ephemeralContainers'] as const;

/** Defaults of a pod, and of every pod template. */
function defaultPodSpec(spec: JsonObject): void {
  for (const list of containerLists) {
    for (const container of objectsAt(spec, list)) {
      setDefault(container, 'imagePullPolicy', pullPolicy(textAt(container, 'image')));
    }
  }
  for (const volume of objectsAt(spec, 'volumes')) {
    if (Object.keys(volume).every((field) => field === 'name' || volume[field] === null))
      volume['emptyDir'] = {};
    const image = fieldOf(volume, 'image');
    if (isObject(image)) setDefault(image, 'pullPolicy', pullPolicy(textAt(image, 'reference')));
  }
  // `serviceAccount` is the older name of the field; both always have the same value.
  const account = textAt(spec, 'serviceAccountName') || textAt(spec, 'serviceAccount');
  if (account !== '') Object.assign(spec, { serviceAccount: account, serviceAccountName: account });
}

/** An image without tag and digest means `latest`, which may be another image tomorrow. */
export function pullPolicy(image: string): 'Always' | 'IfNotPresent' {
  const name = image.slice(image.lastIndexOf('/') + 1);
  if (name.includes('@'))
    return name.split('@', 1)[0]?.endsWith(':latest') === true ? 'Always' : 'IfNotPresent';
  const colon = name.indexOf(':');
  return colon < 0 || name.slice(colon + 1) === 'latest' ? 'Always' : 'IfNotPresent';
}

export function defaultTemplate(object: JsonObject, ...path: readonly string[]): void {
  const spec = valueAt(object, ...path, 'spec');
  if (isObject(spec)) defaultPodSpec(spec);
}

/** The defaults of a pod itself, which updates apply too. */
function defaultPod(pod: JsonObject): void {
  const spec = fieldOf(pod, 'spec');
  if (!isObject(spec)) return;
  defaultPodSpec(spec);
  setDefault(spec, 'enableServiceLinks', true);
  for (const list of ['initContainers', 'containers'] as const) {
    for (const container of objectsAt(spec, list)) {
      requestLimits(container);
      if (valueAt(spec, 'hostNetwork') !== true) continue;
      for (const port of objectsAt(container, 'ports')) {
        if (!valueAt(port, 'hostPort')) port['hostPort'] = valueAt(port, 'containerPort');
      }
    }
  }
}

/** A resource that has only a limit gets the limit as its request. */
function requestLimits(container: JsonObject): void {
  const limits = objectAt(container, 'resources', 'limits');
  if (Object.keys(limits).length === 0) return;
  const requests = madeObject(madeObject(container, 'resources'), 'requests');
  for (const [name, limit] of Object.entries(limits)) requests[name] ??= limit;
}

const evictionTaints = ['node.kubernetes.io/not-ready', 'node.kubernetes.io/unreachable'];
const systemPriorities: Readonly<Record<string, number>> = {
  'system-cluster-critical': 2_000_000_000,
  'system-node-critical': 2_000_001_000,
};

/** Prepares a new pod, with what admission plug-ins add on every cluster. */
export function preparePod(pod: JsonObject): void {
  defaultPod(pod);
  const spec = madeObject(pod, 'spec');
  setDefault(spec, 'serviceAccountName', 'default');
  setDefault(spec, 'serviceAccount', spec['serviceAccountName']);
  const priority = systemPriorities[textAt(spec, 'priorityClassName')];
  // The priority value of any other class is unknown here.
  if (priority !== undefined || textAt(spec, 'priorityClassName') === '')
    setDefault(spec, 'priority', priority ?? 0);
  setDefault(spec, 'preemptionPolicy', 'PreemptLowerPriority');
  tolerateForAWhile(spec);
  pod['status'] = { phase: 'Pending', qosClass: qosClass(pod) };
}

function tolerateForAWhile(spec: JsonObject): void {
  const tolerations = listAt(spec, 'tolerations');
  const covers = (key: string): boolean =>
    objectsAt(spec, 'tolerations').some((toleration) => {
      const [own, effect] = [textAt(toleration, 'key'), textAt(toleration, 'effect')];
      return (own === key || own === '') && (effect === 'NoExecute' || effect === '');
    });
  const added = evictionTaints
    .filter((key) => !covers(key))
    .map((key) => ({ effect: 'NoExecute', key, operator: 'Exists', tolerationSeconds: 300 }));
  if (added.length > 0) spec['tolerations'] = [...tolerations, ...added];
}

/** Prepares an update: fields that scheduling or admission set are kept if the client omits them. */
export function preparePodUpdate(pod: JsonObject, old: JsonObject): void {
  defaultPod(pod);
  const [spec, before] = [fieldOf(pod, 'spec'), objectAt(old, 'spec')];
  if (!isObject(spec)) return;
  for (const field of ['serviceAccountName', 'serviceAccount', 'priority', 'preemptionPolicy', 'nodeName']) {
    if (before[field] !== undefined) setDefault(spec, field, cloneJson(before[field]));
  }
}

/**
 * Makes `podIP` and the first of `podIPs` equal (kubernetes `pkg/apis/core/v1`, Convert_v1_PodStatus_To_core_PodStatus): if
 * only one is set, the other is filled in; if they differ, `podIP` wins. Returns a new object if something changes.
 */
export function withAgreeingAddresses(pod: JsonObject): JsonObject {
  const status = objectAt(pod, 'status');
  const [address, first] = [textAt(status, 'podIP'), textAt(objectsAt(status, 'podIPs')[0], 'ip')];
  if (address === first) return pod;
  const agreeing = address === '' ? { podIP: first } : { podIPs: [{ ip: address }] };
  return { ...pod, status: { ...status, ...agreeing } };
}

/** The resources that decide the QoS class. */
const counted = ['cpu', 'memory'] as const;

function amount(container: JsonObject, part: 'limits' | 'requests', name: string): bigint {
  return parseQuantity(objectAt(container, 'resources', part)[name])?.nanos ?? 0n;
}

/**
 * The QoS class that a pod gets by the requests and limits of its containers (kubernetes `pkg/apis/core/v1/helper/qos`,
 * and the documentation: https://kubernetes.io/docs/concepts/workloads/pods/pod-qos).
 */
function qosClass(pod: JsonObject): 'BestEffort' | 'Burstable' | 'Guaranteed' {
  const containers = [...objectsAt(pod, 'spec', 'containers'), ...objectsAt(pod, 'spec', 'initContainers')];
  let [asksNothing, guaranteed] = [true, true];
  for (const container of containers) {
    for (const name of counted) {
      const [limit, request] = [amount(container, 'limits', name), amount(container, 'requests', name)];
      if (limit > 0n || request > 0n) asksNothing = false;
      if (limit === 0n || request !== limit) guaranteed = false;
    }
  }
  if (asksNothing) return 'BestEffort';
  return guaranteed ? 'Guaranteed' : 'Burstable';
}
