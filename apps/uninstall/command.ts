/** `rampart uninstall`: options only; the implementation is loaded on demand. */
import { Command } from 'commander';

import type { Guard, OptionValues } from '../../guard/guard.ts';
import { addGuardOptions, type GuardChoice } from '../../guard/guard-options.ts';
import { otlpQueueOption } from '../../guard/stream/otlp-export.ts';
import { addClusterOptions } from '../../lib/cli/cluster-options.ts';
import { addOutput, type PrettyFormat, prettyFormats } from '../../lib/cli/output-option.ts';
import { addHelp } from '../../lib/cli/help.ts';
import { hostRootOption } from '../../lib/cli/options.ts';

export interface UninstallOptions {
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly yes?: boolean;
  readonly output: PrettyFormat;
  readonly keepObjects?: boolean;
}

export interface UninstallNodeOptions extends GuardChoice, OptionValues {
  readonly hostRoot: string;
  readonly otlpQueue: string;
  readonly keepData?: boolean;
  readonly output: PrettyFormat;
}

export function uninstallCommand(guards: readonly Guard[]): Command {
  const command = new Command('uninstall')
    .summary('remove Rampart from a cluster')
    .description(
      'Removes webhooks first, then the operator, what the agents left on each node, finalizers, definitions with all their ' +
        'objects, roles and the namespace, and lists what it removed. It can be repeated if it was interrupted.\n' +
        'Finds the cluster as kubectl does: --kubeconfig, KUBECONFIG, ~/.kube/config, or the service account of its pod.',
    )
    .option('-y, --yes', "delete users' objects, such as policies, without asking")
    .option('--keep-objects', "keep definitions and users' objects, without finalizers, webhooks and status")
    .addCommand(nodeCommand(guards))
    .action(async (options: UninstallOptions) => {
      const { runUninstall } = await import('./run.ts');
      process.exitCode = await runUninstall(guards, options);
    });
  addClusterOptions(command);
  addOutput(command, prettyFormats, { schemas: ['rampart.dev/uninstall/v1'] });
  return addHelp(command, {
    examples: [
      'rampart uninstall',
      'rampart uninstall --keep-objects --context staging',
      'rampart uninstall -y -o json',
    ],
    exitCodes: {
      0: 'nothing is left',
      1: 'something is left',
      2: 'failed: bad input, no response, or the answer was no',
    },
  });
}

function nodeCommand(guards: readonly Guard[]): Command {
  const command = new Command('node')
    .summary('remove what the agent left on this node')
    .description(
      "Removes the guards' rules, sets, programs and pins from this machine's kernel, and their directories. `rampart uninstall` runs it " +
        "on every node, in place of the agent and with its options. Stop the agent first; requires the agent's privileges.",
    );
  command
    .addOption(otlpQueueOption())
    .addOption(hostRootOption())
    .option('--keep-data', 'keep the directories: baselines, and what waits to be sent')
    // An agent's other options are ignored: they leave nothing behind.
    .allowUnknownOption()
    .allowExcessArguments()
    .action(async (options: UninstallNodeOptions) => {
      const { runUninstallNode } = await import('./node.ts');
      process.exitCode = await runUninstallNode(guards, options);
    });
  addGuardOptions(command, 'agent', guards);
  addOutput(command, prettyFormats, { schemas: ['rampart.dev/uninstall-node/v1'] });
  return addHelp(command, {
    examples: ['rampart uninstall node', 'rampart uninstall node --guards network-policy -o json'],
    exitCodes: { 0: 'nothing is left', 1: 'something could not be removed' },
  });
}
