/** What all kinds of the API group share. */
import { conditionList } from '../../lib/kube/crd/condition-list.ts';
import { object, optional } from '../../lib/kube/crd/schema.ts';
import { defineResource, type PrinterColumn, type Resource } from '../../lib/kube/crd/resource.ts';
import type { Scope } from './schema-parts.ts';

export const group = 'bpfman.io';
export const version = 'v1alpha1';

/** The status of an object that has only conditions. */
export const status = optional(object({ conditions: optional(conditionList()) }));

export const statusColumn: PrinterColumn = {
  name: 'Status',
  type: 'string',
  jsonPath: '.status.conditions[0].reason',
};

export function inGroup(kind: string, scope: Scope, served: Resource['versions'][string]): Resource {
  const plural = `${kind.toLowerCase()}s`;
  return defineResource({ group, kind, plural, scope, versions: { [version]: served } });
}
