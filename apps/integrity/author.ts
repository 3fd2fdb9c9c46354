/**
 * Who asks: as the API server knows him, else as the kubeconfig and this machine call him.
 *
 * @module
 */
import { hostname, userInfo } from 'node:os';

import type { KubeClient } from '../../shared/kube/client.ts';
import { KubeError } from '../../shared/kube/client-errors.ts';
import { loadKubeconfig } from '../../shared/kube/kubeconfig.ts';
import type { KubeObject, ResourceType } from '../../shared/kube/object.ts';

interface SelfSubjectReview extends KubeObject {
  readonly status?: { readonly userInfo?: { readonly username?: string } };
}

/** GA since Kubernetes 1.28 (KEP-3325). */
const selfSubjectReviews: ResourceType<SelfSubjectReview> = {
  group: 'authentication.k8s.io',
  version: 'v1',
  plural: 'selfsubjectreviews',
  kind: 'SelfSubjectReview',
  namespaced: false,
};

/** @throws what the API throws but for its own refusals */
export async function authorOf(
  client: KubeClient,
  kubeconfig: string | undefined,
  signal: AbortSignal,
): Promise<string> {
  try {
    const review = await client.create(selfSubjectReviews, { metadata: {} }, { signal });
    const name = review.status?.userInfo?.username;
    if (name) return name;
  } catch (error) {
    // An older server, our own, or one that does not say it to everybody.
    if (!(error instanceof KubeError)) throw error;
  }
  // Nobody has checked these.
  const person = `${process.env['SUDO_USER'] || userInfo().username}@${hostname()}`;
  const named = kubeconfigUser(kubeconfig);
  return named === undefined ? person : `${named} (${person})`;
}

/** The name of the entry, which people choose themselves. */
function kubeconfigUser(path: string | undefined): string | undefined {
  const config = loadKubeconfig(path === undefined ? {} : { path });
  return config?.contexts.get(config.currentContext ?? '')?.fields.text('user');
}
