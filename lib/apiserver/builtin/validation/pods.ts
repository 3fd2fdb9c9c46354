/**
 * Checks of pods, mainly of which fields may change (kubernetes `pkg/apis/core/validation/validation.go`,
 * ValidatePodUpdate).
 */
import { isIP } from 'node:net';
import { fieldError, type Cause } from '../../schema/field-error.ts';
import { cloneJson, deepEqual, type JsonObject } from '../../../json/json.ts';
import { numberAt, objectAt, objectsAt, textAt, valueAt } from '../../../json/fields.ts';
import { checkAddress } from './checks.ts';
import { checkPodSpec } from './pod-spec.ts';

const changeable =
  'pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)';

export function podCauses(pod: JsonObject, old: JsonObject | undefined): Cause[] {
  const causes: Cause[] = [];
  checkPodSpec(objectAt(pod, 'spec'), 'spec', causes);
  if (old !== undefined) checkUpdate(objectAt(pod, 'spec'), objectAt(old, 'spec'), causes);
  return causes;
}

function checkUpdate(spec: JsonObject, old: JsonObject, causes: Cause[]): void {
  const lists = ['containers', 'initContainers'] as const;
  for (const list of lists) {
    if (objectsAt(spec, list).length === objectsAt(old, list).length) continue;
    causes.push(fieldError.forbidden(`spec.${list}`, 'pod updates may not add or remove containers'));
    return;
  }
  checkDeadline(spec, old, causes);
  checkAddedTolerations(spec, old, causes);
  checkGates(spec, old, causes);
  const changed = cloneJson(spec) as JsonObject;
  for (const list of lists) {
    const before = objectsAt(old, list);
    objectsAt(changed, list).forEach((container, index) => {
      const image = valueAt(before[index], 'image');
      if (image !== undefined) container['image'] = image;
    });
  }
  const free = ['activeDeadlineSeconds', 'tolerations', 'schedulingGates'];
  // A pod that waits for a scheduling gate may still get constraints on where it runs.
  if (objectsAt(old, 'schedulingGates').length > 0) free.push('nodeSelector', 'affinity');
  if ((numberAt(old, 'terminationGracePeriodSeconds') ?? 0) < 0) free.push('terminationGracePeriodSeconds');
  for (const field of free) {
    if (old[field] === undefined) delete changed[field];
    else changed[field] = old[field];
  }
  if (!deepEqual(changed, old)) causes.push(fieldError.forbidden('spec', changeable));
}

function checkDeadline(spec: JsonObject, old: JsonObject, causes: Cause[]): void {
  const [now, before] = [numberAt(spec, 'activeDeadlineSeconds'), numberAt(old, 'activeDeadlineSeconds')];
  if (before === undefined) return;
  const path = 'spec.activeDeadlineSeconds';
  if (now === undefined) {
    causes.push(fieldError.invalid(path, null, 'must not update from a positive integer to nil value'));
  } else if (now > before) {
    const words = 'must be less than or equal to previous value';
    causes.push(fieldError.invalid(path, now, words));
  }
}

function checkAddedTolerations(spec: JsonObject, old: JsonObject, causes: Cause[]): void {
  const tolerations = objectsAt(spec, 'tolerations');
  // Only how long a toleration lasts may change.
  const shape = ({ tolerationSeconds: _changes, ...rest }: JsonObject): JsonObject => rest;
  const kept = objectsAt(old, 'tolerations').every((before) =>
    tolerations.some((one) => deepEqual(shape(one), shape(before))),
  );
  if (kept) return;
  const words = 'existing toleration can not be modified except its tolerationSeconds';
  causes.push(fieldError.forbidden('spec.tolerations', words));
}

function checkGates(spec: JsonObject, old: JsonObject, causes: Cause[]): void {
  const before = new Set(objectsAt(old, 'schedulingGates').map((gate) => textAt(gate, 'name')));
  const added = objectsAt(spec, 'schedulingGates').map((gate) => textAt(gate, 'name'));
  for (const name of added.filter((one) => !before.has(one))) {
    const words = `only deletion is allowed, but found new scheduling gate '${name}'`;
    causes.push(fieldError.forbidden('spec.schedulingGates', words));
  }
}

/** Ephemeral containers can be added, but not changed or removed (kubernetes ValidatePodEphemeralContainersUpdate). */
export function ephemeralContainerCauses(pod: JsonObject, old: JsonObject): Cause[] {
  const causes: Cause[] = [];
  const path = 'spec.ephemeralContainers';
  const now = new Map(
    objectsAt(pod, 'spec', 'ephemeralContainers').map((one) => [textAt(one, 'name'), one] as const),
  );
  for (const before of objectsAt(old, 'spec', 'ephemeralContainers')) {
    const name = textAt(before, 'name');
    const same = now.get(name);
    if (same === undefined) {
      causes.push(fieldError.forbidden(path, `existing ephemeral containers "${name}" may not be removed\n`));
    } else if (!deepEqual(same, before)) {
      causes.push(fieldError.forbidden(path, `existing ephemeral containers "${name}" may not be changed\n`));
    }
  }
  checkPodSpec(objectAt(pod, 'spec'), 'spec', causes);
  return causes;
}

/** Checks the addresses of a pod: at most one of each family (kubernetes validatePodIPs). */
export function podStatusCauses(pod: JsonObject): Cause[] {
  const path = 'status.podIPs';
  const addresses = objectsAt(pod, 'status', 'podIPs').map((one) => textAt(one, 'ip'));
  const causes: Cause[] = [];
  for (const [index, address] of addresses.entries()) checkAddress(address, `${path}[${index}]`, causes);
  if (causes.length === 0 && new Set(addresses.map(isIP)).size < addresses.length) {
    const words = 'may specify no more than one IP for each IP family';
    causes.push(fieldError.invalid(path, valueAt(pod, 'status', 'podIPs'), words));
  }
  for (const [index, address] of addresses.entries()) {
    if (addresses.indexOf(address) < index)
      causes.push(fieldError.duplicate(`${path}[${index}]`, { ip: address }));
  }
  return causes;
}

/** Seconds that a deleted pod has left to end (kubernetes `pkg/registry/core/pod/strategy.go`, CheckGracefulDelete). */
export function podGracePeriod(pod: JsonObject, asked: number | undefined): number {
  // A pod without a node has no kubelet that would end it, and a pod that has ended needs no time.
  if (textAt(pod, 'spec', 'nodeName') === '') return 0;
  const phase = textAt(pod, 'status', 'phase');
  if (phase === 'Succeeded' || phase === 'Failed') return 0;
  const seconds = asked ?? numberAt(pod, 'spec', 'terminationGracePeriodSeconds') ?? 30;
  return seconds < 0 ? 1 : seconds;
}
