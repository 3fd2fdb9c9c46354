/**
 * `rampart agent`: the options, and nothing else; the work is loaded when it is asked for.
 *
 * @module
 */
import { Command, Option } from 'commander';

import type { Guard, OptionValues } from '../../shared/guard/guard.ts';
import { addGuardOptions, type GuardChoice } from '../guard-options.ts';
import { criSocketOption, hostRootOption, metricsAndHealth, metricsOption } from '../options.ts';

export interface AgentOptions extends GuardChoice, OptionValues {
  readonly nodeName?: string;
  readonly kubeconfig?: string;
  readonly criSocket?: string;
  readonly hostRoot: string;
  readonly alertsSocket?: string;
  readonly metrics?: string;
}

export function agentCommand(guards: readonly Guard[]): Command {
  const command = new Command('agent')
    .summary('guard this node of a cluster')
    .description(
      'Guards this node as the resources in the cluster say, until it is stopped. Alerts and findings go to stdout, one JSON ' +
        'object a line; alerts go to the callbacks that the resources name as well.\n' +
        'Finds the cluster as kubectl does: --kubeconfig, KUBECONFIG, ~/.kube/config, or the pod that it runs in.',
    )
    .addOption(new Option('--node-name <name>', 'the name of this node in the cluster').env('NODE_NAME'))
    .option('--kubeconfig <file>', 'the kubeconfig of the cluster');
  return addGuardOptions(command, 'agent', guards)
    .addOption(criSocketOption())
    .addOption(hostRootOption())
    .option(
      '--alerts-socket <path>',
      'where `rampart alerts` on this machine finds the last alerts; default: /run/rampart/alerts.sock',
    )
    .addOption(metricsOption(metricsAndHealth))
    .addHelpText(
      'after',
      '\nExit codes: 0 stopped by Ctrl-C or SIGTERM, 1 failed, 2 nothing was done: bad input, missing rights or kernel features.\n',
    )
    .action(async (options: AgentOptions) => {
      const { runAgent } = await import('./run.ts');
      await runAgent(guards, options);
    });
}
