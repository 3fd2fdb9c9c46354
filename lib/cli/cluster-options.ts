/** The options that name a cluster. Separate from `cluster.ts`, which also loads the code that connects to one. */
import type { Command } from 'commander';

/** The cluster that a user named: by a kubeconfig and its context, or by the data directory of `rampart standalone`. */
export interface ClusterChoice {
  readonly kubeconfig?: string | undefined;
  readonly context?: string | undefined;
  readonly data?: string | undefined;
}

/** Adds `--kubeconfig` and `--context`, with the same meaning as for kubectl. */
export function addClusterOptions(command: Command, purpose = ''): Command {
  return command
    .option('--kubeconfig <file>', `the kubeconfig of the cluster${purpose && `, ${purpose}`}`)
    .option('--context <name>', 'the context of the kubeconfig; default: its current one');
}

/** Adds the options of {@link addClusterOptions}, and `--data`. */
export function addApiOptions(command: Command, purpose?: string): Command {
  return addClusterOptions(command, purpose).option('--data <dir>', 'the directory of `rampart standalone`');
}

/** Adds `-n`. */
export function addNamespaceOption(command: Command, what: string): Command {
  return command.option('-n, --namespace <name>', what);
}
