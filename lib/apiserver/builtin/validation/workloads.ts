/** Checks of the kinds that keep pods running (kubernetes `pkg/apis/apps/validation/validation.go`). */
import { labelSelectorOf, labelsMatch } from '../../../kube/selectors/selectors.ts';
import { fieldError, type Cause } from '../../schema/field-error.ts';
import type { JsonObject } from '../../../json/json.ts';
import { numberAt, objectAt, textAt, valueAt } from '../../../json/fields.ts';
import {
  checkImmutable,
  checkIntOrPercent,
  checkLabels,
  checkNotNegative,
  checkSelector,
  isEmptySelector,
} from './checks.ts';
import { checkPodSpec } from './pod-spec.ts';

function checkTemplate(spec: JsonObject, causes: Cause[]): void {
  const path = 'spec.template';
  const template = objectAt(spec, 'template');
  checkLabels(objectAt(template, 'metadata', 'labels'), `${path}.labels`, causes);
  checkPodSpec(objectAt(template, 'spec'), `${path}.spec`, causes);
  const restart = textAt(template, 'spec', 'restartPolicy');
  if (restart === 'Never' || restart === 'OnFailure') {
    causes.push(fieldError.notSupported(`${path}.spec.restartPolicy`, restart, ['Always']));
  }
  if (valueAt(template, 'spec', 'activeDeadlineSeconds') !== undefined) {
    const words = 'activeDeadlineSeconds in ReplicaSet is not Supported';
    causes.push(fieldError.forbidden(`${path}.spec.activeDeadlineSeconds`, words));
  }
}

/** Checks that there is a selector, that it is not empty, and that it matches the pods of the template. */
function checkOwnSelector(spec: JsonObject, kind: string, causes: Cause[]): void {
  const value = valueAt(spec, 'selector');
  if (value === undefined) return;
  const selector = objectAt(value);
  checkSelector(selector, 'spec.selector', causes);
  if (isEmptySelector(selector)) {
    const words = `empty selector is invalid for ${kind}`;
    causes.push(fieldError.invalid('spec.selector', selector, words));
    return;
  }
  const labels = objectAt(spec, 'template', 'metadata', 'labels');
  try {
    if (labelsMatch(labelSelectorOf(selector), labels as Record<string, string>)) return;
  } catch {
    // Errors in the selector are reported above.
    return;
  }
  const words = '`selector` does not match template `labels`';
  causes.push(fieldError.invalid('spec.template.metadata.labels', labels, words));
}

export function deploymentCauses(object: JsonObject, old: JsonObject | undefined): Cause[] {
  const causes: Cause[] = [];
  const spec = objectAt(object, 'spec');
  checkNotNegative(spec, ['replicas', 'minReadySeconds', 'revisionHistoryLimit'], 'spec', causes);
  checkOwnSelector(spec, 'deployment', causes);
  checkTemplate(spec, causes);
  const strategy = objectAt(spec, 'strategy');
  checkRolling(textAt(strategy, 'type') === 'Recreate', strategy, 'spec.strategy', causes);
  const deadline = numberAt(spec, 'progressDeadlineSeconds');
  if (deadline !== undefined) {
    checkNotNegative(spec, ['progressDeadlineSeconds'], 'spec', causes);
    if (deadline <= (numberAt(spec, 'minReadySeconds') ?? 0)) {
      const words = 'must be greater than minReadySeconds';
      causes.push(fieldError.invalid('spec.progressDeadlineSeconds', deadline, words));
    }
  }
  if (old !== undefined) checkImmutable(object, old, ['spec', 'selector'], causes);
  return causes;
}

function checkRolling(recreates: boolean, strategy: JsonObject, path: string, causes: Cause[]): void {
  if (valueAt(strategy, 'rollingUpdate') === undefined) return;
  const at = `${path}.rollingUpdate`;
  if (recreates) {
    causes.push(fieldError.forbidden(at, "may not be specified when strategy `type` is 'Recreate'"));
    return;
  }
  const [surge, unavailable] = ['maxSurge', 'maxUnavailable'].map((field) =>
    valueAt(strategy, 'rollingUpdate', field),
  );
  checkIntOrPercent(unavailable, `${at}.maxUnavailable`, causes);
  checkIntOrPercent(surge, `${at}.maxSurge`, causes);
  if (isNone(unavailable) && isNone(surge)) {
    const words = 'may not be 0 when `maxSurge` is 0';
    causes.push(fieldError.invalid(`${at}.maxUnavailable`, unavailable ?? 0, words));
  }
  if (typeof unavailable === 'string' && Number.parseInt(unavailable, 10) > 100) {
    causes.push(fieldError.invalid(`${at}.maxUnavailable`, unavailable, 'must not be greater than 100%'));
  }
}

function isNone(value: unknown): boolean {
  return value === undefined || value === 0 || value === '0%';
}

export function daemonSetCauses(object: JsonObject, old: JsonObject | undefined): Cause[] {
  const causes: Cause[] = [];
  const spec = objectAt(object, 'spec');
  checkNotNegative(spec, ['minReadySeconds', 'revisionHistoryLimit'], 'spec', causes);
  checkOwnSelector(spec, 'daemonset', causes);
  checkTemplate(spec, causes);
  const strategy = objectAt(spec, 'updateStrategy');
  if (textAt(strategy, 'type') === 'RollingUpdate') {
    const path = 'spec.updateStrategy.rollingUpdate';
    const [surge, unavailable] = ['maxSurge', 'maxUnavailable'].map((field) =>
      valueAt(strategy, 'rollingUpdate', field),
    );
    checkIntOrPercent(unavailable, `${path}.maxUnavailable`, causes);
    checkIntOrPercent(surge, `${path}.maxSurge`, causes);
    if (!isNone(surge) && !isNone(unavailable)) {
      causes.push(
        fieldError.invalid(`${path}.maxSurge`, surge, 'may not be set when maxUnavailable is non-zero'),
      );
    } else if (isNone(surge) && isNone(unavailable)) {
      const words = 'cannot be 0 when maxSurge is 0';
      causes.push(fieldError.required(`${path}.maxUnavailable`, words));
    }
  }
  if (old !== undefined) checkImmutable(object, old, ['spec', 'selector'], causes);
  return causes;
}

export function disruptionBudgetCauses(object: JsonObject): Cause[] {
  const causes: Cause[] = [];
  const spec = objectAt(object, 'spec');
  const [min, max] = [valueAt(spec, 'minAvailable'), valueAt(spec, 'maxUnavailable')];
  if (min !== undefined && max !== undefined) {
    const words = 'minAvailable and maxUnavailable cannot be both set';
    causes.push(fieldError.invalid('spec', spec, words));
  }
  checkIntOrPercent(min, 'spec.minAvailable', causes);
  checkIntOrPercent(max, 'spec.maxUnavailable', causes);
  checkSelector(objectAt(spec, 'selector'), 'spec.selector', causes);
  return causes;
}
