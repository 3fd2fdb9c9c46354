/** `rampart status`: options only; the implementation is loaded on demand. */
import { Command } from 'commander';

import type { Guard } from '../../guard/guard.ts';
import { addApiOptions, addNamespaceOption } from '../../lib/cli/cluster-options.ts';
import { addHelp } from '../../lib/cli/help.ts';
import { addOutput, type TableFormat, tableFormats } from '../../lib/cli/output-option.ts';

export interface StatusOptions {
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly data?: string;
  readonly namespace?: string;
  readonly output: TableFormat;
}

export function statusCommand(guards: readonly Guard[]): Command {
  const command = new Command('status')
    .summary('show what is guarded, and why something is not')
    .description(
      'Shows which objects are guarded, and of the others why not, since when and what to do; which files of the nodes ' +
        'have changed; whether the agents and the operator run; and which guards run on which node. An object is guarded if each process that it needs ' +
        'renews its lease, runs the guard, and has reported on it since its last change. Changes nothing, requires read access only, and lists what it may not ' +
        'read.\n' +
        'Finds the cluster as kubectl does: --kubeconfig, KUBECONFIG, ~/.kube/config, or the service account of its pod.',
    )
    .action(async (options: StatusOptions) => {
      const { runStatus } = await import('./run.ts');
      process.exitCode = await runStatus(guards, options);
    });
  addNamespaceOption(addApiOptions(command), 'only the objects of this namespace');
  addOutput(command, tableFormats, { schemas: ['rampart.dev/status/v2'], former: '--format' });
  return addHelp(command, {
    examples: [
      'rampart status',
      'rampart status --data /var/lib/rampart -o wide',
      "rampart status -o json | jq -r '.problems[] | [.object.name, .why] | @tsv'",
    ],
    exitCodes: {
      0: 'every object is guarded (files may have changed)',
      1: 'one is not',
      2: 'unknown: bad input, or the API does not respond',
    },
  });
}
