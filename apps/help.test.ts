import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Command } from 'commander';
import { guards } from './guards.ts';
import { programOf } from './program.ts';

/** With those of its own, and so on. */
function* commandsOf(command: Command, name: string): Generator<readonly [name: string, command: Command]> {
  yield [name, command];
  for (const sub of command.commands) yield* commandsOf(sub, `${name} ${sub.name()}`);
}

test('--help of every command shows defaults as a person types them', () => {
  const helps = [...commandsOf(programOf(guards), 'rampart')].map(
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
