/** Which cluster a command is for: the options, and what they come to. */
import { join, resolve } from 'node:path';

import type { Command } from 'commander';

import { type ClusterAccess, findClusterAccess } from '../kube/access/cluster-access.ts';
import { errorCodes, RampartError } from '../errors/errors.ts';
import { refuseEmpty } from './options.ts';

/** How people name a cluster: by a kubeconfig and its context, or by the data directory of `rampart standalone`. */
export interface ClusterChoice {
  readonly kubeconfig?: string | undefined;
  readonly context?: string | undefined;
  readonly data?: string | undefined;
}

/** Adds `--kubeconfig` and `--context`, which mean what they mean for kubectl. */
export function addClusterOptions(command: Command, purpose = ''): Command {
  return command
    .option('--kubeconfig <file>', `the kubeconfig of the cluster${purpose && `, ${purpose}`}`)
    .option('--context <name>', 'the context of the kubeconfig; default: its current one');
}

/** {@link addClusterOptions}, and `--data`. */
export function addApiOptions(command: Command, purpose?: string): Command {
  return addClusterOptions(command, purpose).option('--data <dir>', 'the directory of `rampart standalone`');
}

/** Adds `-n`. */
export function addNamespaceOption(command: Command, what: string): Command {
  return command.option('-n, --namespace <name>', what);
}

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
