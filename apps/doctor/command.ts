/** `rampart doctor`: options only; the implementation is loaded on demand. */
import { Command, Option } from 'commander';

import type { Guard } from '../../guard/guard.ts';
import { addHelp } from '../../lib/cli/help.ts';
import { criSocketOption, words } from '../../lib/cli/options.ts';
import { addOutput, type TableFormat, tableFormats } from '../../lib/cli/output-option.ts';

export interface DoctorOptions {
  readonly guards: readonly string[];
  readonly kernel?: true;
  readonly data: string;
  readonly criSocket?: string;
  readonly output: TableFormat;
}

export function doctorCommand(guards: readonly Guard[]): Command {
  const chosen = new Option('--guards <names>', 'only these guards, separated by commas; repeatable')
    .argParser((text: string, before: readonly string[]) => [...before, ...words(text)])
    .default([], 'all');
  chosen.argChoices = guards.map(({ name }) => name);
  const command = new Command('doctor')
    .summary('show which guards work on this machine, and why not')
    .description(
      'Shows for each guard whether it works on this machine, with which limits, or why it cannot: from the kernel, which it probes with minimal ' +
        'eBPF programs, the container runtime, limits, the disk, and rules of other programs. Changes nothing.',
    )
    .option(
      '--kernel',
      'also show what the kernel supports, what the sensor sees, and what backends of network policies need',
    )
    .addOption(chosen)
    .option('--data <dir>', 'the data directory of the agent or standalone', '/var/lib/rampart')
    .addOption(criSocketOption())
    .action(async (options: DoctorOptions) => {
      const { runDoctor } = await import('./run.ts');
      process.exitCode = await runDoctor(guards, options);
    });
  addOutput(command, tableFormats, { schemas: ['rampart.dev/doctor/v1'], former: '--json' });
  return addHelp(command, {
    examples: [
      'rampart doctor',
      'rampart doctor --kernel',
      "rampart doctor -o json | jq -r '.guards[] | [.name, .verdict] | @tsv'",
      "rampart doctor -o json | jq '.kernel.attach | map_values(.available)'",
    ],
    exitCodes: { 0: 'each guard works, with limits or without', 1: 'one cannot work' },
  });
}
