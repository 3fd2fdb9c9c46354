import type { Command } from 'commander';

import { type CompletedCommand, completionFacts, quoted } from './facts.ts';
import type { ValueKind } from '../command-tree.ts';

/** A script for zsh 5, to be stored as `_PROGRAM` in a directory of `fpath`, or read with `source` after `compinit`. */
export function zshCompletion(program: Command): string {
  const commands = completionFacts(program);
  const name = program.name();
  return `#compdef ${name}
# zsh completion for ${name}, made by: ${name} completion zsh

_${name}_facts() {
  names= argument=
  subcommands=()
  flags=()
  case "$1" in
${commands.map(factsOf).join('\n')}
  esac
}

_${name}_value() {
  case "$1" in
${commands.flatMap(valuesOf).join('\n')}
    (*) return 1 ;;
  esac
}

_${name}_complete_value() {
  case "$1" in
    (words*) compadd -- \${=1#words} ;;
    (files) _files ;;
    (directories) _files -/ ;;
    (*) _message 'a value' ;;
  esac
}

_${name}() {
  local command=${name} expected= word value names argument
  # Not commands and options, which zsh has of its own.
  local -a subcommands flags
  integer index
  for ((index = 2; index < CURRENT; index++)); do
    word=\${words[index]}
    if [[ $word == -* ]]; then
      expected=
      _${name}_value "$command $word" && expected=$word
    elif [[ -n $expected ]]; then
      expected=
    else
      _${name}_facts "$command"
      [[ " $names " == *" $word "* ]] && command+=" $word"
    fi
  done
  _${name}_facts "$command"
  if [[ -n $expected ]]; then
    _${name}_value "$command $expected"
    _${name}_complete_value "$value"
  elif [[ $PREFIX == --*=* ]] && _${name}_value "$command \${PREFIX%%=*}"; then
    compset -P '*='
    _${name}_complete_value "$value"
  elif [[ $PREFIX == -* ]]; then
    _describe -o option flags
  elif [[ -n $names ]]; then
    _describe command subcommands
  elif [[ -n $argument ]]; then
    _${name}_complete_value "$argument"
  fi
}

# As a file of fpath, this is the body of the function.
if [[ $funcstack[1] == _${name} ]]; then
  _${name} "$@"
else
  compdef _${name} ${name}
fi
`;
}

function factsOf({ name, commands, options, argument }: CompletedCommand): string {
  const described = (one: string, description: string): string => quoted(`${one}:${description}`);
  const parts = [
    `names=${quoted(commands.map((sub) => sub.name).join(' '))}`,
    `subcommands=(${commands.map((sub) => described(sub.name, sub.summary)).join(' ')})`,
    `flags=(${options.flatMap((option) => option.flags.map((flag) => described(flag, option.description))).join(' ')})`,
    `argument=${quoted(argument === undefined ? '' : valueText(argument))}`,
  ];
  return `    (${quoted(name)}) ${parts.join(' ')} ;;`;
}

function valuesOf({ name, options }: CompletedCommand): readonly string[] {
  return options.flatMap(({ flags, value }) => {
    if (value === undefined) return [];
    const patterns = flags.map((flag) => quoted(`${name} ${flag}`)).join(' | ');
    return [`    (${patterns}) value=${quoted(valueText(value))} ;;`];
  });
}

function valueText(value: ValueKind): string {
  return value.kind === 'words' ? `words ${value.words.join(' ')}` : value.kind;
}
