/** `rampart standalone`: options only; the implementation is loaded on demand. */
import { Command, InvalidArgumentError, Option } from 'commander';

import type { Guard, OptionValues } from '../../guard/guard.ts';
import { addGuardOptions, type GuardChoice } from '../../guard/guard-options.ts';
import { otlpEndpointOption, type OtlpOptions } from '../../guard/stream/otlp-export.ts';
import { defaultListen } from '../apiserver/listen-address.ts';
import { failAsService } from '../../lib/cli/failure.ts';
import { addHelp, serviceExitCodes } from '../../lib/cli/help.ts';
import {
  append,
  criSocketOption,
  hostRootOption,
  metricsAndHealth,
  metricsOption,
  metricsTlsOption,
} from '../../lib/cli/options.ts';

export interface StandaloneOptions extends GuardChoice, OtlpOptions, OptionValues {
  readonly data?: string;
  readonly file: readonly string[];
  readonly listen: string;
  readonly host: readonly string[];
  readonly criSocket?: string;
  readonly hostRoot: string;
  readonly nodeName?: string;
  readonly nodeLabel: readonly (readonly [string, string])[];
  readonly metrics?: string;
  readonly metricsTls?: string;
  readonly ui?: true;
}

export function standaloneCommand(guards: readonly Guard[]): Command {
  const command = new Command('standalone')
    .summary('run all guards on this machine, without a cluster')
    .description(
      'Runs a Kubernetes API, the operator and the agent in one process, until stopped. The API has the pods of the container ' +
        'runtime as read-only Pod objects; create the resources of the guards with kubectl, or in files.\n' +
        'Writes alerts to stdout, one JSON object per line, and messages to stderr, among them the path of the kubeconfig.',
    )
    .option('--data <dir>', 'the data directory, created if missing; without it, nothing is kept')
    .option(
      '-f, --file <path>',
      'apply this manifest, or the manifests in this directory, and again when they change; repeatable',
      append,
      [],
    )
    .option(
      '--listen <address>',
      'host:port to serve the API on, with TLS; port 0 selects a free one',
      defaultListen,
    )
    .option(
      '--node-label <key=value>',
      'a label of the Node object of this machine, such as node-role.kubernetes.io/worker=; repeatable',
      (text: string, before: readonly (readonly [string, string])[]) => [...before, nodeLabel(text)],
      [],
    )
    .option(
      '--ui',
      'serve the page of `rampart ui` at /ui/ of the API, to whoever has the token in viewer.token',
    )
    .option('--host <name>', 'additional name or address for the certificate; repeatable', append, [])
    .addOption(criSocketOption())
    .addOption(
      new Option('--node-name <name>', 'the name of the Node object; default: the host name').env(
        'NODE_NAME',
      ),
    )
    .addOption(hostRootOption())
    .addOption(otlpEndpointOption())
    .addOption(metricsOption(metricsAndHealth))
    .addOption(metricsTlsOption())
    .action(async (options: StandaloneOptions) => {
      failAsService();
      const { runStandalone } = await import('./run.ts');
      await runStandalone(guards, options);
    });
  addGuardOptions(command, 'standalone', guards);
  return addHelp(command, {
    examples: [
      'rampart standalone --data /var/lib/rampart -f policies/',
      'kubectl --kubeconfig /var/lib/rampart/kubeconfig get pods -A',
      'rampart standalone -f policy.yaml | jq -r .process.binary',
    ],
    exitCodes: serviceExitCodes,
  });
}

function nodeLabel(text: string): readonly [string, string] {
  const at = text.indexOf('=');
  if (at < 1) throw new InvalidArgumentError('Write KEY=VALUE; the value may be empty.');
  return [text.slice(0, at), text.slice(at + 1)];
}
