/** `rampart doctor`: options only; the implementation is loaded on demand. */
import { Command } from 'commander';

export interface DoctorOptions {
  readonly json?: true;
}

export function doctorCommand(): Command {
  return new Command('doctor')
    .summary('show what this kernel supports, and which sensor mode applies')
    .description(
      'Probes the kernel with minimal eBPF programs for what Rampart can use here. ' +
        'Shows which sensor mode `rampart watch` uses and what that mode cannot see, and, from a network namespace of its ' +
        'own, which backends can program network policies. Changes nothing.\n' +
        'Exit code: 0 when a sensor mode can run, 1 when none can.',
    )
    .option('--json', 'print a JSON object instead of tables')
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
