import type { Command } from 'commander';

import { type CompletedCommand, completionFacts, quoted } from './facts.ts';
import type { ValueKind } from '../command-tree.ts';

/** A script for bash 4 and later. It starts no process: running `rampart` would take longer than a person waits after Tab. */
export function bashCompletion(program: Command): string {
  const commands = completionFacts(program);
  const name = program.name();
  return `# bash completion for ${name}, made by: ${name} completion bash

_${name}_facts() {
  commands= options= argument=
  case "$1" in
${commands.map(factsOf).join('\n')}
  esac
}

_${name}_value() {
  case "$1" in
${commands.flatMap(valuesOf).join('\n')}
    *) return 1 ;;
  esac
}

_${name}() {
  local command=${name} expected= current=\${COMP_WORDS[COMP_CWORD]} index word value commands options argument
  for ((index = 1; index < COMP_CWORD; index++)); do
    word=\${COMP_WORDS[index]}
    # In COMP_WORDBREAKS: --output=json is three words.
    [[ $word == = ]] && continue
    if [[ $word == -* ]]; then
      expected=
      _${name}_value "$command $word" && expected=$word
    elif [[ $expected ]]; then
      expected=
    else
      _${name}_facts "$command"
      [[ " $commands " == *" $word "* ]] && command+=" $word"
    fi
  done
  [[ $current == = ]] && current=
  COMPREPLY=()
  _${name}_facts "$command"
  if [[ $expected ]]; then
    _${name}_value "$command $expected"
  elif [[ $current == -* ]]; then
    value="words $options"
  elif [[ $commands ]]; then
    value="words $commands"
  else
    value=$argument
  fi
  case "$value" in
    words*) mapfile -t COMPREPLY < <(compgen -W "\${value#words}" -- "$current") ;;
    files) compopt -o filenames && mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    directories) compopt -o filenames && mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
  esac
}

complete -F _${name} ${name}
`;
}

function factsOf({ name, commands, options, argument }: CompletedCommand): string {
  const parts = [
    `commands=${quoted(commands.map((sub) => sub.name).join(' '))}`,
    `options=${quoted(options.flatMap(({ flags }) => flags.filter((flag) => flag.startsWith('--'))).join(' '))}`,
    `argument=${quoted(argument === undefined ? '' : valueText(argument))}`,
  ];
  return `    ${quoted(name)}) ${parts.join(' ')} ;;`;
}

function valuesOf({ name, options }: CompletedCommand): readonly string[] {
  return options.flatMap(({ flags, value }) => {
    if (value === undefined) return [];
    const patterns = flags.map((flag) => quoted(`${name} ${flag}`)).join(' | ');
    return [`    ${patterns}) value=${quoted(valueText(value))} ;;`];
  });
}

function valueText(value: ValueKind): string {
  return value.kind === 'words' ? `words ${value.words.join(' ')}` : value.kind;
}
