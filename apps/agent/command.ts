/** `rampart agent`: options only; the implementation is loaded on demand. */
import { Command, Option } from 'commander';

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
import {
  criSocketOption,
  hostRootOption,
  metricsAndHealth,
  metricsOption,
  metricsTlsOption,
} from '../../lib/cli/options.ts';

export interface AgentOptions extends GuardChoice, OtlpQueueOptions, OptionValues {
  readonly nodeName?: string;
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly criSocket?: string;
  readonly hostRoot: string;
  readonly alertsSocket?: string;
  readonly metrics?: string;
  readonly metricsTls?: string;
}

export function agentCommand(guards: readonly Guard[]): Command {
  const command = new Command('agent')
    .summary('run the guards on this node of a cluster')
    .description(
      'Runs the guards on this node, as configured by resources in the cluster, until stopped. Writes alerts and findings to stdout, one JSON ' +
        'object per line, and sends alerts to the callbacks that the resources name.\n' +
        'Finds the cluster as kubectl does: --kubeconfig, KUBECONFIG, ~/.kube/config, or the service account of its pod.',
    )
    .addOption(new Option('--node-name <name>', 'the name of this node in the cluster').env('NODE_NAME'));
  addClusterOptions(command)
    .addOption(criSocketOption())
    .addOption(hostRootOption())
    .option(
      '--alerts-socket <path>',
      'the socket that serves `rampart alerts` on this machine; default: /run/rampart/alerts.sock',
    )
    .addOption(otlpEndpointOption())
    .addOption(otlpQueueOption())
    .addOption(metricsOption(metricsAndHealth))
    .addOption(metricsTlsOption())
    .action(async (options: AgentOptions) => {
      failAsService();
      const { runAgent } = await import('./run.ts');
      await runAgent(guards, options);
    });
  addGuardOptions(command, 'agent', guards);
  return addHelp(command, {
    examples: [
      'rampart agent --node-name worker-1 --kubeconfig /etc/rampart/kubeconfig',
      'rampart agent --node-name worker-1 --guards file-access,network-policy',
    ],
    exitCodes: serviceExitCodes,
  });
}
