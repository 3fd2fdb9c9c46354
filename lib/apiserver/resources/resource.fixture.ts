/** A kind of which nothing is special, for tests to change what they are about. */
import { allVerbs, type Resource } from './resource.ts';

/** All but its schema, which not every test may compile. */
export function plainResource({
  group = '',
  version = 'v1',
  kind,
  plural,
}: Pick<Resource, 'kind' | 'plural'> & Partial<Pick<Resource, 'group' | 'version'>>): Omit<
  Resource,
  'model' | 'openApi'
> {
  return {
    group,
    version,
    kind,
    plural,
    singular: kind.toLowerCase(),
    listKind: `${kind}List`,
    shortNames: [],
    categories: [],
    namespaced: true,
    storeName: group === '' ? plural : `${plural}.${group}`,
    storedApiVersion: group === '' ? version : `${group}/${version}`,
    verbs: allVerbs,
    subresources: new Map(),
    columns: [],
    selectableFields: new Map(),
    strategy: { nameRule: 'dns-subdomain', generation: 'none', resetFields: [] },
    codec: undefined,
    deprecation: undefined,
    isCustom: false,
  };
}
