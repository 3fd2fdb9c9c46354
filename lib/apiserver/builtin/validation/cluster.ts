/**
 * Checks of namespaces, nodes and leases (kubernetes `pkg/apis/core/validation/validation.go`,
 * `pkg/apis/coordination/validation`).
 */
import { labelKeyProblems, labelValueProblems } from '../../../kube/selectors/label-names.ts';
import { fieldError, type Cause } from '../../schema/field-error.ts';
import { deepEqual, type JsonObject } from '../../../json/json.ts';
import { numberAt, objectAt, objectsAt, textAt, textsAt, valueAt } from '../../../json/fields.ts';
import { addProblems, checkNotNegative } from './checks.ts';
import { cidrWords, parseCidr } from './network-policy.ts';

export function namespaceCauses(namespace: JsonObject): Cause[] {
  const causes: Cause[] = [];
  for (const [index, finalizer] of textsAt(namespace, 'spec', 'finalizers').entries()) {
    const path = `spec.finalizers[${index}]`;
    addProblems(labelKeyProblems(finalizer), finalizer, path, causes);
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
    const [key, value] = [textAt(taint, 'key'), textAt(taint, 'value')];
    addProblems(labelKeyProblems(key), key, `${path}.key`, causes);
    addProblems(labelValueProblems(value), value, `${path}.value`, causes);
    const taken = `${key}:${textAt(taint, 'effect')}`;
    if (seen.has(taken)) causes.push(fieldError.duplicate(path, taint));
    seen.add(taken);
  }
  for (const [index, cidr] of textsAt(node, 'spec', 'podCIDRs').entries()) {
    if (parseCidr(cidr) === undefined) {
      causes.push(fieldError.invalid(`spec.podCIDRs[${index}]`, cidr, cidrWords));
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

/** A holder of '' is valid: client-go's leader election writes it to release the lease. */
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
