import { join, resolve } from 'node:path';

import { type ClusterAccess, findClusterAccess } from '../kube/access/cluster-access.ts';
import { errorCodes, RampartError } from '../errors/errors.ts';
import { refuseEmpty } from './options.ts';

/**
 * @param kubeconfig the file that was named, if any: then no other counts.
 * @throws {RampartError} `INPUT` where nothing is found, or what is found cannot work.
 */
export function clusterAccess(kubeconfig: string | undefined): ClusterAccess {
  return findClusterAccess({ path: kubeconfig });
}

/** How people name a cluster: by a kubeconfig, or by the data directory of `rampart standalone`. */
interface ClusterChoice {
  readonly kubeconfig?: string | undefined;
  readonly data?: string | undefined;
}

/** The kubeconfig that was named, if any. @throws {RampartError} `INPUT` where both were given, or one is empty. */
export function chosenKubeconfig({ kubeconfig, data }: ClusterChoice): string | undefined {
  refuseEmpty({ '--kubeconfig': kubeconfig, '--data': data });
  if (data === undefined) return kubeconfig;
  if (kubeconfig === undefined) return join(resolve(data), 'kubeconfig');
  throw new RampartError(errorCodes.INPUT, {
    what: '--kubeconfig and --data together',
    why: 'each names an API server',
    next: 'Use only one of them',
  });
}
