/** Finds the cluster that a command works on. */
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';

import { type ClusterAccess, findClusterAccess } from '../kube/access/cluster-access.ts';
import { errorCodes, RampartError } from '../errors/errors.ts';
import type { ClusterChoice } from './cluster-options.ts';
import { refuseEmpty } from './options.ts';

/** Written by `rampart standalone` when the package's service starts it. Only root can read it. */
const machineKubeconfig = '/var/lib/rampart/kubeconfig';

/** @throws {RampartError} `INPUT` if no cluster is found, or its configuration cannot work. */
export function clusterAccess(choice: ClusterChoice = {}): ClusterAccess {
  const suggestion = existsSync(machineKubeconfig) ? machineKubeconfig : undefined;
  return findClusterAccess({ path: chosenKubeconfig(choice), context: choice.context, suggestion });
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
