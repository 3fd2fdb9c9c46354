/** `rampart watch`: options only; the implementation is loaded on demand. */
import { Command, InvalidArgumentError, Option } from 'commander';

import { accessWords } from '../../lib/sensor/access.ts';
import { sensorModeOption } from '../../lib/sensor/mode-option.ts';
import type { SensorModeName } from '../../lib/sensor/modes.ts';
import { optionOf } from '../../guard/guard-options.ts';
import { failAsService } from '../../lib/cli/failure.ts';
import { addHelp, serviceExitCodes } from '../../lib/cli/help.ts';
import { addOutput, type PrettyFormat, prettyFormats } from '../../lib/cli/output-option.ts';
import { metricsOption, wholeNumber, words } from '../../lib/cli/options.ts';

export interface WatchOptions {
  readonly access: readonly string[];
  readonly except?: readonly string[];
  readonly only?: readonly string[];
  readonly mode: SensorModeName | 'auto';
  readonly create?: true;
  readonly fileMode: number;
  readonly root: string;
  readonly output?: PrettyFormat;
  readonly rate: number;
  readonly capacity: number;
  readonly metrics?: string;
}

function octalMode(text: string): number {
  if (!/^0?[0-7]{1,4}$/.test(text))
    throw new InvalidArgumentError('It must be octal digits as for chmod, such as 0400.');
  return Number.parseInt(text, 8);
}

export function watchCommand(): Command {
  const command = new Command('watch')
    .summary('report who accesses a file')
    .description(
      'Reports every access to the files, as the kernel sees it, until Ctrl-C. Waits for a path ' +
        'that does not exist yet, and follows a file that is replaced. A path that ends in /* is for ' +
        'the files in a directory, one that ends in /** for all below it, at most 65,536; quote it.\n' +
        'Prints a readable line per access on a terminal, otherwise a JSON object with the fields of a KiveAlert.',
    )
    .argument('<path...>', 'files to watch, or directories with /* or /** behind them')
    .addOption(
      new Option('--access <words>', `accesses to report, separated by commas: ${accessWords.join(', ')}`)
        .argParser(words)
        .default([...accessWords], 'all'),
    )
    .addOption(
      new Option(
        '--except <programs>',
        'programs whose accesses are not reported, as paths separated by commas',
      )
        .argParser(words)
        .conflicts('only'),
    )
    .addOption(
      new Option(
        '--only <programs>',
        'the only programs whose accesses are reported, in the same form',
      ).argParser(words),
    )
    .addOption(optionOf(sensorModeOption))
    .option('--create', 'create missing files; existing files are never changed')
    .addOption(
      new Option('--file-mode <octal>', 'permissions of a created file')
        .argParser(octalMode)
        .default(0o400, '0400'),
    )
    .option('--root <dir>', 'directory that the paths are relative to, such as /proc/PID/root', '/')
    .option(
      '--rate <number>',
      'report at most this many a second for each process, file and kind; count the others. 0: no limit',
      wholeNumber,
      1000,
    )
    .option('--capacity <number>', 'maximum number of watched files', wholeNumber, 65_536)
    .addOption(metricsOption())
    .action(async (paths: string[], options: WatchOptions) => {
      failAsService();
      const { runWatch } = await import('./run.ts');
      await runWatch(paths, options);
    });
  addOutput(command, prettyFormats, { events: true, former: '--format' });
  return addHelp(command, {
    examples: [
      'rampart watch /etc/shadow',
      'rampart watch --access write,append /etc/passwd /etc/group',
      'rampart watch --except /usr/bin/vault /etc/vault/token',
      "rampart watch -o json /etc/shadow | jq -r '.process.binary'",
      'rampart watch --create --file-mode 0444 /root/passwords.txt',
      "rampart watch '/etc/ssl/**'",
      'rampart watch --root /proc/4711/root /etc/nginx/nginx.conf',
    ],
    exitCodes: serviceExitCodes,
  });
}
