import type { Command } from 'commander';

import { addApiOptions, addNamespaceOption } from '../../lib/cli/cluster-options.ts';
import type { PrettyFormat } from '../../lib/cli/output-option.ts';
import type { Severity } from '../stream/finding.ts';

export interface AlertsOptions {
  readonly follow?: true;
  /** Names of guards. Default: all. */
  readonly guard?: readonly string[];
  /** Only findings of this severity and above. */
  readonly severity?: Severity;
  readonly policy: readonly string[];
  readonly pod: readonly string[];
  readonly path: readonly string[];
  readonly since?: string;
  readonly tail?: number;
  /** The namespace of objects or policies. */
  readonly namespace?: string;
  readonly output?: PrettyFormat | undefined;
  readonly socket?: string;
  readonly data?: string;
  readonly kubeconfig?: string;
  readonly context?: string;
}

/** Adds options to a command that reads alerts: which source, and which namespace. */
export function addSources(command: Command): Command {
  command.option('--socket <path>', 'the socket of an agent, its --alerts-socket');
  addApiOptions(command, 'to read the logs of its agents, operators and policy servers');
  return addNamespaceOption(command, 'only findings about objects, or by policies, of this namespace');
}

export const originNote =
  'Without --socket, --data, --kubeconfig and --context: the agent or standalone process of this machine if there is one (/run/rampart/alerts.sock, /var/lib/rampart/alerts.sock), else the cluster that kubectl would use.';
