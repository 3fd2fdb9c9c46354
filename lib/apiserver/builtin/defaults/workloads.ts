/**
 * Defaults of the kinds that run pods, where they depend on other fields (kubernetes `pkg/apis/apps/v1/defaults.go`,
 * `pkg/apis/batch/v1/defaults.go`, `pkg/apis/core/v1/defaults.go`).
 */
import { fieldOf, isObject, type JsonObject } from '../../../json/json.ts';
import { madeObject, objectAt, objectsAt, setDefault, textAt, valueAt } from '../../../json/fields.ts';
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
}

export function defaultCronJob(object: JsonObject): void {
  defaultTemplate(object, 'spec', 'jobTemplate', 'spec', 'template');
}
