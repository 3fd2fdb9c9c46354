/**
 * Short names of definitions, as the tables of facts write them: `core.PodSpec` for `io.k8s.api.core.v1.PodSpec`; and how
 * schemas refer to them.
 */
import { isObject } from '../../../json/json.ts';

const packages: Readonly<Record<string, string>> = {
  meta: 'io.k8s.apimachinery.pkg.apis.meta.v1',
  apiextensions: 'io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1',
};

/** The name in OpenAPI of what a table calls `apps.Deployment`, or `apps/v1beta1.Deployment` for a version other than v1. */
export function definitionName(short: string): string {
  const dot = short.indexOf('.');
  const [group = '', version = 'v1'] = short.slice(0, dot).split('/');
  return `${packages[group] ?? `io.k8s.api.${group}.${version}`}${short.slice(dot)}`;
}

/** The versions in which MutatingAdmissionPolicies are served; both have the same fields. */
export const mutatingPolicyVersions = ['v1beta1', 'v1alpha1'] as const;

/** Repeats facts, keyed by definition without a group, for each version of MutatingAdmissionPolicies. */
export function ofMutatingPolicies<T>(facts: Readonly<Record<string, T>>): Readonly<Record<string, T>> {
  return Object.fromEntries(
    mutatingPolicyVersions.flatMap((version) =>
      Object.entries(facts).map(([type, fact]) => [`admissionregistration/${version}.${type}`, fact]),
    ),
  );
}

export const quantityName = 'io.k8s.apimachinery.pkg.api.resource.Quantity';
export const timeName = 'io.k8s.apimachinery.pkg.apis.meta.v1.Time';
export const microTimeName = 'io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime';
export const intOrStringName = 'io.k8s.apimachinery.pkg.util.intstr.IntOrString';
export const rawExtensionName = 'io.k8s.apimachinery.pkg.runtime.RawExtension';

const refPrefix = '#/components/schemas/';

export function nameOfRef(ref: string): string {
  return ref.startsWith(refPrefix) ? ref.slice(refPrefix.length) : ref;
}

export function collectRefs(value: unknown, into: string[]): void {
  if (Array.isArray(value)) {
    for (const item of value) collectRefs(item, into);
    return;
  }
  if (!isObject(value)) return;
  for (const [name, field] of Object.entries(value)) {
    // There may be a property called `$ref`, whose value is a schema.
    if (name === '$ref' && typeof field === 'string') into.push(nameOfRef(field));
    else collectRefs(field, into);
  }
}

export function refTo(name: string): string {
  return refPrefix + name;
}
