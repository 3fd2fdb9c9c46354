/** Finds the resource name of a kind, and whether it is namespaced, without an API server. */
import { builtinResources } from '../../../lib/apiserver/builtin/builtin.ts';
import { policyGroup } from '../api.ts';

export interface KindName {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  /** `deployments` */
  readonly resource: string;
  readonly isNamespaced: boolean;
}

let known: ReadonlyMap<string, { readonly plural: string; readonly namespaced: boolean }> | undefined;

/**
 * @param hasNamespace - Whether the object has a namespace: an unknown kind that has one is taken as namespaced.
 * @param customResources - From the CustomResourceDefinitions among the manifests, keyed by `group/kind`.
 */
export function kindNameOf(
  apiVersion: string,
  kind: string,
  hasNamespace: boolean,
  customResources: ReadonlyMap<string, { readonly plural: string; readonly namespaced: boolean }> = new Map(),
): KindName {
  const [first = '', second] = apiVersion.split('/');
  const [group, version] = second === undefined ? ['', first] : [first, second];
  known ??= new Map(
    builtinResources()
      .flat()
      .map((resource) => [`${resource.group}/${resource.kind}`, resource] as const),
  );
  const found = customResources.get(`${group}/${kind}`) ?? known.get(`${group}/${kind}`);
  return {
    group,
    version,
    kind,
    resource: found?.plural ?? guessedPlural(kind),
    isNamespaced:
      found?.namespaced ?? (hasNamespace || (group === policyGroup && !kind.startsWith('Cluster'))),
  };
}

/** The plural that CRD generators would form. */
function guessedPlural(kind: string): string {
  const singular = kind.toLowerCase();
  if (/(?:s|x|z|ch|sh)$/.test(singular)) return `${singular}es`;
  return /[^aeiou]y$/.test(singular) ? `${singular.slice(0, -1)}ies` : `${singular}s`;
}
