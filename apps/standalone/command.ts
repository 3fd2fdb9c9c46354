/**
 * `rampart standalone`: the options, and nothing else; the work is loaded when it is asked for.
 *
 * @module
 */
import { Command, Option } from 'commander';

import {
  allowCallbackOption,
  append,
  callbackSecretOption,
  criSocketOption,
  type IntegrityOptions,
  integrityOptions,
  metricsAndHealth,
  metricsOption,
  type ModeChoice,
  modeOption,
} from '../options.ts';

export interface StandaloneOptions extends IntegrityOptions {
  readonly data?: string;
  readonly file: readonly string[];
  readonly listen: string;
  readonly host: readonly string[];
  readonly criSocket?: string;
  readonly nodeName?: string;
  readonly allowCallback: readonly string[];
  readonly callbackSecret: readonly string[];
  readonly mode: ModeChoice;
  readonly metrics?: string;
}

export function standaloneCommand(): Command {
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
      '--host <name>',
      'another name or address the certificate is to be valid for; repeatable',
      append,
      [],
    )
    .addOption(criSocketOption())
    .addOption(
      new Option('--node-name <name>', 'the name of the Node object; default: the host name').env(
        'NODE_NAME',
      ),
    )
    .addOption(allowCallbackOption())
    .addOption(callbackSecretOption())
    .addOption(modeOption())
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
      await runStandalone(options);
    });
  for (const option of integrityOptions()) command.addOption(option);
  return command;
}
