import { resolve } from 'node:path';

import { type Command, InvalidArgumentError, Option } from 'commander';

import type { Guard, GuardCommand, GuardOption, OptionValues } from './guard.ts';
import { messageOf } from '../lib/errors/errors.ts';
import { append, refuseEmpty, words } from '../lib/cli/options.ts';

/** `--guards`. */
export interface GuardChoice {
  /** Names of guards; empty: all guards. */
  readonly guards: readonly string[];
}

/** The agent's default data directory: each guard that keeps data has a directory in it. */
const agentDirectory = '/var/lib/rampart';

/**
 * Adds `--guards`, and the flags that guards have for this command, each guard's in a group of the help. Call it after adding the command's
 * own options.
 */
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

/** Returns the directory of a guard, from its flag of the agent. @throws {RampartError} `INPUT` if it is empty. */
export function directoryIn(values: OptionValues): (guard: Guard) => string {
  return ({ directory }) => {
    const flags = directory?.flags ?? '';
    const path = values[new Option(flags).attributeName()] as string;
    refuseEmpty({ [flags]: path }, 'Give a path');
    return resolve(path);
  };
}

/**
 * What the guard's `parse` makes of a command's values.
 *
 * @throws {RampartError} `INPUT`
 */
export function parsedOptions({ options = [], parse }: Guard, values: OptionValues): unknown {
  const defaults = options.map(optionOf).map((option) => [option.attributeName(), option.defaultValue]);
  return parse({ ...Object.fromEntries(defaults), ...values });
}

/** The option for commander. */
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

/** Turns an error of `parse` into commander's error for an invalid argument. */
export function argument<T>(parse: (text: string) => T): (text: string) => T {
  return (text) => {
    try {
      return parse(text);
    } catch (error) {
      throw new InvalidArgumentError(messageOf(error));
    }
  };
}
