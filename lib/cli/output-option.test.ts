import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Command, CommanderError } from 'commander';

import { addOutput, prettyFormats, tableFormats } from './output-option.ts';

function outputOf(command: Command, ...args: readonly string[]): unknown {
  command.exitOverride().configureOutput({ writeErr: () => undefined });
  return command.parse(args, { from: 'user' }).opts()['output'];
}

test('the first format is the default; for events, none', () => {
  const table = (): Command => addOutput(new Command('list'), tableFormats);
  assert.equal(outputOf(table()), 'table');
  assert.equal(outputOf(table(), '-o', 'wide'), 'wide');
  assert.equal(outputOf(table(), '--output=yaml'), 'yaml');
  assert.throws(() => outputOf(table(), '-o', 'xml'), CommanderError);
  const events = addOutput(new Command('alerts'), prettyFormats, { events: true });
  assert.equal(outputOf(events), undefined);
});

test('the options of earlier releases are accepted, and not shown', () => {
  const json = (): Command => addOutput(new Command('doctor'), tableFormats, { former: '--json' });
  assert.equal(outputOf(json(), '--json'), 'json');
  assert.equal(outputOf(json()), 'table');
  const format = (): Command => addOutput(new Command('status'), tableFormats, { former: '--format' });
  assert.equal(outputOf(format(), '--format', 'json'), 'json');
  assert.throws(() => outputOf(format(), '--format', 'xml'), CommanderError);
  const text = (): Command =>
    addOutput(new Command('explain'), prettyFormats, { formerNames: { text: 'pretty' } });
  assert.equal(outputOf(text(), '-o', 'text'), 'pretty');
  for (const command of [json(), format(), text()])
    assert.doesNotMatch(command.helpInformation(), /--json|--format |text/);
});
