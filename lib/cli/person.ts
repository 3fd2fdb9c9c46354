/** The user of a command, for records of who requested something. */
import { hostname, userInfo } from 'node:os';

import { loadKubeconfig } from '../kube/access/kubeconfig.ts';
import { KubeError } from '../kube/client/client-errors.ts';
import type { KubeClient } from '../kube/client/client.ts';
import { clusterKind, type KubeObject } from '../kube/object/object.ts';
import { chosenKubeconfig } from './cluster.ts';
import type { ClusterChoice } from './cluster-options.ts';

interface SelfSubjectReview extends KubeObject {
  readonly status?: { readonly userInfo?: { readonly username?: string } };
}

/** GA since Kubernetes 1.28 (KEP-3325). Nothing of it is stored. */
const selfSubjectReviews = clusterKind<SelfSubjectReview>(
  'authentication.k8s.io',
  'selfsubjectreviews',
  'SelfSubjectReview',
);

/**
 * As the API knows this user; otherwise what the kubeconfig and the machine say, unchecked.
 *
 * @throws what the API throws, except for its refusals
 */
export async function personOf(
  client: KubeClient,
  cluster: ClusterChoice,
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
  const person = `${process.env['SUDO_USER'] || userInfo().username}@${hostname()}`;
  const named = kubeconfigUser(cluster);
  return named === undefined ? person : `${named} (${person})`;
}

/** The name of the user entry, which people choose freely. */
function kubeconfigUser(cluster: ClusterChoice): string | undefined {
  const config = loadKubeconfig({ path: chosenKubeconfig(cluster) });
  return config?.contexts.get(cluster.context ?? config.currentContext ?? '')?.fields.text('user');
}
