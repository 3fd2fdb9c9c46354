/** `rampart completion`: a script for a shell, made from the commands and options. */
import { Argument, Command } from 'commander';

import { addHelp } from '../../lib/cli/help.ts';

const shells = ['bash', 'zsh', 'fish'] as const;

export function completionCommand(): Command {
  const command = new Command('completion')
    .summary('print a script that completes commands and options in a shell')
    .description(
      'Prints a script that completes commands, options and their values in a shell. Packages install it.',
    )
    .addArgument(new Argument('<shell>', 'the shell').choices(shells))
    .action(async (shell: (typeof shells)[number], _options: unknown, self: Command) => {
      const program = self.parent ?? self;
      process.stdout.write(await completionOf(shell, program));
    });
  return addHelp(command, {
    examples: [
      'source <(rampart completion bash)',
      'rampart completion zsh > ~/.zsh/completions/_rampart   # a directory of fpath',
      'rampart completion fish > ~/.config/fish/completions/rampart.fish',
    ],
  });
}

async function completionOf(shell: (typeof shells)[number], program: Command): Promise<string> {
  switch (shell) {
    case 'bash':
      return (await import('../../lib/cli/completion/bash.ts')).bashCompletion(program);
    case 'zsh':
      return (await import('../../lib/cli/completion/zsh.ts')).zshCompletion(program);
    case 'fish':
      return (await import('../../lib/cli/completion/fish.ts')).fishCompletion(program);
  }
}
