import { type Guard, right, type Right, systemNamespace } from './guard.ts';
import type { AccessRule } from '../lib/apiserver/verbs/request.ts';

/** The viewer's rights beyond those for single guards, as in deploy/base/viewer-access.yaml. */
const shared: readonly Right[] = [
  right('', ['nodes'], ['list']),
  right('coordination.k8s.io', ['leases'], ['list'], { inSystem: true }),
  right('', ['pods'], ['list', 'watch'], { inSystem: true }),
  right('', ['pods/log'], ['get'], { inSystem: true }),
];

/** The viewer's user name in the API of `rampart standalone`. */
export const viewerName = 'rampart-viewer';

/** The rules of both roles `rampart-viewer` in deploy/, for an API without RBAC. */
export function viewerRules(guards: readonly Guard[]): AccessRule[] {
  const rights = [...shared, ...guards.flatMap((guard) => guard.rights.viewer ?? [])];
  return rights.map(({ apiGroups, resources, verbs, resourceNames, inSystem }) => ({
    ...{ apiGroups, resources, verbs, resourceNames },
    namespace: inSystem === true ? systemNamespace : undefined,
  }));
}
