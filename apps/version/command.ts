/** `rampart version`: options only; the implementation is loaded on demand. */
import { Command } from 'commander';

import { addHelp } from '../../lib/cli/help.ts';
import { addOutput, type PrettyFormat, prettyFormats } from '../../lib/cli/output-option.ts';

export interface VersionOptions {
  readonly output: PrettyFormat;
}

export function versionCommand(): Command {
  const command = new Command('version')
    .summary('show the version, the commit, and what it runs on')
    .description(
      'Shows the version of Rampart, the commit that it was built from, and its Node.js and libbpf.',
    )
    .action(async (options: VersionOptions) => {
      const { runVersion } = await import('./run.ts');
      runVersion(options);
    });
  addOutput(command, prettyFormats, { schemas: ['rampart.dev/version/v1'] });
  return addHelp(command, { examples: ['rampart version', 'rampart version -o json'] });
}
