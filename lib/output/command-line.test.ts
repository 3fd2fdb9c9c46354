import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';

import { commandLine } from './command-line.ts';

test('a shell splits the line into the original words', () => {
  const words = [
    'plain',
    '',
    "it's",
    '$(id)',
    '`id`',
    'a b',
    '\\',
    '"',
    '*',
    '!x',
    '~',
    '#',
    'é',
    '-n',
    ';&|<>',
  ];
  const line = commandLine(words);
  const printed = execFileSync('sh', ['-c', `printf '%s\\0' ${line}`], { encoding: 'utf8' });
  assert.deepEqual(printed.split('\0').slice(0, -1), words);
  assert.equal(commandLine(['rampart', '-n', 'shop/web:80']), 'rampart -n shop/web:80');
});

test('a word with invisible characters has no command line', () => {
  for (const word of ['a\nb', 'a\u001b[2J', 'a\u202eb', 'a\rb'])
    assert.equal(commandLine(['x', word]), undefined);
});
