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
      'Shows which objects are guarded, and of the others why not, since when and what to do; which files of the nodes ' +
        'have changed; whether the agents and the operator run; and which guards run on which node. An object is guarded if each process that it needs ' +
        'renews its lease, runs the guard, and has reported on it since its last change. Changes nothing, requires read access only, and lists what it may not ' +
        'read.\n' +
        'Finds the cluster as kubectl does: --kubeconfig, KUBECONFIG, ~/.kube/config, or the service account of its pod.',
    )
    .option('--kubeconfig <file>', 'the kubeconfig of the cluster')
    .option('--data <dir>', 'the directory of `rampart standalone`')
    .option('-n, --namespace <name>', 'only the objects of this namespace')
    .addOption(new Option('--format <format>', 'output').choices(['table', 'json']).default('table'))
    .addHelpText(
      'after',
      '\nExamples:\n' +
        '  rampart status\n' +
        '  rampart status --data /var/lib/rampart\n' +
        "  rampart status --format json | jq -r '.problems[] | [.guard, .object.name, .node, .why] | @tsv'\n" +
        '\nExit codes: 0 every object is guarded (files may have changed), 1 one is not, 2 unknown: bad input, or the API does not respond.\n',
    )
    .action(async (options: StatusOptions) => {
      const { runStatus } = await import('./run.ts');
      process.exitCode = await runStatus(guards, options);
    });
}
