/** `rampart status`: options only; the implementation is loaded on demand. */
import { Command, Option } from 'commander';

import type { Guard } from '../../guard/guard.ts';

export interface StatusOptions {
  readonly kubeconfig?: string;
  readonly data?: string;
  readonly namespace?: string;
  readonly format: 'table' | 'json';
}

export function statusCommand(guards: readonly Guard[]): Command {
  return new Command('status')
    .summary('show what is guarded, and why something is not')
    .description(
      'Shows what each policy guards on which node, what it does not and why, which files of the nodes ' +
        'have changed, whether the agents and the operator run, and which guards work on which node. Changes nothing, requires read access only, and lists what it may not ' +
        'read.\n' +
        'Finds the cluster as kubectl does: --kubeconfig, KUBECONFIG, ~/.kube/config, or the service account of its pod.',
    )
    .option('--kubeconfig <file>', 'the kubeconfig of the cluster')
    .option('--data <dir>', 'the directory of `rampart standalone`')
    .option('-n, --namespace <name>', 'only the policies and FileIntegrities of this namespace')
    .addOption(new Option('--format <format>', 'output').choices(['table', 'json']).default('table'))
    .addHelpText(
      'after',
      '\nExamples:\n' +
        '  rampart status\n' +
        '  rampart status --data /var/lib/rampart\n' +
        "  rampart status --format json | jq '.policies[] | select(.guarded | not) | .problems'\n" +
        '\nExit codes: 0 everything requested is guarded (files may have changed), 1 something is not, 2 unknown: bad input, or the API does not respond.\n',
    )
    .action(async (options: StatusOptions) => {
      const { runStatus } = await import('./run.ts');
      process.exitCode = await runStatus(guards, options);
    });
}
