/** The guards that the roles `rampart-viewer` of this cluster are about: deploy/ gives them the rights of those that are installed. */
import type { Guard } from '../../guard/guard.ts';
import type { KubeClient } from '../../lib/kube/client/client.ts';
import { clusterKind, type KubeObject } from '../../lib/kube/object/object.ts';

interface SelfSubjectAccessReview extends KubeObject {
  readonly spec: {
    readonly resourceAttributes: { readonly verb: string; readonly group: string; readonly resource: string };
  };
  readonly status?: { readonly allowed?: boolean };
}

/** Everybody who is authenticated may ask that (the ClusterRole system:basic-user). */
const selfSubjectAccessReviews = clusterKind<SelfSubjectAccessReview>(
  'authorization.k8s.io',
  'selfsubjectaccessreviews',
  'SelfSubjectAccessReview',
);

/** @throws {KubeError} or {RampartError} if it cannot be found out */
export async function readableGuards(
  client: Pick<KubeClient, 'create'>,
  guards: readonly Guard[],
  signal: AbortSignal,
): Promise<Guard[]> {
  const isReadable = await Promise.all(
    guards.map(async ({ rights: { viewer = [] } }) => {
      const own = viewer.find(({ apiGroups: [group], inSystem }) => group !== '' && inSystem !== true);
      if (own === undefined) return true;
      const { apiGroups, resources } = own;
      const [[group = ''], [resource = '']] = [apiGroups, resources];
      const spec = { resourceAttributes: { verb: 'list', group, resource } };
      const { status } = await client.create(selfSubjectAccessReviews, { metadata: {}, spec }, { signal });
      return status?.allowed === true;
    }),
  );
  return guards.filter((_guard, at) => isReadable[at]);
}
