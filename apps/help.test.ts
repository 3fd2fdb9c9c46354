import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { CommanderError } from 'commander';

import { commandsOf } from '../lib/cli/command-tree.ts';
import { helpOf } from '../lib/cli/help.ts';
import { schemasOf } from '../lib/cli/output-option.ts';
import { displayWidth } from '../lib/output/table.ts';
import { guards } from './guards.ts';
import { programOf } from './program.ts';

test('--help of every command shows defaults as a person types them', () => {
  const helps = [...commandsOf(programOf(guards))].map(
    ([name, command]) => [name, command.helpInformation().replaceAll(/\s+/g, ' ')] as const,
  );
  assert.ok(helps.length > 25, `${helps.length} commands`);
  for (const [name, help] of helps) {
    for (const [, option = '', kind = '', shown = ''] of help.matchAll(
      /--([\w-]+) <([\w-]+)>(?:(?!<)[^])*?\(default: (.*?)(?:, env: \w+)?\)/g,
    )) {
      assert.doesNotMatch(shown, /[[\]{}"]/, `${name} --${option}: ${shown}`);
      const form = { octal: /^0[0-7]+$/, time: /^\d+[smh]$/, bytes: /^\d+[kMG]?$/, seconds: /^\d{1,2}$/ }[
        kind
      ];
      if (form !== undefined) assert.match(shown, form, `${name} --${option}`);
    }
  }
  const of = (wanted: string): string => helps.find(([name]) => name === wanted)?.[1] ?? '';
  assert.match(of('rampart watch'), /--access <words> [^(]*replace, attributes \(default: all\)/);
  assert.match(of('rampart watch'), /--file-mode <octal> [^(]*\(default: 0400\)/);
  assert.match(of('rampart agent'), /blocked by default, such as 127\.0\.0\.1; repeatable --/);
});

/** The output of `--help`, with the text after the options. */
function helpText(name: string): string {
  const words = name.split(' ').slice(1);
  const program = programOf(guards);
  let text = '';
  for (const [, command] of commandsOf(program)) {
    command.configureOutput({ writeOut: (more) => (text += more) });
  }
  assert.throws(() => program.parse([...words, '--help'], { from: 'user' }), CommanderError);
  return text;
}

test('--help of every command has an example that its options allow, and at most 80 columns', () => {
  const program = programOf(guards);
  const known = new Map(commandsOf(program));
  for (const [name, command] of known) {
    const text = helpText(name);
    for (const line of text.split('\n')) assert.ok(displayWidth(line) <= 80, `${name}: ${line}`);
    const examples = helpOf(command)?.examples ?? [];
    assert.ok(examples.length > 0, name);
    assert.ok(
      examples.some((example) => example.includes(`${name} `) || example === name),
      `${name}: ${examples.join('; ')}`,
    );
    for (const example of examples) assert.ok(text.includes(`\n  ${example}\n`), `${name}: ${example}`);
    for (const example of examples.filter((one) => one.startsWith('rampart '))) {
      const [line = ''] = example.split(/ [|>#] ?/);
      const words = [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '');
      const of =
        [...known.keys()]
          .filter((one) => `${line} `.startsWith(`${one} `))
          .toSorted()
          .at(-1) ?? '';
      const { unknown } = (known.get(of) ?? program).parseOptions(words.slice(of.split(' ').length));
      assert.deepEqual(unknown, [], example);
    }
  }
});

test('the options of a guard are a group of their own', () => {
  const agent = helpText('rampart agent');
  const groups = [...agent.matchAll(/^(\S.*):$/gm)].map(([, group]) => group);
  const own = guards.filter(
    ({ directory, options = [] }) => directory ?? options.some(({ on }) => on.includes('agent')),
  );
  for (const { name } of own)
    assert.ok(groups.includes(`Options of ${name}`), `${name} in ${groups.join(', ')}`);
  assert.match(agent, /^Options of several guards:\n {2}--mode /m);
  assert.doesNotMatch(agent.split('Options of ')[0] ?? '', /--network-policy|--bpf-|--integrity-/);
});

test('each -o has an example, and each document of its source a schema that is declared', () => {
  const commands = [...commandsOf(programOf(guards))];
  for (const [name, command] of commands) {
    const output = command.options.find(({ long }) => long === '--output');
    if (!output?.argChoices?.includes('json')) continue;
    const examples = helpOf(command)?.examples.filter((example) => example.includes(`${name} `)) ?? [];
    assert.ok(
      examples.some((example) => / -o \w/.test(example)),
      name,
    );
  }
  const declared = new Set(commands.flatMap(([, command]) => schemasOf(command)));
  const top = join(import.meta.dirname, '..');
  const sources = globSync('{apps,guard,guards,lib}/**/*.ts', { cwd: top }).filter(
    (path) => !/\.(?:test|fixture)\.ts$|command\.ts$/.test(path),
  );
  const written = new Set(
    sources.flatMap(
      (path) => readFileSync(join(top, path), 'utf8').match(/rampart\.dev\/[a-z-]+\/v\d+/g) ?? [],
    ),
  );
  assert.deepEqual([...written].toSorted(), [...declared].toSorted());
});
