/**
 * `rampart doctor`: the options, and nothing else; the work is loaded when it is asked for.
 *
 * @module
 */
import { Command } from 'commander';

export interface DoctorOptions {
  readonly json?: true;
}

export function doctorCommand(): Command {
  return new Command('doctor')
    .summary('say what this kernel allows, and which sensor mode would be used')
    .description(
      'Asks the kernel, by loading and attaching minimal eBPF programs, what Rampart can use here, and ' +
        'says which sensor mode `rampart watch` takes and what that mode cannot see; and, in a network namespace of its ' +
        'own, what network policies can be programmed with. Changes nothing.\n' +
        'Exit code: 0 when a sensor mode can run, 1 when none can.',
    )
    .option('--json', 'print one JSON object instead of tables')
    .addHelpText(
      'after',
      '\nExamples:\n' +
        '  rampart doctor\n' +
        "  rampart doctor --json | jq -r '.sensor.mode'\n" +
        "  rampart doctor --json | jq '.network'\n" +
        "  rampart doctor --json | jq '.kernel.attach | map_values(.available)'\n",
    )
    .action(async (options: DoctorOptions) => {
      const { runDoctor } = await import('./run.ts');
      process.exitCode = await runDoctor(options);
    });
}
