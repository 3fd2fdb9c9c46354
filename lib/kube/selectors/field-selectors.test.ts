import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { errorCodes, RampartError } from '../../errors/errors.ts';
import * as fc from '../../testing/fast-check.fixture.ts';
import {
  type FieldSelector,
  fieldsMatch,
  parseFieldSelector,
  requiredFieldValue,
} from './field-selectors.ts';
import { SelectorError } from './selectors.ts';

/** The canonical text: parsing it gives the same selector. */
function fieldSelectorText(selector: FieldSelector): string {
  return selector
    .map(({ field, operator, value }) => field + operator + value.replaceAll(/[\\,=]/g, String.raw`\$&`))
    .join(',');
}

describe('field selectors', () => {
  const table: readonly (readonly [string, string])[] = [
    ['', ''],
    [',', ''],
    ['metadata.name=x', 'metadata.name=x'],
    ['metadata.name==x', 'metadata.name=x'],
    ['metadata.name=x,status.phase!=Running', 'metadata.name=x,status.phase!=Running'],
    ['b=1,,a=2', 'b=1,a=2'],
    ['a=', 'a='],
    ['a!=', 'a!='],
    ['=x', '=x'],
    ['a!b=c', 'a!b=c'],
    [String.raw`a=b\,c\=d\\e`, String.raw`a=b\,c\=d\\e`],
    ['a=!', 'a=!'],
    ['a=b!', 'a=b!'],
    ['a= b ', 'a= b '],
  ];
  for (const [text, canonical] of table) {
    it(`${JSON.stringify(text)} is ${JSON.stringify(canonical)}`, () =>
      assert.equal(fieldSelectorText(parseFieldSelector(text)), canonical));
  }

  it('escapes stand for the characters after the backslash', () => {
    assert.deepEqual(parseFieldSelector(String.raw`a=b\,c\=d\\e,f!=g`), [
      { field: 'a', operator: '=', value: String.raw`b,c=d\e` },
      { field: 'f', operator: '!=', value: 'g' },
    ]);
  });

  const refusals: readonly (readonly [string, string])[] = [
    ['metadata.name', "invalid selector: 'metadata.name'; can't understand 'metadata.name'"],
    ['a=1,b', "invalid selector: 'a=1,b'; can't understand 'b'"],
    ['a=b=c', 'invalid field selector: unescaped character in value: 61'],
    ['a===b', 'invalid field selector: unescaped character in value: 61'],
    [String.raw`a=\n`, String.raw`invalid field selector: invalid escape sequence: \n`],
    ['a=b\\', 'invalid field selector: invalid escape sequence: \\'],
    ['spec.x=1', 'field label not supported: spec.x'],
    ['spec.y!=1', 'field label not supported: spec.y'],
  ];
  for (const [text, message] of refusals) {
    it(`refuses ${JSON.stringify(text)}`, () => {
      const supported = (field: string) => ['a', 'b', 'metadata.name'].includes(field);
      assert.throws(
        () => parseFieldSelector(text, supported),
        (error: Error) => {
          assert.ok(error instanceof SelectorError);
          assert.equal(error.message, message);
          return error.message === message;
        },
      );
    });
  }

  it('an absent field counts as the empty text', () => {
    const pod: Readonly<Record<string, string>> = { 'status.phase': 'Running' };
    const match = (text: string) => fieldsMatch(parseFieldSelector(text), (field) => pod[field]);
    assert.equal(match('status.phase=Running'), true);
    assert.equal(match('status.phase!=Running'), false);
    assert.equal(match('spec.nodeName='), true);
    assert.equal(match('spec.nodeName!='), false);
    assert.equal(match('status.phase=Running,spec.nodeName=n1'), false);
    assert.equal(match(''), true);
  });

  it('a value that is required for any match can be asked for', () => {
    const selector = parseFieldSelector('metadata.namespace!=a,metadata.name=x');
    assert.equal(requiredFieldValue(selector, 'metadata.name'), 'x');
    assert.equal(requiredFieldValue(selector, 'metadata.namespace'), undefined);
  });

  it('parse(print(selector)) = selector for any value', () => {
    const term = fc
      .tuple(
        fc.stringMatching(/^[a-z.]{1,12}$/),
        fc.constantFrom('=' as const, '!=' as const),
        fc.oneof(fc.string(), fc.stringMatching(/^[\\,=!a]{0,8}$/)),
      )
      .map(([field, operator, value]) => ({ field, operator, value }));
    fc.assert(
      fc.property(fc.array(term, { maxLength: 5 }), (selector) =>
        assert.deepEqual(parseFieldSelector(fieldSelectorText(selector)), selector),
      ),
    );
  });

  it('no text makes it throw anything but INPUT, and what is parsed prints and parses again', () => {
    const text = fc.oneof(fc.string({ unit: 'binary' }), fc.stringMatching(/^[ab\\,=! ]{0,12}$/));
    fc.assert(
      fc.property(text, (input) => {
        try {
          const selector = parseFieldSelector(input);
          assert.deepEqual(parseFieldSelector(fieldSelectorText(selector)), selector);
        } catch (error) {
          assert.ok(error instanceof RampartError && error.code === errorCodes.INPUT, String(error));
        }
      }),
      { numRuns: 2000 },
    );
  });
});
