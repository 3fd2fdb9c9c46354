/** `rampart door`: options only; the implementation is loaded on demand. */
import { Command } from 'commander';

export interface DoorListOptions {
  readonly data?: string;
}

export function doorCommand(): Command {
  return new Command('door').summary('show the doors').addCommand(
    new Command('list')
      .summary('list the doors and their greetings')
      .option('--data <dir>', 'the directory of `rampart standalone`')
      .action(async (options: DoorListOptions) => {
        const { runDoorList } = await import('./list.fixture.ts');
        await runDoorList(options);
      }),
  );
}
