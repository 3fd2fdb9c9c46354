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

/** GA since Kubernetes 1.28 (KEP-3325). The API server does not store it. */
const selfSubjectReviews = clusterKind<SelfSubjectReview>(
  'authentication.k8s.io',
  'selfsubjectreviews',
  'SelfSubjectReview',
);

/**
 * The user's name in the API; if the API does not tell, the names in the kubeconfig and on this machine, which are unverified.
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
    // An older server, the embedded one, or one that forbids this request.
    if (!(error instanceof KubeError)) throw error;
  }
  const person = `${process.env['SUDO_USER'] || userInfo().username}@${hostname()}`;
  const named = kubeconfigUser(cluster);
  return named === undefined ? person : `${named} (${person})`;
}

/** The name of the user entry in the kubeconfig, which its author can choose freely. */
function kubeconfigUser(cluster: ClusterChoice): string | undefined {
  const config = loadKubeconfig({ path: chosenKubeconfig(cluster) });
  return config?.contexts.get(cluster.context ?? config.currentContext ?? '')?.fields.text('user');
}
