/** `rampart alerts`: options only; the implementation is loaded on demand. */
import { Command, Option } from 'commander';

import type { Guard } from '../../guard/guard.ts';
import { addSources, type AlertsOptions, originNote } from '../../guard/alerts/options.ts';
import { severities } from '../../guard/stream/finding.ts';
import { addHelp } from '../../lib/cli/help.ts';
import { addOutput, prettyFormats } from '../../lib/cli/output-option.ts';
import { append, wholeNumber } from '../../lib/cli/options.ts';

function guardOption(guards: readonly Guard[]): Option {
  const option = new Option('--guard <name>', 'only findings of this guard; repeatable')
    .argParser(append)
    .default([]);
  // For help and completion; `selectGuards` refuses others.
  option.argChoices = guards.map(({ name }) => name);
  return option;
}

export function alertsCommand(guards: readonly Guard[]): Command {
  const command = new Command('alerts')
    .summary('show recent alerts, and follow new ones')
    .description(
      'Shows recent findings of all guards and, with --follow, new ones until Ctrl-C. On a machine that runs an agent or ' +
        '`rampart standalone`, reads its socket, which requires root; in a cluster, reads the logs of the agents, the ' +
        'operators and the policy servers.\n' +
        'Prints a readable line per finding on a terminal, otherwise the JSON object that the process wrote.',
    )
    .option('-f, --follow', 'keep printing new alerts')
    .addOption(guardOption(guards))
    .addOption(
      new Option('--severity <severity>', 'only findings of this severity and above').choices(severities),
    )
    .option(
      '--policy <[ns/]name>',
      'only findings of this policy, FileIntegrity or program; repeatable',
      append,
      [],
    )
    .option(
      '--pod <[ns/]name>',
      'only findings about this pod, and changes made by it; repeatable',
      append,
      [],
    )
    .option(
      '--path <glob>',
      'only alerts for this path, in the container or on the node; repeatable',
      append,
      [],
    )
    .option(
      '--since <time>',
      'only alerts since then: an age (90s, 10m, 2h, 1d) or a time (2026-11-21T10:00:00Z)',
    )
    .option(
      '--tail <number>',
      'at most this many past alerts; default: 1000 of each kind; 10 with --follow; all with --since',
      wholeNumber,
    )
    .action(async (options: AlertsOptions) => {
      const { runAlerts } = await import('../../guard/alerts/run.ts');
      await runAlerts(guards, options);
    });
  addSources(command);
  addOutput(command, prettyFormats, { events: true, former: '--format' });
  return addHelp(command, {
    notes: [
      originNote,
      'Names and paths are globs with *, ?, [a-c] and {a,b}. In paths, * does not match / and ** does; a pattern without / matches file names. Filters of different kinds must all match.',
    ],
    examples: [
      'rampart alerts -f',
      'rampart alerts -f --guard policy-audit --guard file-integrity --severity high',
      "rampart alerts -f --data /var/lib/rampart --pod 'shop/nginx-*'",
      "rampart alerts --since 1h --path '/etc/**' -o json | jq -r .process.binary",
    ],
    exitCodes: { 0: 'done, or stopped by Ctrl-C or SIGTERM' },
  });
}
