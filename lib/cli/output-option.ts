/** `-o`: each format has the same name and meaning in all commands. */
import { type Command, Option } from 'commander';

import type { Schema } from './document.ts';

/** Descriptions of the formats, for docs/commands.md. */
export const formatWords = {
  table: 'columns, wrapped to the terminal',
  wide: 'the table with nothing wrapped, shortened or left out',
  pretty: 'text for people; for events, a line each',
  json: 'one object on one line, with `schema`; for events, a line each',
  yaml: 'the same as YAML; events are documents of one stream',
  junit: 'JUnit XML, for CI',
  sarif: 'SARIF 2.1.0, for code scanning',
} as const;

export type Format = keyof typeof formatWords;

/** Formats of commands that print a table. */
export const tableFormats = ['table', 'wide', 'json', 'yaml'] as const;
export type TableFormat = (typeof tableFormats)[number];

/** Formats of commands that print text, or a line for each event. */
export const prettyFormats = ['pretty', 'json', 'yaml'] as const;
export type PrettyFormat = (typeof prettyFormats)[number];

interface OutputOptions {
  /** The schemas of the documents in JSON and YAML. Default: none, which is right for lines from other processes. */
  readonly schemas?: readonly Schema[];
  /** Whether the command prints events: the default is then `pretty` on a terminal and `json` elsewhere, otherwise the first format. */
  readonly events?: true;
  /** The former name of the option, which is still accepted but not shown. */
  readonly former?: '--format' | '--json' | '--output-scan';
  /** The format of `-o` without a value. */
  readonly bare?: Format;
  /** Former names of formats, which are still accepted. */
  readonly formerNames?: Readonly<Record<string, Format>>;
}

const schemas = new WeakMap<Command, readonly Schema[]>();

export function schemasOf(command: Command): readonly Schema[] {
  return schemas.get(command) ?? [];
}

/** Adds `-o`, stored as the option `output`. With `events` it has no default: without `-o`, the value is undefined. */
export function addOutput(
  command: Command,
  formats: readonly Format[],
  options: OutputOptions = {},
): Command {
  const { events, former, formerNames = {}, bare } = options;
  schemas.set(command, options.schemas ?? []);
  const flags = `-o, --output ${bare === undefined ? '<format>' : '[format]'}`;
  const option = new Option(
    flags,
    `output format${events ? '; default: pretty on a terminal, otherwise json' : ''}`,
  );
  chooses(option, formats, formerNames);
  if (!events) option.default(formats[0]);
  if (bare !== undefined) option.preset(bare);
  command.addOption(option);
  if (former === '--format')
    command.addOption(chooses(new FormerOption('--format <format>'), formats, formerNames).hideHelp());
  else if (former !== undefined) command.addOption(new FormerOption(former).preset('json').hideHelp());
  return command;
}

function chooses(
  option: Option,
  formats: readonly Format[],
  names: Readonly<Record<string, Format>>,
): Option {
  const check = option.choices(formats).parseArg;
  return option.argParser((text: string, before: unknown) => check?.(names[text] ?? text, before));
}

/** An option that is stored as `output`. */
class FormerOption extends Option {
  override attributeName(): string {
    return 'output';
  }
}
