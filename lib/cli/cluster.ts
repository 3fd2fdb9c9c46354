/** Which cluster a command is for. */
import { join, resolve } from 'node:path';

import { type ClusterAccess, findClusterAccess } from '../kube/access/cluster-access.ts';
import { errorCodes, RampartError } from '../errors/errors.ts';
import type { ClusterChoice } from './cluster-options.ts';
import { refuseEmpty } from './options.ts';

/** @throws {RampartError} `INPUT` if nothing is found, or what is found cannot work. */
export function clusterAccess(choice: ClusterChoice = {}): ClusterAccess {
  return findClusterAccess({ path: chosenKubeconfig(choice), context: choice.context });
}

/** The kubeconfig that was named, if any. @throws {RampartError} `INPUT` if two were given, or one is empty. */
export function chosenKubeconfig({ kubeconfig, context, data }: ClusterChoice): string | undefined {
  refuseEmpty({ '--kubeconfig': kubeconfig, '--context': context, '--data': data });
  if (data === undefined) return kubeconfig;
  if (kubeconfig === undefined) return join(resolve(data), 'kubeconfig');
  throw new RampartError(errorCodes.INPUT, {
    what: '--kubeconfig and --data together',
    why: 'each names an API server',
    next: 'Use only one of them',
  });
}
