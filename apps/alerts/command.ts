/**
 * `rampart alerts`: the options, and nothing else; the work is loaded when it is asked for.
 *
 * @module
 */
import { Command, InvalidArgumentError, Option } from 'commander';

import type { Guard } from '../../shared/guard/guard.ts';
import { append } from '../options.ts';

export interface AlertsOptions {
  readonly follow?: true;
  readonly policy: readonly string[];
  readonly pod: readonly string[];
  readonly path: readonly string[];
  readonly since?: string;
  readonly tail?: number;
  readonly format?: 'pretty' | 'json';
  readonly socket?: string;
  readonly data?: string;
  readonly kubeconfig?: string;
}

function wholeNumber(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('A whole number is needed.');
  return Number(text);
}

export function alertsCommand(guards: readonly Guard[]): Command {
  return new Command('alerts')
    .summary('show the last alerts, and those that come')
    .description(
      'Shows the last alerts of the agents, and with --follow those that come, until Ctrl-C. On the machine of an agent or ' +
        'of `rampart standalone` they come from its socket, which takes root; in a cluster from the logs of the agents.\n' +
        'Findings of file integrity are among them. On a terminal each is a readable line; otherwise the JSON object that the agent wrote.',
    )
    .option('-f, --follow', 'go on with the alerts that come')
    .option(
      '--policy <[ns/]name>',
      'only those of this policy or FileIntegrity; repeatable: any of them',
      append,
      [],
    )
    .option(
      '--pod <[ns/]name>',
      'only those of files of this pod, and findings that it made; repeatable',
      append,
      [],
    )
    .option(
      '--path <glob>',
      'only those of this path, in the container or on the node; repeatable',
      append,
      [],
    )
    .option('--since <time>', 'only those since then: 90s, 10m, 2h, 1d ago, or 2026-11-21T10:00:00Z')
    .option(
      '--tail <number>',
      'at most so many of the last ones; default: 1000, with --follow 10, with --since all that are kept',
      wholeNumber,
    )
    .addOption(
      new Option('--format <format>', 'output; default: pretty on a terminal, json elsewhere').choices([
        'pretty',
        'json',
      ]),
    )
    .option('--socket <path>', 'the socket of an agent, its --alerts-socket')
    .option('--data <dir>', 'the directory of `rampart standalone`')
    .option('--kubeconfig <file>', 'the cluster, by the logs of its agents')
    .addHelpText(
      'after',
      '\nWithout --socket, --data and --kubeconfig: the agent or standalone of this machine where there is one\n' +
        '(/run/rampart/alerts.sock, /var/lib/rampart/alerts.sock), else the cluster that kubectl would take.\n' +
        '\nNames and paths are globs, and exact without *, ?, [a-c] and {a,b}. In paths * is no /, and ** is anything;\n' +
        'a path without / is the name of the file. Filters of different kinds all have to fit.\n' +
        '\nExamples:\n' +
        '  rampart alerts -f\n' +
        "  rampart alerts -f --data /var/lib/rampart --pod 'shop/nginx-*'\n" +
        "  rampart alerts --since 1h --policy secrets --path '/etc/**' --format json | jq -r .process.binary\n" +
        '\nExit codes: 0 done, or stopped by Ctrl-C or SIGTERM, 1 failed, 2 nothing was done: bad input or missing rights.\n',
    )
    .action(async (options: AlertsOptions) => {
      const { runAlerts } = await import('./run.ts');
      await runAlerts(guards, options);
    });
}
