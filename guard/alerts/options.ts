import type { Command } from 'commander';

import type { Severity } from '../stream/finding.ts';

export interface AlertsOptions {
  readonly follow?: true;
  /** Names. Default: all. */
  readonly guard?: readonly string[];
  /** Of this one and above. */
  readonly severity?: Severity;
  readonly policy: readonly string[];
  readonly pod: readonly string[];
  readonly path: readonly string[];
  readonly since?: string;
  readonly tail?: number;
  readonly format?: 'pretty' | 'json' | undefined;
  readonly socket?: string;
  readonly data?: string;
  readonly kubeconfig?: string;
}

/** For commands that read alerts: where from. */
export function withSources(command: Command): Command {
  return command
    .option('--socket <path>', 'the socket of an agent, its --alerts-socket')
    .option('--data <dir>', 'the directory of `rampart standalone`')
    .option(
      '--kubeconfig <file>',
      'the kubeconfig of the cluster, to read the logs of its agents, operators and policy servers',
    );
}
