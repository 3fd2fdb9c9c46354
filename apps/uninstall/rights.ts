/**
 * The rights of `rampart uninstall` when it is not run by an administrator: the role of deploy/uninstall/.
 */
import { type Guard, type Right } from '../../guard/guard.ts';
import type { ResourceType } from '../../lib/kube/object/object.ts';
import { agents } from './agents.ts';
import type { Selected } from './selected.ts';
import { leftoversOf, operatorPods, removedBy, usersTypes } from './uninstall.ts';

type Verb = 'delete' | 'get' | 'list' | 'patch' | 'watch';

/** Lists each resource once, with the verbs that all steps need. */
export async function uninstallRights(guards: readonly Guard[]): Promise<Right[]> {
  const verbs = new Map<string, Set<Verb>>();
  const add = ({ type, fieldSelector = '' }: Selected, ...needed: readonly Verb[]): void => {
    const [, name = ''] = /^metadata\.name=(.+)$/.exec(fieldSelector) ?? [];
    const key = [type.group, type.plural, name].join(' ');
    verbs.set(key, new Set([...(verbs.get(key) ?? []), ...needed]));
  };
  const statusOf = (type: ResourceType): ResourceType => ({ ...type, plural: `${type.plural}/status` });
  const leftovers = await leftoversOf(guards);
  for (const selected of removedBy(guards, leftovers)) add(selected, 'delete', 'list', 'watch');
  for (const { finalizers = [] } of leftovers)
    for (const { type } of finalizers) add({ type }, 'get', 'list', 'patch');
  for (const type of usersTypes(guards, leftovers)) {
    add({ type }, 'list');
    add({ type: statusOf(type) }, 'patch');
  }
  add(operatorPods, 'list', 'watch');
  add(agents, 'get', 'list', 'patch', 'watch');
  return joined(verbs);
}

/** Joins names of one resource, and resources of one group, that need the same verbs. */
function joined(verbs: ReadonlyMap<string, ReadonlySet<Verb>>): Right[] {
  const rights = new Map<
    string,
    { apiGroups: string[]; resources: Set<string>; verbs: Verb[]; names: string[] }
  >();
  for (const [key, needed] of [...verbs].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    const [group = '', plural = '', name = ''] = key.split(' ');
    const all = [...needed].toSorted();
    const same = [group, all.join(), name === '' ? '' : plural].join(' ');
    const right = rights.get(same) ?? { apiGroups: [group], resources: new Set(), verbs: all, names: [] };
    right.resources.add(plural);
    if (name !== '') right.names.push(name);
    rights.set(same, right);
  }
  return [...rights.values()].map(({ apiGroups, resources, names, verbs: all }) => ({
    ...{ apiGroups, resources: [...resources], verbs: all },
    ...(names.length > 0 && { resourceNames: names }),
  }));
}
