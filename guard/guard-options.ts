import { resolve } from 'node:path';

import { type Command, InvalidArgumentError, Option } from 'commander';

import type { Guard, GuardCommand, GuardOption, OptionValues } from './guard.ts';
import { messageOf } from '../lib/errors/errors.ts';
import { append, refuseEmpty, words } from '../lib/cli/options.ts';

/** `--guards`. */
export interface GuardChoice {
  /** Names; empty: all guards. */
  readonly guards: readonly string[];
}

/** Where an agent keeps what guards keep, each in a directory of its own. */
const agentDirectory = '/var/lib/rampart';

/** Adds `--guards`, and the flags of all guards that this command has, each in a group of the help. Call it after the command's own. */
export function addGuardOptions(command: Command, name: GuardCommand, guards: readonly Guard[]): Command {
  const chosen = new Option('--guards <names>', 'the guards to run, separated by commas; repeatable')
    .env('RAMPART_GUARDS')
    .argParser((text: string, before: readonly string[]) => [...before, ...words(text)])
    .default([], 'all');
  // For help and completion; `selectGuards` refuses others.
  chosen.argChoices = guards.map((guard) => guard.name);
  command.addOption(chosen);
  const added = new Set<GuardOption>();
  for (const { name: guard, directory, options = [] } of guards) {
    const group = `Options of ${guard}:`;
    if (directory !== undefined && name === 'agent') {
      const option = new Option(directory.flags, directory.description);
      command.addOption(option.default(`${agentDirectory}/${directory.name}`).helpGroup(group));
    }
    for (const option of options) {
      if (!option.on.includes(name) || added.has(option)) continue;
      added.add(option);
      const isShared = guards.some((other) => other.name !== guard && other.options?.includes(option));
      command.addOption(optionOf(option).helpGroup(isShared ? 'Options of several guards:' : group));
    }
  }
  return command;
}

/** The directory of a guard, as the agent's flag has it. @throws {RampartError} `INPUT` if it is empty. */
export function directoryIn(values: OptionValues): (guard: Guard) => string {
  return ({ directory }) => {
    const flags = directory?.flags ?? '';
    const path = values[new Option(flags).attributeName()] as string;
    refuseEmpty({ [flags]: path }, 'Give a path');
    return resolve(path);
  };
}

/**
 * The result of the guard's `parse` for the values of a command.
 *
 * @throws {RampartError} `INPUT`
 */
export function parsedOptions({ options = [], parse }: Guard, values: OptionValues): unknown {
  const defaults = options.map(optionOf).map((option) => [option.attributeName(), option.defaultValue]);
  return parse({ ...Object.fromEntries(defaults), ...values });
}

/** As commander takes it. */
export function optionOf({
  flags,
  description,
  env,
  choices,
  parse,
  repeatable,
  ...more
}: GuardOption): Option {
  const option = new Option(flags, description);
  if (choices !== undefined) option.choices(choices);
  if (repeatable) {
    const one = parse === undefined ? String : argument((text: string) => String(parse(text)));
    option.argParser((text, before: readonly string[]) => append(one(text), before)).default([]);
  } else if (parse !== undefined) option.argParser(argument(parse));
  if (more.default !== undefined) option.default(more.default, more.defaultText);
  if (env !== undefined) option.env(env);
  return option;
}

/** Reports an error of `parse` as a wrong argument. */
export function argument<T>(parse: (text: string) => T): (text: string) => T {
  return (text) => {
    try {
      return parse(text);
    } catch (error) {
      throw new InvalidArgumentError(messageOf(error));
    }
  };
}
