import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parse, parseAllDocuments } from 'yaml';

import { documentText, yamlDocument } from './document.ts';

test('JSON is one line; 64-bit numbers that JSON cannot represent are strings', () => {
  const value = { small: 12n, large: 2n ** 60n, text: 'a\u202eb' };
  assert.equal(
    documentText('json', value),
    '{"small":12,"large":"1152921504606846976","text":"a\\u202eb"}\n',
  );
});

test('YAML has the same values, and shows what cannot be seen', () => {
  const value = {
    ...{ count: 3n, none: null, yes: true, text: 'no', list: [{ path: '/a' }, []], lines: 'one\ntwo\n' },
    ...{ long: 'word '.repeat(60), 'a: b': '#' },
  };
  assert.deepEqual(parse(documentText('yaml', value)), { ...value, count: 3 });
  const hidden = { 'key\u202e': 'a\u202eb\u009b\u2028', plain: 'c' };
  const text = documentText('yaml', hidden);
  assert.doesNotMatch(text, /[\u007f-\u009f\u2028\u202e]/);
  assert.deepEqual(parse(text), hidden);
});

test('a stream of documents can be taken apart again', () => {
  const values = [{ a: 'one\n---\ntwo' }, { a: 2 }];
  const stream = values.map((value) => `${yamlDocument(JSON.stringify(value))}\n`).join('');
  assert.deepEqual(
    parseAllDocuments(stream).map((document): unknown => document.toJS()),
    values,
  );
});
