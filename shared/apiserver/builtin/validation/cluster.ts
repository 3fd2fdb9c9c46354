/**
 * Checks of namespaces, nodes, leases, priority classes, quotas and storage (kubernetes
 * `pkg/apis/core/validation/validation.go`, `pkg/apis/coordination/validation`, `pkg/apis/scheduling/validation`).
 *
 * @module
 */
import { labelKeyProblems, labelValueProblems } from '../../../kube/label-names.ts';
import { fieldError, type Cause } from '../../schema/field-error.ts';
import { deepEqual, type JsonObject } from '../../schema/json.ts';
import { numberAt, objectAt, objectsAt, textAt, textOf, textsAt, valueAt } from '../access.ts';
import { parseQuantity } from '../quantities.ts';
import { checkImmutable, checkNotNegative, notNegative } from './checks.ts';
import { parseCidr } from './network-policy.ts';

export function namespaceCauses(namespace: JsonObject): Cause[] {
  const causes: Cause[] = [];
  for (const [index, finalizer] of textsAt(namespace, 'spec', 'finalizers').entries()) {
    const path = `spec.finalizers[${index}]`;
    for (const problem of labelKeyProblems(finalizer))
      causes.push(fieldError.invalid(path, finalizer, problem));
    if (!finalizer.includes('/') && finalizer !== 'kubernetes') {
      const words = 'name is neither a standard finalizer name nor is it fully qualified';
      causes.push(fieldError.invalid(path, finalizer, words));
    }
  }
  return causes;
}

export function nodeCauses(node: JsonObject, old: JsonObject | undefined): Cause[] {
  const causes: Cause[] = [];
  const seen = new Set<string>();
  for (const [index, taint] of objectsAt(node, 'spec', 'taints').entries()) {
    const path = `spec.taints[${index}]`;
    const [key, value, effect] = ['key', 'value', 'effect'].map((field) => textAt(taint, field));
    for (const problem of labelKeyProblems(key ?? ''))
      causes.push(fieldError.invalid(`${path}.key`, key, problem));
    for (const problem of labelValueProblems(value ?? '')) {
      causes.push(fieldError.invalid(`${path}.value`, value, problem));
    }
    const taken = `${key}:${effect}`;
    if (seen.has(taken)) causes.push(fieldError.duplicate(path, taint));
    seen.add(taken);
  }
  for (const [index, cidr] of textsAt(node, 'spec', 'podCIDRs').entries()) {
    if (parseCidr(cidr) === undefined) {
      const words = 'must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)';
      causes.push(fieldError.invalid(`spec.podCIDRs[${index}]`, cidr, words));
    }
  }
  if (old !== undefined) {
    const [before, now] = [valueAt(old, 'spec', 'podCIDRs'), valueAt(node, 'spec', 'podCIDRs')];
    if (before !== undefined && !deepEqual(before, now)) {
      const words = 'node updates may not change podCIDR except from "" to valid';
      causes.push(fieldError.forbidden('spec.podCIDRs', words));
    }
    const id = textAt(old, 'spec', 'providerID');
    if (id !== '' && id !== textAt(node, 'spec', 'providerID')) {
      const words = 'node updates may not change providerID except from "" to valid';
      causes.push(fieldError.forbidden('spec.providerID', words));
    }
  }
  return causes;
}

/** A holder of '' is one that has let go: client-go's leader election writes it when it stops. */
export function leaseCauses(lease: JsonObject): Cause[] {
  const causes: Cause[] = [];
  const spec = objectAt(lease, 'spec');
  const seconds = numberAt(spec, 'leaseDurationSeconds');
  if (seconds !== undefined && seconds <= 0) {
    causes.push(fieldError.invalid('spec.leaseDurationSeconds', seconds, 'must be greater than 0'));
  }
  checkNotNegative(spec, ['leaseTransitions'], 'spec', causes);
  if (textAt(spec, 'preferredHolder') !== '' && textAt(spec, 'strategy') === '') {
    const words = 'may only be specified if `strategy` is defined';
    causes.push(fieldError.forbidden('spec.preferredHolder', words));
  }
  return causes;
}

const highestUserPriority = 1_000_000_000;
const systemClasses: Readonly<Record<string, number>> = {
  'system-cluster-critical': 2_000_000_000,
  'system-node-critical': 2_000_001_000,
};

