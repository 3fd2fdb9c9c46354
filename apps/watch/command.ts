/**
 * `rampart watch`: the options, and nothing else; the work is loaded when it is asked for.
 *
 * @module
 */
import { Command, InvalidArgumentError, Option } from 'commander';

import { accessWords } from '../../shared/sensor/access.ts';
import { sensorModeOption } from '../../shared/sensor/mode-option.ts';
import type { SensorModeName } from '../../shared/sensor/modes.ts';
import { optionOf } from '../guard-options.ts';
import { metricsOption } from '../options.ts';

export interface WatchOptions {
  readonly access: readonly string[];
  readonly mode: SensorModeName | 'auto';
  readonly create?: true;
  /** Permission bits. */
  readonly fileMode: number;
  readonly root: string;
  readonly format?: 'json' | 'pretty';
  readonly rate: number;
  readonly capacity: number;
  readonly metrics?: string;
}

function octalMode(text: string): number {
  if (!/^0?[0-7]{1,4}$/.test(text)) throw new InvalidArgumentError('Octal digits as for chmod, e.g. 0400.');
  return Number.parseInt(text, 8);
}

function wholeNumber(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('A whole number is needed.');
  return Number(text);
}

export function watchCommand(): Command {
  return new Command('watch')
    .summary('tell who touches a file')
    .description(
      'Reports every access to the files, as the kernel sees it, until it is stopped with Ctrl-C. A path ' +
        'that does not exist yet is waited for; a file that is replaced is followed.\n' +
        'On a terminal each access is a readable line; otherwise each is one JSON object with the fields of a KiveAlert.',
    )
    .argument('<path...>', 'files to watch')
    .option('--access <words>', `accesses to report, any of ${accessWords.join(',')}`, splitWords, [
      ...accessWords,
    ])
    .addOption(optionOf(sensorModeOption))
    .option('--create', 'create a file that does not exist; never changes one that does')
    .addOption(
      new Option('--file-mode <octal>', 'permissions of a created file')
        .argParser(octalMode)
        .default(0o400, '0400'),
    )
    .option('--root <dir>', 'directory that the paths are inside of, e.g. /proc/PID/root', '/')
    .addOption(
      new Option('--format <format>', 'output; default: pretty on a terminal, json elsewhere').choices([
        'json',
        'pretty',
      ]),
    )
    .option(
      '--rate <number>',
      'accesses per second reported for one process, file and kind; the rest is counted. 0: no limit',
      wholeNumber,
      1000,
    )
    .option('--capacity <number>', 'most files that can be watched', wholeNumber, 65_536)
    .addOption(metricsOption())
    .addHelpText(
      'after',
      '\nExamples:\n' +
        '  rampart watch /etc/shadow\n' +
        '  rampart watch --access write,append /etc/passwd /etc/group\n' +
        "  rampart watch --format json /etc/shadow | jq -r '.process.binary'\n" +
        '  rampart watch --create --file-mode 0444 /root/passwords.txt\n' +
        '  rampart watch --root /proc/4711/root /etc/nginx/nginx.conf\n' +
        '\nExit codes: 0 stopped by Ctrl-C or SIGTERM, 1 failed, 2 nothing was done: bad input, missing rights or kernel features.\n',
    )
    .action(async (paths: string[], options: WatchOptions) => {
      const { runWatch } = await import('./run.ts');
      await runWatch(paths, options);
    });
}

function splitWords(text: string): string[] {
  return text
    .split(',')
    .map((word) => word.trim())
    .filter((word) => word !== '');
}
