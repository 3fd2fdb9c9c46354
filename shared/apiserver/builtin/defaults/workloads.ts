/**
 * Defaults of the kinds that run pods, where they depend on other fields (kubernetes `pkg/apis/apps/v1/defaults.go`,
 * `pkg/apis/batch/v1/defaults.go`, `pkg/apis/core/v1/defaults.go`).
 *
 * @module
 */
import { cloneJson, fieldOf, isObject, type JsonObject } from '../../schema/json.ts';
import { madeObject, objectAt, objectsAt, setDefault, textAt, valueAt } from '../access.ts';
import { defaultTemplate } from './pod.ts';

export function defaultDeployment(object: JsonObject): void {
  defaultTemplate(object, 'spec', 'template');
  const strategy = fieldOf(objectAt(object, 'spec'), 'strategy');
  if (!isObject(strategy) || textAt(strategy, 'type') !== 'RollingUpdate') return;
  const rolling = madeObject(strategy, 'rollingUpdate');
  setDefault(rolling, 'maxSurge', '25%');
  setDefault(rolling, 'maxUnavailable', '25%');
}

export function defaultDaemonSet(object: JsonObject): void {
  defaultTemplate(object, 'spec', 'template');
  const strategy = fieldOf(objectAt(object, 'spec'), 'updateStrategy');
  if (!isObject(strategy) || textAt(strategy, 'type') !== 'RollingUpdate') return;
  const rolling = madeObject(strategy, 'rollingUpdate');
  setDefault(rolling, 'maxSurge', 0);
  setDefault(rolling, 'maxUnavailable', 1);
}

export function defaultStatefulSet(object: JsonObject): void {
  defaultTemplate(object, 'spec', 'template');
  const strategy = fieldOf(objectAt(object, 'spec'), 'updateStrategy');
  if (isObject(strategy) && textAt(strategy, 'type') === '') {
    strategy['type'] = 'RollingUpdate';
    setDefault(madeObject(strategy, 'rollingUpdate'), 'partition', 0);
  }
  for (const claim of objectsAt(object, 'spec', 'volumeClaimTemplates')) {
    Object.assign(claim, { apiVersion: 'v1', kind: 'PersistentVolumeClaim' });
    setDefault(madeObject(claim, 'status'), 'phase', 'Pending');
  }
}

export function defaultReplicaSet(object: JsonObject): void {
  defaultTemplate(object, 'spec', 'template');
}

/** A selector and labels that are left out are those of the template. */
export function defaultReplicationController(object: JsonObject): void {
  defaultTemplate(object, 'spec', 'template');
  const labels = objectAt(object, 'spec', 'template', 'metadata', 'labels');
  if (Object.keys(labels).length === 0) return;
  const spec = madeObject(object, 'spec');
  if (Object.keys(objectAt(spec, 'selector')).length === 0) spec['selector'] = cloneJson(labels);
  inheritLabels(object, labels);
}

function inheritLabels(object: JsonObject, labels: JsonObject): void {
  const metadata = madeObject(object, 'metadata');
  if (Object.keys(objectAt(metadata, 'labels')).length === 0) metadata['labels'] = cloneJson(labels);
}

const maxInt32 = 2 ** 31 - 1;

export function defaultJob(job: JsonObject): void {
  defaultTemplate(job, 'spec', 'template');
  const spec = madeObject(job, 'spec');
  const perIndex = valueAt(spec, 'backoffLimitPerIndex') !== undefined;
  if (valueAt(spec, 'completions') === undefined && valueAt(spec, 'parallelism') === undefined) {
    spec['completions'] = 1;
  }
  setDefault(spec, 'parallelism', 1);
  setDefault(spec, 'backoffLimit', perIndex ? maxInt32 : 6);
  setDefault(spec, 'completionMode', 'NonIndexed');
  setDefault(spec, 'suspend', false);
  const hasPolicy = valueAt(spec, 'podFailurePolicy') !== undefined;
  setDefault(spec, 'podReplacementPolicy', hasPolicy ? 'Failed' : 'TerminatingOrFailed');
  const labels = objectAt(spec, 'template', 'metadata', 'labels');
  if (Object.keys(labels).length > 0) inheritLabels(job, labels);
}

/** What a job has its pods known by (kubernetes `pkg/apis/batch/types.go`); the first two are of old. */
function ownPodLabels(job: JsonObject): JsonObject {
  const uid = textAt(job, 'metadata', 'uid');
  const name = textAt(job, 'metadata', 'name');
  return {
    'controller-uid': uid,
    'job-name': name,
    [controllerUidLabel]: uid,
    'batch.kubernetes.io/job-name': name,
  };
}

const controllerUidLabel = 'batch.kubernetes.io/controller-uid';

/**
 * A new job finds its pods by labels that no other job has. Others in their place stay, and are refused (kubernetes
 * `pkg/registry/batch/job/strategy.go`, generateSelector).
 *
 * Before {@link defaultJob}: a job without labels has all those of its template. There the labels are one map, and each reading
 * fills in defaults.
 */
export function selectOwnPods(job: JsonObject): void {
  const spec = madeObject(job, 'spec');
  const template = fieldOf(spec, 'template');
  if (valueAt(spec, 'manualSelector') === true || !isObject(template)) return;
  const own = ownPodLabels(job);
  addMissing(template, ['metadata', 'labels'], own);
  addMissing(spec, ['selector', 'matchLabels'], { [controllerUidLabel]: own[controllerUidLabel] });
}

/** Adds what the map at a path has not yet. What is of another type on the way stays, to be refused. */
function addMissing(object: JsonObject, path: readonly string[], added: JsonObject): void {
  let map = object;
  for (const field of path) {
    if (valueAt(map, field) === undefined) map[field] = {};
    const next = fieldOf(map, field);
    if (!isObject(next)) return;
    map = next;
  }
  for (const [name, value] of Object.entries(added)) map[name] ??= value;
}

export function defaultCronJob(object: JsonObject): void {
  defaultTemplate(object, 'spec', 'jobTemplate', 'spec', 'template');
}
