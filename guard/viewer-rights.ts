import { type Guard, right, type Right, systemNamespace } from './guard.ts';
import type { AccessRule } from '../lib/apiserver/verbs/request.ts';

/** Of all guards, as deploy/base/viewer-access.yaml has them. */
const shared: readonly Right[] = [
  right('', ['nodes'], ['list']),
  right('coordination.k8s.io', ['leases'], ['list'], { inSystem: true }),
  right('', ['pods'], ['list', 'watch'], { inSystem: true }),
  right('', ['pods/log'], ['get'], { inSystem: true }),
];

/** What both roles `rampart-viewer` of deploy/ allow, for an API that knows no roles. */
export function viewerRules(guards: readonly Guard[]): AccessRule[] {
  const rights = [...shared, ...guards.flatMap((guard) => guard.rights.viewer ?? [])];
  return rights.map(({ apiGroups, resources, verbs, resourceNames, inSystem }) => ({
    ...{ apiGroups, resources, verbs, resourceNames },
    namespace: inSystem === true ? systemNamespace : undefined,
  }));
}
