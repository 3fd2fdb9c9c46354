/** The help of commands: at most 80 columns wide, with notes, examples and exit codes after the options. */
import { type Command, Help, type Option } from 'commander';

import { indentText, wrapText } from '../output/table.ts';

const WIDTH = 80;
/** The description of longer flags is on the next line. */
const MAX_TERM_COLUMNS = 26;

export interface HelpText {
  /** Paragraphs, which are wrapped unless they have line breaks. */
  readonly notes?: readonly string[];
  /** Command lines that work exactly as written; not wrapped. */
  readonly examples: readonly string[];
  /** The meanings of this command's exit codes. Default: 0 done. If 2 is omitted, it means {@link FAILED}. */
  readonly exitCodes?: Readonly<Record<number, string>>;
}

/** The meaning of exit code 2, unless a command has its own. */
export const FAILED = 'failed: bad input, missing privileges, or no response';

/** The exit codes of commands that run until they are stopped. */
export const serviceExitCodes = {
  0: 'stopped by Ctrl-C or SIGTERM',
  1: 'failed',
  2: 'not started: bad input, missing privileges or kernel features',
} as const;

const texts = new WeakMap<Command, HelpText>();

export function addHelp(command: Command, text: HelpText): Command {
  texts.set(command, text);
  return command.addHelpText('after', () => `\n${afterText(text)}`);
}

export function helpOf(command: Command): HelpText | undefined {
  return texts.get(command);
}

/** `0 done, 2 failed: ...`. */
export function exitCodeText(codes: Readonly<Record<number, string>> = { 0: 'done' }): string {
  return Object.entries({ 2: FAILED, ...codes })
    .map(([code, what]) => `${code} ${what}`)
    .join(', ');
}

function afterText({ notes = [], examples, exitCodes }: HelpText): string {
  const paragraphs = notes.map((note) => (note.includes('\n') ? note : wrapText(note, WIDTH).join('\n')));
  const shown = `${examples.length > 1 ? 'Examples' : 'Example'}:\n${examples.map((line) => `  ${line}`).join('\n')}`;
  const codes = exitCodes && wrapText(`Exit codes: ${exitCodeText(exitCodes)}.`, WIDTH).join('\n');
  return [...paragraphs, shown, ...(codes === undefined ? [] : [codes])].join('\n\n');
}

/** Sets the layout of the help of one command; its subcommands do not inherit it. */
export function settleHelp(command: Command): void {
  command.configureHelp({ optionDescription, padWidth, formatItem });
  command.configureOutput({ getOutHelpWidth: helpWidth, getErrHelpWidth: helpWidth });
}

function helpWidth(): number {
  return Math.min(WIDTH, process.stdout.columns || WIDTH);
}

function padWidth(this: Help, command: Command, helper: Help): number {
  return Math.min(MAX_TERM_COLUMNS, Help.prototype.padWidth.call(this, command, helper));
}

function formatItem(this: Help, term: string, termWidth: number, description: string, helper: Help): string {
  if (term.length <= termWidth || description === '')
    return Help.prototype.formatItem.call(this, term, termWidth, description, helper);
  const width = helper.helpWidth ?? WIDTH;
  // The name of an environment variable may not fit beside the flags: such descriptions are indented less.
  const longest = Math.max(...description.split(/\s+/).map((word) => word.length));
  const indent = Math.max(4, Math.min(termWidth + 4, width - longest));
  return `  ${term}\n${indentText(description, indent, width)}`;
}

/** Shows defaults as a person would type them: lists as words, without quotes; empty ones are left out. */
function optionDescription(this: Help, option: Option): string {
  const { defaultValue, defaultValueDescription: text } = option;
  const typed = typeof defaultValue === 'object' ? [defaultValue].flat().join(',') : String(defaultValue);
  const shown = Object.create(option, {
    defaultValue: { value: (text ?? typed) === '' ? undefined : defaultValue },
    defaultValueDescription: { value: text ?? typed },
  }) as Option;
  return Help.prototype.optionDescription.call(this, shown);
}
