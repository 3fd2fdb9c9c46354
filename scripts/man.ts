/**
 * The manual page `rampart(1)`, made from the commands and options. `node scripts/man.ts` prints it; the
 * packages have it. man(7), groff_man(7)
 */
import type { Argument, Command, Option } from 'commander';

import { guards } from '../apps/guards.ts';
import { programOf } from '../apps/program.ts';
import { commandsOf, visibleOptions } from '../lib/cli/command-tree.ts';
import { exitCodeText, helpOf } from '../lib/cli/help.ts';
import manifest from '../package.json' with { type: 'json' };

/** @param date - Of the page, which makes its bytes the same for the same sources. */
export function manualPage(program: Command, version: string, date: Date): string {
  const name = program.name();
  const all = [...commandsOf(program)];
  return [
    `.TH ${name.toUpperCase()} 1 ${date.toISOString().slice(0, 10)} "${name} ${version}" "User Commands"`,
    '.SH NAME',
    `${name} \\- ${text(lowerFirst(program.description().replace(/\.$/, '')))}`,
    '.SH SYNOPSIS',
    `.B ${name}\n.I command\n.RI [ options ]\n.RI [ arguments ]`,
    '.SH DESCRIPTION',
    ...paragraphs(program.description()),
    '.SH COMMANDS',
    ...all.slice(1).flatMap(([full, command]) => section(full.slice(name.length + 1), command)),
    '.SH EXIT STATUS',
    ...paragraphs(
      `${exitCodeText({ 0: 'done', 1: 'something was found, or refused' })}. Commands that differ say so.`,
    ),
    '.SH SEE ALSO',
    '.BR kubectl (1),\n.BR bpftool (8),\n.BR nft (8)',
    '',
  ].join('\n');
}

function section(name: string, command: Command): readonly string[] {
  const help = helpOf(command);
  const usage = command.usage() === '' ? '' : ` ${command.usage()}`;
  return [
    `.SS ${text(`${name}${usage}`)}`,
    ...paragraphs(command.description() || `${command.summary()}.`),
    ...command.registeredArguments.flatMap((argument) => argumentItem(command, argument)),
    ...visibleOptions(command)
      .filter(({ long }) => long !== '--help')
      .flatMap((option) => optionItem(command, option)),
    ...(help?.notes ?? []).flatMap((note) =>
      note.includes('\n') ? ['.PP', ...literal(note)] : paragraphs(note),
    ),
    ...(help === undefined ? [] : ['.PP', ...literal(help.examples.join('\n'))]),
    ...(help?.exitCodes === undefined ? [] : paragraphs(`Exit codes: ${exitCodeText(help.exitCodes)}.`)),
  ];
}

function argumentItem(command: Command, argument: Argument): readonly string[] {
  return ['.TP', `.I ${text(argument.name())}`, text(command.createHelp().argumentDescription(argument))];
}

function optionItem(command: Command, option: Option): readonly string[] {
  return ['.TP', `.B ${text(option.flags)}`, text(command.createHelp().optionDescription(option))];
}

function paragraphs(all: string): readonly string[] {
  return all.split('\n').flatMap((one) => ['.PP', text(one)]);
}

function literal(lines: string): readonly string[] {
  return ['.RS 4', '.EX', ...lines.split('\n').map(text), '.EE', '.RE'];
}

/** Characters with a meaning for roff, and those that it would replace by typographic ones. */
function text(plain: string): string {
  const escapes: Readonly<Record<string, string>> = {
    ...{ '\\': '\\(rs', '-': '\\-', "'": '\\(aq', '`': '\\(ga', '^': '\\(ha', '~': '\\(ti', '"': '\\(dq' },
  };
  return plain.replaceAll(/[\\\-'`^~"]/g, (one) => escapes[one] ?? one).replace(/^\./, '\\&.');
}

function lowerFirst(sentence: string): string {
  return sentence.charAt(0).toLowerCase() + sentence.slice(1);
}

if (import.meta.main) {
  const { SOURCE_DATE_EPOCH: epoch = '' } = process.env;
  const date = epoch === '' ? new Date() : new Date(Number(epoch) * 1000);
  process.stdout.write(manualPage(programOf(guards), manifest.version, date));
}
