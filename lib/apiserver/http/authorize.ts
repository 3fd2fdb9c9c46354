/** The rights of users other than the administrator. */
import { apiErrors } from '../resources/api-error.ts';
import type { AccessRule, User } from '../verbs/request.ts';
import type { ResourceRoute } from './route.ts';

/** @throws {ApiError} 403, in the words of RBAC (k8s.io/apiserver pkg/endpoints/handlers/responsewriters/errors.go). */
export function authorize({ name: user, rules }: User, route: ResourceRoute, query: URLSearchParams): void {
  if (rules === undefined) return;
  const { verb, resource, subresource, namespace } = route;
  const plural = subresource === undefined ? resource.plural : `${resource.plural}/${subresource.name}`;
  const name = route.name || nameIn(query);
  const isAllowed = rules.some(
    (rule) =>
      has(rule.verbs, verb) &&
      has(rule.apiGroups, resource.group) &&
      has(rule.resources, plural) &&
      isFor(rule, namespace, name),
  );
  if (isAllowed) return;
  const where = namespace === '' ? 'at the cluster scope' : `in the namespace ${JSON.stringify(namespace)}`;
  throw apiErrors.forbidden(
    resource,
    route.name,
    `User ${JSON.stringify(user)} cannot ${verb} resource ${JSON.stringify(plural)} in API group ${JSON.stringify(resource.group)} ${where}`,
  );
}

function isFor({ resourceNames, namespace: only }: AccessRule, namespace: string, name: string): boolean {
  if (only !== undefined && only !== namespace) return false;
  return resourceNames === undefined || (name !== '' && resourceNames.includes(name));
}

/** A list or watch of a single name is authorized for that name (Kubernetes, "Using RBAC", referring to resources). */
function nameIn(query: URLSearchParams): string {
  return /^metadata\.name=([^,]+)$/.exec(query.get('fieldSelector') ?? '')?.[1] ?? '';
}

function has(allowed: readonly string[], wanted: string): boolean {
  return allowed.includes(wanted) || allowed.includes('*');
}
