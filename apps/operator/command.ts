/**
 * `rampart operator`: the options, and nothing else; the work is loaded when it is asked for.
 *
 * @module
 */
import { Command } from 'commander';

import type { Guard, OptionValues } from '../../shared/guard/guard.ts';
import { addGuardOptions, type GuardChoice } from '../guard-options.ts';
import { metricsAndHealth, metricsOption } from '../options.ts';

export interface OperatorOptions extends GuardChoice, OptionValues {
  readonly kubeconfig?: string;
  readonly metrics?: string;
}

export function operatorCommand(guards: readonly Guard[]): Command {
  const command = new Command('operator')
    .summary('run what a cluster needs once')
    .description(
      'Looks after the resources of the guards for the whole cluster, until it is stopped. Of several processes one ' +
        'works, and another takes over within 15 seconds when that one dies.\n' +
        'Finds the cluster as kubectl does: --kubeconfig, KUBECONFIG, ~/.kube/config, or the pod that it runs in.',
    )
    .option('--kubeconfig <file>', 'the kubeconfig of the cluster');
  return addGuardOptions(command, 'operator', guards)
    .addOption(metricsOption(metricsAndHealth))
    .addHelpText(
      'after',
      '\nExit codes: 0 stopped by Ctrl-C or SIGTERM, 1 failed, 2 nothing was done: bad input.\n',
    )
    .action(async (options: OperatorOptions) => {
      const { runOperator } = await import('./run.ts');
      await runOperator(guards, options);
    });
}
