/** `rampart operator`: options only; the implementation is loaded on demand. */
import { Command } from 'commander';

import type { Guard, OptionValues } from '../../guard/guard.ts';
import { addGuardOptions, type GuardChoice } from '../../guard/guard-options.ts';
import {
  otlpEndpointOption,
  otlpQueueOption,
  type OtlpQueueOptions,
} from '../../guard/stream/otlp-export.ts';
import { addClusterOptions } from '../../lib/cli/cluster-options.ts';
import { failAsService } from '../../lib/cli/failure.ts';
import { addHelp, serviceExitCodes } from '../../lib/cli/help.ts';
import { metricsAndHealth, metricsOption, metricsTlsOption } from '../../lib/cli/options.ts';

export interface OperatorOptions extends GuardChoice, OtlpQueueOptions, OptionValues {
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly metrics?: string;
  readonly metricsTls?: string;
}

export function operatorCommand(guards: readonly Guard[]): Command {
  const command = new Command('operator')
    .summary('run the cluster-wide parts of the guards')
    .description(
      'Runs the controllers of the guards for the whole cluster, until stopped. Of several processes, one ' +
        'leads, and another takes over within 15 seconds when it dies.\n' +
        'Finds the cluster as kubectl does: --kubeconfig, KUBECONFIG, ~/.kube/config, or the service account of its pod.',
    );
  addClusterOptions(command)
    .addOption(otlpEndpointOption())
    .addOption(otlpQueueOption())
    .addOption(metricsOption(metricsAndHealth))
    .addOption(metricsTlsOption())
    .action(async (options: OperatorOptions) => {
      failAsService();
      const { runOperator } = await import('./run.ts');
      await runOperator(guards, options);
    });
  addGuardOptions(command, 'operator', guards);
  return addHelp(command, {
    examples: ['rampart operator --kubeconfig ~/.kube/config --metrics 127.0.0.1:9465'],
    exitCodes: serviceExitCodes,
  });
}
