/** The facts about the commands that a shell needs to complete a command line. */
import type { Command } from 'commander';

import {
  argumentValue,
  commandsOf,
  subcommands,
  type ValueKind,
  valueOf,
  visibleOptions,
} from '../command-tree.ts';

export interface CompletedOption {
  /** `-o`, `--output`. */
  readonly flags: readonly string[];
  /** The first clause of its description. */
  readonly description: string;
  /** Undefined if the option takes no value. */
  readonly value: ValueKind | undefined;
}

export interface CompletedCommand {
  /** `rampart bpf list`. */
  readonly name: string;
  readonly commands: readonly { readonly name: string; readonly summary: string }[];
  readonly options: readonly CompletedOption[];
  /** Values of its first argument; undefined if it takes no argument. */
  readonly argument: ValueKind | undefined;
}

export function completionFacts(program: Command): readonly CompletedCommand[] {
  return [...commandsOf(program)].map(([name, command]) => {
    const [argument] = command.registeredArguments;
    return {
      name,
      commands: subcommands(command).map((sub) => ({
        name: sub.name(),
        summary: firstClause(sub.summary()),
      })),
      options: visibleOptions(command).map((option) => ({
        flags: [option.short, option.long].filter((flag) => flag !== undefined),
        description: firstClause(option.description),
        value: valueOf(option),
      })),
      argument: argument && argumentValue(argument),
    };
  });
}

/** The start of a description, which fits in one line of a menu. */
function firstClause(text: string): string {
  return text.split(/[;:(]|\. /, 1)[0]?.trim() ?? '';
}

/** The text in single quotes, for a POSIX shell. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
