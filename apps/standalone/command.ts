/**
 * `rampart standalone`: the options, and nothing else; the work is loaded when it is asked for.
 *
 * @module
 */
import { Command, InvalidArgumentError, Option } from 'commander';

import type { Guard, OptionValues } from '../../shared/guard/guard.ts';
import { addGuardOptions, type GuardChoice } from '../guard-options.ts';
import { append, criSocketOption, hostRootOption, metricsAndHealth, metricsOption } from '../options.ts';

export interface StandaloneOptions extends GuardChoice, OptionValues {
  readonly data?: string;
  readonly file: readonly string[];
  readonly listen: string;
  readonly host: readonly string[];
  readonly criSocket?: string;
  readonly hostRoot: string;
  readonly nodeName?: string;
  readonly nodeLabel: readonly (readonly [string, string])[];
  readonly metrics?: string;
}

export function standaloneCommand(guards: readonly Guard[]): Command {
  const command = new Command('standalone')
    .summary('guard this machine, without a cluster')
    .description(
      'Runs the Kubernetes API, the operator and the agent in one process, until it is stopped. The pods of the container ' +
        'runtime are in the API as Pod objects, read-only; what guards them is written with kubectl, or in files.\n' +
        'Alerts go to stdout, one JSON object a line; all else that is said, the path of the kubeconfig first, to stderr.',
    )
    .option(
      '--data <dir>',
      'keep everything there, made when it is missing; without it all is gone at the end',
    )
    .option(
      '-f, --file <path>',
      'apply this manifest, or those in this directory, and follow them while they are edited; repeatable',
      append,
      [],
    )
    .option(
      '--listen <address>',
      'host:port to serve the API on, by TLS; port 0 takes any free one',
      '127.0.0.1:7443',
    )
    .option(
      '--node-label <key=value>',
      'a label of the Node that stands for this machine, as node-role.kubernetes.io/worker=; repeatable',
      (text: string, before: readonly (readonly [string, string])[]) => [...before, nodeLabel(text)],
      [],
    )
    .option('--host <name>', 'additional name or address for the certificate; repeatable', append, [])
    .addOption(criSocketOption())
    .addOption(
      new Option('--node-name <name>', 'the name of the Node object; default: the host name').env(
        'NODE_NAME',
      ),
    )
    .addOption(hostRootOption())
    .addOption(metricsOption(metricsAndHealth))
    .addHelpText(
      'after',
      '\nExamples:\n' +
        '  rampart standalone --data /var/lib/rampart -f policies/\n' +
        '  kubectl --kubeconfig /var/lib/rampart/kubeconfig get pods -A\n' +
        '  rampart standalone -f policy.yaml | jq -r .process.binary\n' +
        '\nExit codes: 0 stopped by Ctrl-C or SIGTERM, 1 failed, 2 nothing was done: bad input, missing rights or kernel features.\n',
    )
    .action(async (options: StandaloneOptions) => {
      const { runStandalone } = await import('./run.ts');
      await runStandalone(guards, options);
    });
  return addGuardOptions(command, 'standalone', guards);
}

function nodeLabel(text: string): readonly [string, string] {
  const at = text.indexOf('=');
  if (at < 1) throw new InvalidArgumentError('Write KEY=VALUE; the value may be empty.');
  return [text.slice(0, at), text.slice(at + 1)];
}
