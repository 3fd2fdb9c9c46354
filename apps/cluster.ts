/**
 * Which cluster a command is for.
 *
 * @module
 */
import { type ClusterAccess, findClusterAccess } from '../shared/kube/cluster-access.ts';

/**
 * @param kubeconfig the file that was named, if any: then no other counts.
 * @throws {RampartError} `INPUT` where nothing is found, or what is found cannot work.
 */
export function clusterAccess(kubeconfig: string | undefined): ClusterAccess {
  return findClusterAccess(kubeconfig === undefined ? {} : { path: kubeconfig });
}
