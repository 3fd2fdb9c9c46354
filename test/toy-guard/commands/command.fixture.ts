/** `rampart door`: options only; the implementation is loaded on demand. */
import { Command } from 'commander';

import { addApiOptions, type ClusterChoice } from '../../../lib/cli/cluster-options.ts';

export type DoorListOptions = ClusterChoice;

export function doorCommand(): Command {
  return new Command('door').summary('show the doors').addCommand(
    addApiOptions(new Command('list'))
      .summary('list the doors and their greetings')
      .action(async (options: DoorListOptions) => {
        const { runDoorList } = await import('./list.fixture.ts');
        await runDoorList(options);
      }),
  );
}
