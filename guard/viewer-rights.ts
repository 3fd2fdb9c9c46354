import { type Guard, right, type Right, systemNamespace } from './guard.ts';
import type { AccessRule } from '../lib/apiserver/verbs/request.ts';

/** Rights that all guards share, as in deploy/base/viewer-access.yaml. */
const shared: readonly Right[] = [
  right('', ['nodes'], ['list']),
  right('coordination.k8s.io', ['leases'], ['list'], { inSystem: true }),
  right('', ['pods'], ['list', 'watch'], { inSystem: true }),
  right('', ['pods/log'], ['get'], { inSystem: true }),
];

/** User name of the viewer in the API of a process that guards itself. */
export const viewerName = 'rampart-viewer';

/** The rights of both roles `rampart-viewer` of deploy/, for an API without roles. */
export function viewerRules(guards: readonly Guard[]): AccessRule[] {
  const rights = [...shared, ...guards.flatMap((guard) => guard.rights.viewer ?? [])];
  return rights.map(({ apiGroups, resources, verbs, resourceNames, inSystem }) => ({
    ...{ apiGroups, resources, verbs, resourceNames },
    namespace: inSystem === true ? systemNamespace : undefined,
  }));
}
