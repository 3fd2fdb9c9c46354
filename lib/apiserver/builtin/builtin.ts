/**
 * The built-in kinds of the server.
 *
 * ```ts
 * for (const versions of builtinResources()) registry.add(versions);
 * registry.add([customResourceDefinitions(strategy)]);
 * ```
 */
import type { Resource, Strategy, Subresource } from '../resources/resource.ts';
import { plainColumns } from './columns/column.ts';
import { kindOf } from './kind.ts';
import { clusterKinds } from './kinds/cluster.ts';
import { coreKinds } from './kinds/core.ts';
import { mutatingPolicyKinds } from './kinds/mutating-policies.ts';
import { workloadKinds } from './kinds/workloads.ts';
import { statusAloneOf } from './subresources.ts';

/** All but CustomResourceDefinition, a list of versions each. Cheap: schemas are read when first used. */
export function builtinResources(): readonly (readonly Resource[])[] {
  const kinds = [...coreKinds, ...clusterKinds, ...mutatingPolicyKinds, ...workloadKinds];
  return [...Map.groupBy(kinds, ({ storeName }) => storeName).values()];
}

const extensions = 'apiextensions.k8s.io';

/**
 * The kind of CustomResourceDefinitions.
 *
 * @param strategy names, defaults and checks; those of the schema (types, required fields) are done without it.
 * @param status the status subresource, if it has to do more than replace `status`.
 */
export function customResourceDefinitions(strategy: Strategy, status?: Subresource): Resource {
  return kindOf(extensions, 'CustomResourceDefinition', {
    shortNames: ['crd', 'crds'],
    categories: ['api-extensions'],
    namespaced: false,
    columns: plainColumns,
    subresources: [status ?? statusAloneOf({ group: extensions, kind: 'CustomResourceDefinition' })],
    strategy,
  });
}
