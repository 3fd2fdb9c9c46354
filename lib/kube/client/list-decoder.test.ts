import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import * as fc from '../../testing/fast-check.fixture.ts';
import { ListDecoder } from './list-decoder.ts';

/** Cuts bytes at the places that are given, which may be any numbers. */
function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const ends = [...new Set(places.map((place) => place % (bytes.length + 1)))].sort((a, b) => a - b);
  return [...ends, bytes.length].map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end));
}

function decode(pieces: Iterable<Uint8Array>): { items: unknown[]; fields: Record<string, unknown> } {
  const decoder = new ListDecoder();
  const items: unknown[] = [];
  for (const piece of pieces) for (const item of decoder.push(piece)) items.push(JSON.parse(item));
  return { items, fields: Object.fromEntries(decoder.end()) };
}

/** Strings with what a scanner may stumble over. */
const string = fc.oneof(
  fc.string({ maxLength: 8 }),
  fc.string({ unit: 'binary', maxLength: 8 }),
  fc.string({
    unit: fc.constantFrom('"', '\\', '{', '}', '[', ']', ',', ':', 'é', '𝄞', '\n', 'u'),
    maxLength: 8,
  }),
);
/** JSON.parse, which says what is right here, takes a key with an escape for another one (nodejs/node#63785). */
const key = string.filter((text) => !JSON.stringify(text).includes('\\'));
const json = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    string,
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.constantFrom(true, false, null, {}, []),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(key, tie('value'), { maxKeys: 4 }),
  ),
})).value;
const otherFields = fc.dictionary(
  key.filter((name) => name !== 'items' && name !== '__proto__'),
  json,
  { maxKeys: 4 },
);
const places = fc.array(fc.nat(), { maxLength: 30 });

suite('list decoder', () => {
  test('any list, cut anywhere, in any layout, gives what JSON.parse gives', () => {
    fc.assert(
      fc.property(
        fc.array(json, { maxLength: 8 }),
        otherFields,
        fc.nat(),
        fc.constantFrom('', ' ', '\t', '\n  '),
        places,
        (items, others, at, space, cuts) => {
          const entries = Object.entries(others);
          entries.splice(at % (entries.length + 1), 0, ['items', items]);
          const text = JSON.stringify(Object.fromEntries(entries), undefined, space);
          const { items: expected, ...rest } = JSON.parse(`${space}${text}${space}`) as Record<
            string,
            unknown
          >;
          const got = decode(cut(Buffer.from(`${space}${text}${space}`), cuts));
          assert.deepEqual(got.items, expected);
          assert.deepEqual(got.fields, rest);
        },
      ),
      { numRuns: 2000 },
    );
  });

  test('byte by byte, with escapes in keys and strings', () => {
    const text = String.raw` {"kind":"PodList", "\u0069tems" : [ {"a":"}\"]\\"} ,[ "ä€𝄞" ],-1.5e3 , "x,]" ,null,true] , "metadata":{"resourceVersion":"7","continue":"\u0041"}} `;
    const pieces = [...Buffer.from(text)].map((byte) => Buffer.from([byte]));
    assert.deepEqual(decode(pieces), {
      items: [{ a: '}"]\\' }, ['ä€𝄞'], -1500, 'x,]', null, true],
      fields: { kind: 'PodList', metadata: { resourceVersion: '7', continue: 'A' } },
    });
  });

  test('no items: an empty list, and null', () => {
    for (const text of ['{"items":[]}', '{"items":null,"kind":"x"}', '{"kind":"x","items":[ ]}']) {
      assert.deepEqual(decode([Buffer.from(text)]).items, []);
    }
  });

  test('documents that JSON.parse refuses are refused, and so are truncated ones', () => {
    const refused = [
      '[]', '', '{', 'null', '{"items":[1 2]}', '{"items":[,1]}', '{"items":[1,]}', '{"items":[1]},', '{"items":[1]}}',
      '{items:[]}', '{"items":[]"a":1}', '{"items" []}', '{"items":[],}', '{,"items":[]}', '{"a":1}', '{"items":{}}',
      '{"items":[],"items":[]}', '{"items":null,"items":[]}', '{"a":tru,"items":[]}', '{"items":[]} x', '{"items":[+1]}',
      '\ufeff{"items":[]}', '{"items":[{"a":]}', '{"items":[{]]}',
    ]; // prettier-ignore
    for (const text of refused) assert.throws(() => decode([Buffer.from(text)]), Error, text);
    const whole = Buffer.from('{"kind":"é","items":[{"a":"b"},2],"metadata":{}}');
    for (let end = 0; end < whole.length; end++) {
      assert.throws(() => decode([whole.subarray(0, end)]), { code: 'RAMPART_DECODE' });
    }
  });

  test('bytes that are not UTF-8, an item that is too long', () => {
    const bytes = Buffer.from('{"items":["a"]}');
    bytes[11] = 0xff;
    assert.throws(() => decode([bytes]), { code: 'RAMPART_DECODE' });
    for (const cuts of [[], [40]]) {
      const decoder = new ListDecoder(20);
      const items: string[] = [];
      assert.throws(
        () => {
          for (const piece of cut(Buffer.from(`{"items":["short","${'x'.repeat(100)}"]}`), cuts)) {
            for (const item of decoder.push(piece)) items.push(item);
          }
        },
        { code: 'RAMPART_LIMIT' },
      );
      assert.deepEqual(items, ['"short"']);
    }
  });

  test('fields are known as soon as they have come', () => {
    const decoder = new ListDecoder();
    const items = [...decoder.push(Buffer.from('{"metadata":{"resourceVersion":"5"},"items":[1,'))];
    assert.deepEqual(items, ['1']);
    assert.deepEqual(decoder.fields.get('metadata'), { resourceVersion: '5' });
  });
});
