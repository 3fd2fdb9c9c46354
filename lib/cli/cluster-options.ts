/** How the command line names a cluster. Apart from `cluster.ts`, which loads what it takes to call one. */
import type { Command } from 'commander';

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
