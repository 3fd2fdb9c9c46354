import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as fc from '../testing/fast-check.fixture.ts';
import { MessageWriter } from './writer.ts';

/** The fields of a message, as a reader of the wire format finds them (protobuf.dev, "Encoding"). */
function fieldsOf(bytes: Buffer): readonly (readonly [field: number, value: Buffer | number])[] {
  const fields: [number, Buffer | number][] = [];
  let at = 0;
  const varint = (): number => {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = bytes[at++] ?? assert.fail('the message ends in a number');
      value += (byte % 128) * scale;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const tag = varint();
    const field = Math.floor(tag / 8);
    if (tag % 8 === 0) fields.push([field, varint()]);
    else if (tag % 8 === 1) fields.push([field, bytes.readDoubleLE((at += 8) - 8)]);
    else {
      const size = varint();
      assert.ok(at + size <= bytes.length);
      fields.push([field, bytes.subarray(at, (at += size))]);
    }
  }
  return fields;
}

test('written values can be read', () => {
  fc.assert(
    fc.property(
      fc.record({
        text: fc.string({ unit: 'grapheme', minLength: 1, maxLength: 300 }),
        texts: fc.array(fc.string()),
        whole: fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }),
        double: fc.double({ noNaN: true }).filter((value) => value !== 0),
        // So small that it has to grow.
        sizeBytes: fc.nat(64),
      }),
      ({ text, texts, whole, double, sizeBytes }) => {
        const writer = new MessageWriter(sizeBytes);
        writer.flag(1, true);
        writer.text(2, text);
        writer.texts(3, texts);
        writer.message(20, () => {
          writer.whole(4, whole);
          writer.message(5, () => writer.double(6, double));
          writer.messages(7, texts, (one) => writer.texts(1, [one]));
        });
        const fields = fieldsOf(writer.bytes());
        const values = (from: typeof fields, field: number) =>
          from.filter(([one]) => one === field).map(([, value]) => value);
        assert.deepEqual(values(fields, 1), [1]);
        assert.deepEqual(values(fields, 2).map(String), [text]);
        assert.deepEqual(values(fields, 3).map(String), texts);
        const [inner] = values(fields, 20);
        assert.ok(Buffer.isBuffer(inner));
        const innerFields = fieldsOf(inner);
        assert.deepEqual(values(innerFields, 4), [whole]);
        const [innermost] = values(innerFields, 5);
        assert.ok(Buffer.isBuffer(innermost));
        assert.deepEqual(values(fieldsOf(innermost), 6), [double]);
        assert.deepEqual(
          values(innerFields, 7).map((one) =>
            Buffer.isBuffer(one) ? fieldsOf(one).map(([, value]) => String(value)) : [],
          ),
          texts.map((one) => [one]),
        );
      },
    ),
  );
});

test('absent values are not written', () => {
  const writer = new MessageWriter();
  writer.text(1, undefined);
  writer.text(1, '');
  writer.flag(2, false);
  writer.whole(3, undefined);
  writer.whole(3, 0);
  writer.whole(3, -1);
  writer.whole(3, 0.5);
  writer.double(4, undefined);
  writer.texts(5, []);
  assert.equal(writer.bytes().length, 0);
});
