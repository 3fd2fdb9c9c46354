/**
 * The `rampart` command: its name, its commands, and how a failure ends it. A command's file only declares options, and loads the
 * implementation on demand, so that `--help` is quick.
 */
import { Command } from 'commander';

import manifest from '../package.json' with { type: 'json' };
import type { Guard } from '../guard/guard.ts';
import { agentCommand } from './agent/command.ts';
import { alertsCommand } from './alerts/command.ts';
import { apiServerCommand } from './apiserver/command.ts';
import { completionCommand } from './completion/command.ts';
import { doctorCommand } from './doctor/command.ts';
import { isBrokenPipe, outputFailure, reportFailure, withUsageExitCode } from '../lib/cli/failure.ts';
import { addHelp, settleHelp } from '../lib/cli/help.ts';
import { operatorCommand } from './operator/command.ts';
import { standaloneCommand } from './standalone/command.ts';
import { statusCommand } from './status/command.ts';
import { uiCommand } from './ui/command.ts';
import { uiServerCommand } from './ui-server/command.ts';
import { uninstallCommand } from './uninstall/command.ts';
import { versionCommand } from './version/command.ts';
import { watchCommand } from './watch/command.ts';

export function programOf(guards: readonly Guard[]): Command {
  const program = new Command('rampart')
    .description(manifest.description)
    .version(manifest.version)
    .addCommand(watchCommand())
    .addCommand(doctorCommand(guards))
    .addCommand(standaloneCommand(guards))
    .addCommand(statusCommand(guards))
    .addCommand(alertsCommand(guards))
    .addCommand(uiCommand(guards));
  for (const guard of guards)
    for (const { create } of guard.commands ?? []) program.addCommand(create(guard));
  program
    .addCommand(agentCommand(guards))
    .addCommand(operatorCommand(guards))
    .addCommand(apiServerCommand())
    .addCommand(uiServerCommand(guards))
    .addCommand(uninstallCommand(guards))
    .addCommand(versionCommand())
    .addCommand(completionCommand());
  addHelp(program, {
    notes: ['rampart COMMAND --help shows the options and examples of a command.'],
    examples: examples(guards),
    exitCodes: { 0: 'done', 1: 'something was found, or refused' },
  });
  settle(program, program.name());
  return program;
}

function examples(guards: readonly Guard[]): readonly string[] {
  const ofGuards = guards.flatMap(({ commands = [] }) => commands.map(({ example }) => example));
  const all = [
    ['watch /etc/shadow', 'report who accesses this file, until Ctrl-C'],
    ['doctor', 'show which guards work on this machine'],
    ['status', 'show what is guarded, and why something is not'],
    ['alerts -f', 'follow the alerts of the agents'],
    ...ofGuards.filter((example) => example !== undefined),
  ] as const;
  const width = Math.max(...all.map(([command]) => command.length));
  return all.map(([command, what]) => `rampart ${command.padEnd(width)}  # ${what}`);
}

/** Runs the command line of this process, with these guards; ends the process if it fails. */
export async function runProgram(guards: readonly Guard[]): Promise<void> {
  // Also called for errors outside the command's own promise: in an event handler, in a stream.
  process.on('uncaughtException', fail);
  // A reader of stdout or stderr that has gone away (`| head`) is not a failure; other errors of the two streams are.
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error) => (isBrokenPipe(error) ? process.exit() : fail(outputFailure(error))));
  }

  try {
    await programOf(guards).parseAsync();
  } catch (error) {
    fail(error);
  }
}

/** Makes commander print a usage error as one line that names the next step, and throw it for {@link fail} instead of ending the process. */
function settle(command: Command, name: string): void {
  settleHelp(command);
  // Otherwise a command would take its subcommands' options for its own.
  command.enablePositionalOptions();
  command.exitOverride((error) => {
    throw withUsageExitCode(error, command);
  });
  command.configureOutput({
    outputError: (message, write) => {
      const sentence = message
        .replace(/^error: /, '')
        .replace(/\s*\n\s*/g, ' ')
        .trim();
      write(`rampart: ${sentence}${/[.?!)]$/.test(sentence) ? '' : '.'} Try: ${name} --help\n`);
    },
  });
  for (const sub of command.commands) settle(sub, `${name} ${sub.name()}`);
}

/** Ends the process; exit() rather than exitCode, because a failed command may have left a handle open. */
function fail(error: unknown): never {
  process.exit(reportFailure(error));
}
