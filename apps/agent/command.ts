/**
 * `rampart agent`: the options, and nothing else; the work is loaded when it is asked for.
 *
 * @module
 */
import { Command, Option } from 'commander';

import {
  allowCallbackOption,
  callbackSecretOption,
  criSocketOption,
  type IntegrityOptions,
  integrityOptions,
  metricsAndHealth,
  metricsOption,
  type ModeChoice,
  modeOption,
} from '../options.ts';

export interface AgentOptions extends IntegrityOptions {
  readonly nodeName?: string;
  readonly kubeconfig?: string;
  readonly criSocket?: string;
  readonly spool: string;
  readonly integrityDirectory: string;
  readonly alertsSocket?: string;
  readonly allowCallback: readonly string[];
  readonly callbackSecret: readonly string[];
  readonly mode: ModeChoice;
  readonly metrics?: string;
}

export function agentCommand(): Command {
  const command = new Command('agent')
    .summary('guard this node of a cluster')
    .description(
      'Guards the containers of this node as the resources in the cluster say, until it is stopped. Alerts go to stdout, ' +
        'one JSON object a line, and to the callbacks that the resources name; findings of file integrity go to stdout as well.\n' +
        'Finds the cluster as kubectl does: --kubeconfig, KUBECONFIG, ~/.kube/config, or the pod that it runs in.',
    )
    .addOption(new Option('--node-name <name>', 'the name of this node in the cluster').env('NODE_NAME'))
    .option('--kubeconfig <file>', 'the kubeconfig of the cluster')
    .addOption(criSocketOption())
    .option('--spool <dir>', 'where alerts wait for their callbacks', '/var/lib/rampart/spool')
    .option(
      '--alerts-socket <path>',
      'where `rampart alerts` on this machine finds the last alerts; default: /run/rampart/alerts.sock',
    )
    .option(
      '--integrity-directory <dir>',
      'where the baselines of FileIntegrity are kept',
      '/var/lib/rampart/integrity',
    )
    .addOption(allowCallbackOption())
    .addOption(callbackSecretOption())
    .addOption(modeOption())
    .addOption(metricsOption(metricsAndHealth))
    .addHelpText(
      'after',
      '\nExit codes: 0 stopped by Ctrl-C or SIGTERM, 1 failed, 2 nothing was done: bad input, missing rights or kernel features.\n',
    )
    .action(async (options: AgentOptions) => {
      const { runAgent } = await import('./run.ts');
      await runAgent(options);
    });
  for (const option of integrityOptions()) command.addOption(option);
  return command;
}
