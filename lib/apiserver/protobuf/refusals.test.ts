// Input that is not protobuf of Kubernetes, or too much of it.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { deepTest } from '../../testing/depth.fixture.ts';
import { BodyMistake } from '../body/body-mistake.ts';
import { body, bytes, number, tag, varint } from './bytes.fixture.ts';
import { decodeProtobuf } from './decode.ts';

const refusal = (decode: () => unknown): string => {
  try {
    decode();
  } catch (error) {
    if (error instanceof BodyMistake) return error.message;
    throw error;
  }
  return 'taken';
};

const whole = body('v1', 'ConfigMap', bytes(1, bytes(1, 'a')));
const refused: readonly (readonly [what: string, bytes: Buffer, message: RegExp])[] = [
  ['nothing', Buffer.alloc(0), /^empty data$/],
  ['JSON', Buffer.from('{"kind":"Pod"}'), /protobuf message, expected prefix \[107 56 115 0\]$/],
  ['the prefix alone', Buffer.from('k8s\0'), /^empty body$/],
  ['no kind', body('v1', ''), /'Kind' is missing/],
  ['no version', body('', 'Pod'), /'apiVersion' is missing/],
  ['a kind of others', body('example.com/v1', 'Widget'), /no kind "Widget" .* version "example.com\/v1"/],
  ['a name from the prototype', body('v1', 'constructor'), /no kind "constructor"/],
  ['an encoding', Buffer.concat([whole, bytes(3, 'gzip')]), /unknown encoding: "gzip"/],
  [
    'a kind that is a number',
    Buffer.concat([Buffer.from('k8s\0'), number(1, 1)]),
    /Unknown: wrong wireType = 0/,
  ],
  [
    'a name that is a number',
    body('v1', 'ConfigMap', bytes(1, number(1, 1))),
    /wireType = 0 for field name$/,
  ],
  ['a flag that is a text', body('v1', 'ConfigMap', bytes(4, 'x')), /wireType = 2 for field immutable$/],
  ['a map that is a number', body('v1', 'ConfigMap', number(2, 1)), /wireType = 0 for field data$/],
  ['a key that is a number', body('v1', 'ConfigMap', bytes(2, number(1, 1))), /wireType = 0 for field data$/],
  ['field 0', body('v1', 'ConfigMap', number(0, 1)), /ConfigMap: illegal tag 0 \(wire type 0\)$/],
  ['field -1', body('v1', 'ConfigMap', number(2 ** 32 - 1, 1)), /illegal tag -1/],
  ['the end of no group', body('v1', 'ConfigMap', tag(1, 4)), /end group for non-group$/],
  ['a group without an end', body('v1', 'ConfigMap', tag(90, 3)), /^unexpected EOF$/],
  ['wire type 6', body('v1', 'ConfigMap', tag(90, 6)), /illegal wireType 6$/],
  ['eleven bytes of a number', body('v1', 'ConfigMap', Buffer.alloc(11, 0xff)), /integer overflow$/],
  ['a length past the end', body('v1', 'ConfigMap', tag(1, 2), varint(9)), /^unexpected EOF$/],
  ['a length of 2^40', body('v1', 'ConfigMap', tag(1, 2), varint(2 ** 40)), /^unexpected EOF$/],
  ['a negative length', body('v1', 'ConfigMap', tag(1, 2), varint(-1)), /negative length/],
  // The name's length reaches out of the metadata, not out of the body.
  [
    'a length past its message',
    body('v1', 'ConfigMap', bytes(1, tag(1, 2), varint(3)), number(4, 1)),
    /^unexpected EOF$/,
  ],
  [
    'half of a sign',
    body('v1', 'ConfigMap', bytes(1, bytes(1, Buffer.from([0xc3])))),
    /field name .*invalid UTF-8/,
  ],
  [
    'no JSON where JSON is to be',
    body('v1', 'ConfigMap', bytes(1, bytes(17, bytes(7, bytes(1, '{'))))),
    /unexpected end of JSON input/,
  ],
  [
    'neither a text nor a number',
    body('v1', 'Service', bytes(2, bytes(1, bytes(4, number(1, 2))))),
    /impossible IntOrString/,
  ],
  [
    'a year 10000',
    body('v1', 'ConfigMap', bytes(1, bytes(8, number(1, 253_402_300_800)))),
    /year outside of range/,
  ],
  [
    'a year -300000000000',
    body('v1', 'ConfigMap', bytes(1, bytes(8, number(1, -(2n ** 63n))))),
    /year outside/,
  ],
];

for (const [what, bytesOfIt, message] of refused) {
  test(`refused: ${what}`, () => {
    assert.match(
      refusal(() => decodeProtobuf(bytesOfIt)),
      message,
    );
  });
}

describe('bounds', () => {
  const schemaOf = (schema: Buffer): Buffer =>
    body(
      'apiextensions.k8s.io/v1',
      'CustomResourceDefinition',
      bytes(2, bytes(7, bytes(4, bytes(1, schema)))),
    );

  test('nesting', () => {
    let schema: Buffer = Buffer.alloc(0);
    for (let depth = 0; depth < 400; depth++) schema = bytes(28, schema);
    assert.equal(
      refusal(() => decodeProtobuf(schemaOf(schema))),
      'taken',
    );
    for (let depth = 0; depth < 200; depth++) schema = bytes(28, schema);
    assert.match(
      refusal(() => decodeProtobuf(schemaOf(schema))),
      /nested deeper than 500 levels/,
    );
  });

  test('groups in groups', () => {
    const groups = Buffer.concat([
      ...Array.from({ length: 100_000 }, () => tag(15, 3)),
      ...Array.from({ length: 100_000 }, () => tag(15, 4)),
    ]);
    assert.equal(
      refusal(() => decodeProtobuf(body('v1', 'ConfigMap', groups))),
      'taken',
    );
  });

  deepTest('objects: two bytes each are not worth a million of them', () => {
    const claims = Buffer.concat(Array.from({ length: 1_000_000 }, () => Buffer.from([0x22, 0])));
    assert.match(
      refusal(() => decodeProtobuf(body('apps/v1', 'StatefulSet', bytes(2, claims)))),
      /too many objects/,
    );
    const maps = Buffer.concat(Array.from({ length: 1_000_000 }, () => Buffer.from([0x12, 0])));
    assert.equal(
      refusal(() => decodeProtobuf(body('v1', 'ConfigMap', maps))),
      'taken',
    );
  });
});
