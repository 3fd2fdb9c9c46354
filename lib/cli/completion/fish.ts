import type { Command } from 'commander';

import { type CompletedOption, completionFacts } from './facts.ts';

/** A script for fish 3, to be stored in `completions/` or read with `source`. */
export function fishCompletion(program: Command): string {
  const commands = completionFacts(program);
  const name = program.name();
  const takers = commands.flatMap((command) =>
    command.options.flatMap(({ flags, value }) =>
      value === undefined ? [] : flags.map((flag) => `${command.name} ${flag}`),
    ),
  );
  const lines = commands.flatMap((command) => {
    const at = `complete -c ${name} -n ${quoted(`__${name}_at ${command.name}`)}`;
    return [
      ...command.commands.map((sub) => `${at} -a ${sub.name} -d ${quoted(sub.summary)}`),
      ...command.options.map((option) => `${at} ${optionText(option)}`),
      ...(command.argument === undefined ? [] : [`${at} ${argumentText(command.argument)}`]),
    ];
  });
  return `# fish completion for ${name}, made by: ${name} completion fish

set -g __${name}_commands ${commands.map((command) => quoted(command.name)).join(' ')}
set -g __${name}_takers ${takers.map(quoted).join(' ')}

# Whether the words before the cursor are of this command.
function __${name}_at
    set -l words (commandline -opc)
    set -e words[1]
    set -l command ${name}
    set -l expected no
    for word in $words
        if string match -q -- '-*' $word
            set expected no
            contains -- "$command $word" $__${name}_takers; and set expected yes
        else if test $expected = yes
            set expected no
        else if contains -- "$command $word" $__${name}_commands
            set command "$command $word"
        end
    end
    test "$command" = "$argv"
end

complete -c ${name} -f
${lines.join('\n')}
`;
}

function optionText({ flags, description, value }: CompletedOption): string {
  const names = flags.map((flag) => (flag.startsWith('--') ? `-l ${flag.slice(2)}` : `-s ${flag.slice(1)}`));
  const takes = value === undefined ? [] : [argumentText(value, '-x')];
  return [...names, ...takes, `-d ${quoted(description)}`].join(' ');
}

/** @param only - The flag that turns off file names: `-f` or, for an option with a value, `-x`. */
function argumentText(value: NonNullable<CompletedOption['value']>, only = '-f'): string {
  switch (value.kind) {
    case 'words':
      return `${only} -a ${quoted(value.words.join(' '))}`;
    case 'files':
      return only === '-f' ? '-F' : '-r -F';
    case 'directories':
      return `${only} -a '(__fish_complete_directories)'`;
    case 'other':
      return only;
  }
}

/** The text in single quotes, for fish: its escapes differ from those of a POSIX shell. */
function quoted(text: string): string {
  return `'${text.replaceAll(/['\\]/g, String.raw`\$&`)}'`;
}
