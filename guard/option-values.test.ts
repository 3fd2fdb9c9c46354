import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { choice, number, optionalNumber, optionalText, text, texts } from './option-values.ts';

const values = { name: 'a', names: ['a', 'b'], count: 3, mixed: ['a', 1], none: undefined };

suite('option values', () => {
  test('are read with their types', () => {
    assert.equal(text(values, 'name'), 'a');
    assert.equal(optionalText(values, 'name'), 'a');
    assert.deepEqual(texts(values, 'names'), ['a', 'b']);
    assert.equal(number(values, 'count'), 3);
    assert.equal(optionalNumber(values, 'count'), 3);
    assert.equal(choice(values, 'name', ['b', 'a']), 'a');
  });

  test('that are optional may be missing', () => {
    assert.equal(optionalText(values, 'none'), undefined);
    assert.equal(optionalNumber(values, 'unknown'), undefined);
  });

  for (const [what, read, message] of [
    ['a missing text', () => text(values, 'none'), 'option none is undefined, not a text'],
    ['a number for a text', () => optionalText(values, 'count'), 'option count is 3, not a text'],
    ['a text for a list', () => texts(values, 'name'), 'option name is "a", not a list of texts'],
    ['a list of more than texts', () => texts(values, 'mixed'), /mixed is \["a",1\]/],
    ['a text for a number', () => number(values, 'name'), 'option name is "a", not a number'],
    ['another choice', () => choice(values, 'name', ['b', 'c']), 'option name is "a", not one of b, c'],
  ] as const) {
    test(`refused: ${what}`, () => assert.throws(read, { name: 'TypeError', message }));
  }
});
