/** Without an API server to ask: which resource an object is of, and whether it is in a namespace. */
import { builtinResources } from '../../../shared/apiserver/builtin/builtin.ts';
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
 * @param hasNamespace - Whether the object says that it is in one: tells of kinds that Kubernetes does not bring.
 * @param customResources - By `group/kind`: what CustomResourceDefinitions among the manifests say.
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

/** As the generators of CRDs make it. */
function guessedPlural(kind: string): string {
  const singular = kind.toLowerCase();
  if (/(?:s|x|z|ch|sh)$/.test(singular)) return `${singular}es`;
  return /[^aeiou]y$/.test(singular) ? `${singular.slice(0, -1)}ies` : `${singular}s`;
}
