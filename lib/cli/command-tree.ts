/** The commands of a program as data, for completion, the manual page and the docs. */
import { Argument, type Command, type Option } from 'commander';

/** A command with its whole name: `rampart bpf map list`. */
export type NamedCommand = readonly [name: string, command: Command];

/** The program and all its commands, recursively; without hidden ones. */
export function* commandsOf(command: Command, name = command.name()): Generator<NamedCommand> {
  yield [name, command];
  for (const sub of subcommands(command)) yield* commandsOf(sub, `${name} ${sub.name()}`);
}

/** The subcommands that its help lists, without the implicit `help`. */
export function subcommands(command: Command): readonly Command[] {
  return command
    .createHelp()
    .visibleCommands(command)
    .filter((sub) => command.commands.includes(sub));
}

/** The options that its help lists, including `--help`. */
export function visibleOptions(command: Command): readonly Option[] {
  return command.createHelp().visibleOptions(command);
}

/** The values of an option or an argument, as far as a shell can complete them. */
export type ValueKind =
  | { readonly kind: 'words'; readonly words: readonly string[] }
  | { readonly kind: 'files' | 'directories' | 'other' };

/** Undefined for an option without a value. */
export function valueOf(option: Option): ValueKind | undefined {
  if (!option.required && !option.optional) return undefined;
  return kindOf(option.argChoices, /[<[](.*)[>\]]/.exec(option.flags)?.[1] ?? '');
}

const fileArguments = new WeakSet<Argument>();

/** An argument that is completed with file names, whatever its name is. */
export function fileArgument(flags: string, description: string): Argument {
  const argument = new Argument(flags, description);
  fileArguments.add(argument);
  return argument;
}

export function argumentValue(argument: Argument): ValueKind {
  if (fileArguments.has(argument)) return { kind: 'files' };
  return kindOf(argument.argChoices, argument.name());
}

function kindOf(words: readonly string[] | undefined, placeholder: string): ValueKind {
  if (words !== undefined) return { kind: 'words', words };
  if (/^dir(?:ectory)?$/.test(placeholder)) return { kind: 'directories' };
  return { kind: /(?:^|-)(?:file|path)$/.test(placeholder.replace(/\.\.\.$/, '')) ? 'files' : 'other' };
}