export function priorityClassCauses(object: JsonObject, old: JsonObject | undefined): Cause[] {
  const causes: Cause[] = [];
  const name = textAt(object, 'metadata', 'name');
  const value = numberAt(object, 'value') ?? 0;
  if (name.startsWith('system-')) {
    if (systemClasses[name] !== value) {
      const words =
        "priority class names with 'system-' prefix are reserved for system use only. error: only system priority classes may use the prefix";
      causes.push(fieldError.forbidden('metadata.name', words));
    }
  } else if (value > highestUserPriority) {
    const words = `maximum allowed value of a user defined priority is ${highestUserPriority}`;
    causes.push(fieldError.forbidden('value', words));
  }
  if (old !== undefined) {
    if (value !== (numberAt(old, 'value') ?? 0)) {
      causes.push(fieldError.forbidden('value', 'may not be changed in an update.'));
    }
    checkImmutable(object, old, ['preemptionPolicy'], causes);
  }
  return causes;
}

export function quotaCauses(quota: JsonObject): Cause[] {
  const causes: Cause[] = [];
  for (const [name, value] of Object.entries(objectAt(quota, 'spec', 'hard'))) {
    if ((parseQuantity(value)?.nanos ?? 0n) < 0n) {
      causes.push(fieldError.invalid(`spec.hard[${name}]`, textOf(value), notNegative));
    }
  }
  return causes;
}

export function limitRangeCauses(object: JsonObject): Cause[] {
  const causes: Cause[] = [];
  for (const [index, item] of objectsAt(object, 'spec', 'limits').entries()) {
    const [min, max] = [objectAt(item, 'min'), objectAt(item, 'max')];
    for (const [name, value] of Object.entries(min)) {
      const [low, high] = [parseQuantity(value), parseQuantity(max[name])];
      if (low === undefined || high === undefined || low.nanos <= high.nanos) continue;
      const words = `min value ${textOf(value)} is greater than max value ${textOf(max[name])}`;
      causes.push(fieldError.invalid(`spec.limits[${index}].min[${name}]`, textOf(value), words));
    }
  }
  return causes;
}

function checkAccessModes(spec: JsonObject, words: string, causes: Cause[]): void {
  if (textsAt(spec, 'accessModes').length === 0) causes.push(fieldError.required('spec.accessModes', words));
}

/** What a volume may be made of, of all the fields of its spec. */
const volumeFields: ReadonlySet<string> = new Set([
  'accessModes',
  'capacity',
  'claimRef',
  'mountOptions',
  'nodeAffinity',
  'persistentVolumeReclaimPolicy',
  'storageClassName',
  'volumeAttributesClassName',
  'volumeMode',
]);

export function volumeCauses(volume: JsonObject, old: JsonObject | undefined): Cause[] {
  const causes: Cause[] = [];
  const spec = objectAt(volume, 'spec');
  checkAccessModes(spec, '', causes);
  if (Object.keys(objectAt(spec, 'capacity')).length === 0) causes.push(fieldError.required('spec.capacity'));
  const sources = Object.keys(spec).filter((field) => !volumeFields.has(field) && spec[field] !== null);
  if (sources.length === 0) causes.push(fieldError.required('spec', 'must specify a volume type'));
  for (const source of sources.slice(1)) {
    causes.push(fieldError.forbidden(`spec.${source}`, 'may not specify more than 1 volume type'));
  }
  if (old !== undefined) checkImmutable(volume, old, ['spec', 'volumeMode'], causes);
  return causes;
}

const changeableOfClaims = ['resources', 'volumeName', 'volumeAttributesClassName', 'storageClassName'];

export function claimCauses(claim: JsonObject, old: JsonObject | undefined): Cause[] {
  const causes: Cause[] = [];
  const spec = objectAt(claim, 'spec');
  checkAccessModes(spec, 'at least 1 access mode is required', causes);
  const storage = valueAt(spec, 'resources', 'requests', 'storage');
  if (storage === undefined) causes.push(fieldError.required('spec.resources[storage]'));
  else if ((parseQuantity(storage)?.nanos ?? 1n) <= 0n) {
    causes.push(fieldError.invalid('spec.resources[storage]', textOf(storage), 'must be greater than zero'));
  }
  if (old !== undefined) checkClaimUpdate(spec, objectAt(old, 'spec'), causes);
  return causes;
}

function checkClaimUpdate(spec: JsonObject, old: JsonObject, causes: Cause[]): void {
  const frozen = (one: JsonObject): JsonObject =>
    Object.fromEntries(Object.entries(one).filter(([field]) => !changeableOfClaims.includes(field)));
  const renamed = ['volumeName', 'storageClassName'].some(
    (field) => textAt(old, field) !== '' && textAt(old, field) !== textAt(spec, field),
  );
  if (!renamed && deepEqual(frozen(spec), frozen(old))) return;
  const words =
    'spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims';
  causes.push(fieldError.forbidden('spec', words));
}
