/** `rampart doctor`: options only; the implementation is loaded on demand. */
import { Command } from 'commander';

import { addHelp } from '../../lib/cli/help.ts';
import { addOutput, type TableFormat, tableFormats } from '../../lib/cli/output-option.ts';

export interface DoctorOptions {
  readonly output: TableFormat;
}

export function doctorCommand(): Command {
  const command = new Command('doctor')
    .summary('show what this kernel supports, and which sensor mode applies')
    .description(
      'Probes the kernel with minimal eBPF programs for what Rampart can use here. ' +
        'Shows which sensor mode `rampart watch` uses and what that mode cannot see, and, from a network namespace of its ' +
        'own, which backends can program network policies. Changes nothing.',
    )
    .action(async (options: DoctorOptions) => {
      const { runDoctor } = await import('./run.ts');
      process.exitCode = await runDoctor(options);
    });
  addOutput(command, tableFormats, { former: '--json' });
  return addHelp(command, {
    examples: [
      'rampart doctor',
      "rampart doctor -o json | jq -r '.sensor.mode'",
      "rampart doctor -o json | jq '.kernel.attach | map_values(.available)'",
    ],
    exitCodes: { 0: 'a sensor mode can run', 1: 'none can' },
  });
}
