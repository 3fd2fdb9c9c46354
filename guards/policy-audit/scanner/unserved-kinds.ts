/** Policies that name only kinds that the API does not serve: they apply to nothing. Pure. */
import type { GroupVersionResource } from '../engine/evaluator.ts';
import type { Policy, PolicyRule } from '../policies/policy.ts';
import type { ServedKinds } from './served-kinds.ts';

/** Limit of the kinds that are named in a message. */
const MAX_NAMED = 5;

/** The kinds of a policy, as `widgets.example.com/v1`, if the API serves none of them. */
export function unservedKinds(
  { constraints }: Pick<Policy, 'constraints'>,
  served: Pick<ServedKinds, 'resources' | 'unread'>,
): string | undefined {
  const unread = served.unread.map((text): GroupVersionResource => {
    const [version = '', group = ''] = text.split('/').reverse();
    return { group, version, resource: '*' };
  });
  const all = [...served.resources, ...unread];
  for (const { rules } of constraints) {
    if (rules.some((rule) => all.some((one) => mayName(rule, one)))) continue;
    const names = [...new Set(rules.flatMap(namesOf))];
    const more = names.length > MAX_NAMED ? `, and ${names.length - MAX_NAMED} more` : '';
    return names.slice(0, MAX_NAMED).join(', ') + more;
  }
  return undefined;
}

/** @param served - Its resource is '*' if the resources of this version are unknown. */
function mayName({ groups, versions, resources }: PolicyRule, served: GroupVersionResource): boolean {
  if (!has(groups, served.group) || !has(versions, served.version)) return false;
  if (served.resource === '*') return true;
  const [ofServed = '', subresource = ''] = served.resource.split('/');
  return resources.some((pattern) => {
    const [resource = '', sub = ''] = pattern.split('/');
    // `pods/*` includes the pods themselves.
    return (resource === '*' || resource === ofServed) && (sub === '*' || sub === subresource);
  });
}

function has(list: readonly string[], value: string): boolean {
  return list.includes('*') || list.includes(value);
}

function namesOf({ groups, versions, resources }: PolicyRule): string[] {
  return groups.flatMap((group) =>
    versions.flatMap((version) =>
      resources.map((resource) => `${resource}${group === '' ? '' : `.${group}`}/${version}`),
    ),
  );
}
