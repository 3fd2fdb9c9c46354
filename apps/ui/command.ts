/** `rampart ui`: options only; the implementation is loaded on demand. */
import { Command, InvalidArgumentError } from 'commander';

import type { Guard } from '../../guard/guard.ts';
import { addApiOptions } from '../../lib/cli/cluster-options.ts';
import { addHelp } from '../../lib/cli/help.ts';
import { wholeNumber } from '../../lib/cli/options.ts';

export interface UiOptions {
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly data?: string;
  readonly port: number;
}

export function uiCommand(guards: readonly Guard[]): Command {
  const command = new Command('ui')
    .summary('show status and findings in a browser')
    .description(
      'Serves a page on 127.0.0.1 until Ctrl-C, and prints its link: is everything guarded that was asked for, what was found in ' +
        'the last 24 hours, was anything missed. Reads what `rampart status` and `rampart alerts` read, with the rights of ' +
        'this user, and changes nothing. With --data, reads the socket of `rampart standalone`, which requires root.\n' +
        'The link works once: the browser that opens it first may read the page until this process ends.',
    )
    .option('--port <number>', 'the port of the page; 0 selects a free one', portNumber, 0)
    .action(async (options: UiOptions) => {
      const { runUi } = await import('./run.ts');
      await runUi(guards, options);
    });
  addApiOptions(command);
  return addHelp(command, {
    notes: [
      'Of a machine that you reach by ssh: rampart ui --port 7080 there, and ssh -L 7080:127.0.0.1:7080 MACHINE here; then open the link.',
    ],
    examples: ['rampart ui', 'rampart ui --data /var/lib/rampart --port 7080'],
    exitCodes: { 0: 'stopped by Ctrl-C or SIGTERM' },
  });
}

function portNumber(text: string): number {
  const port = wholeNumber(text);
  if (port > 65_535) throw new InvalidArgumentError('It must be at most 65535.');
  return port;
}
