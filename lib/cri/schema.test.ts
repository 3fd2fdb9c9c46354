import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { create, type DescMessage, fromBinary, toBinary } from '@bufbuild/protobuf';

import * as fc from '../testing/fast-check.fixture.ts';
import { messageDescriptor } from './descriptors.fixture.ts';
import { messages } from './lab-schema.fixture.ts';
import type { Field } from '../protobuf/message-codec.ts';
import { codec, type Message, type MessageName } from './schema.ts';

const encode = codec.encode.bind(codec);
const decode = codec.decode.bind(codec);

const scalars: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
  string: fc.string({ unit: 'grapheme' }),
  bool: fc.boolean(),
  int32: fc.integer(),
  uint32: fc.integer({ min: 0, max: 2 ** 32 - 1 }),
  int64: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  bytes: fc.uint8Array(),
  map: fc.dictionary(fc.string(), fc.string(), { noNullPrototype: true }),
};

/** Any message of this name, with any of its fields. */
function anyMessage(name: MessageName): fc.Arbitrary<Readonly<Record<string, unknown>>> {
  const fields = Object.entries<Field>(messages[name]).map(([field, [, type, list]]) => {
    const value = scalars[type] ?? anyMessage(type as MessageName);
    return [field, list === undefined ? value : fc.array(value, { maxLength: 3 })] as const;
  });
  return fc.record(Object.fromEntries(fields), { requiredKeys: [], noNullPrototype: true });
}

/** Without what the library adds to its messages. */
function plain(value: unknown): unknown {
  if (value instanceof Uint8Array) return Buffer.from(value).toString('hex');
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).filter(([key, inner]) => key !== '$typeName' && inner !== undefined);
  return Object.fromEntries(entries.map(([key, inner]) => [key, plain(inner)]));
}

const names = Object.keys(messages) as MessageName[];

suite('messages as bytes, beside @bufbuild/protobuf', () => {
  for (const name of names) {
    const descriptor: DescMessage = messageDescriptor(name);
    test(name, () => {
      fc.assert(
        fc.property(anyMessage(name), (message) => {
          const ours = encode(name, message);
          const theirs = toBinary(descriptor, create(descriptor, message));
          // They read our encoding, and we read theirs.
          const expected = plain(fromBinary(descriptor, theirs));
          assert.deepEqual(plain(fromBinary(descriptor, ours)), expected);
          assert.deepEqual(plain(decode(name, theirs)), expected);
        }),
        { numRuns: 50 },
      );
    });
  }

  test('fields that are not in the table are passed over, in every form', () => {
    const unknown = [
      Buffer.from([((100 << 3) & 0x7f) | 0x80 | 0, 0x06, 0x96, 0x01]), // varint
      Buffer.from([0xa1, 0x06, 1, 2, 3, 4, 5, 6, 7, 8]), // 64 bits
      Buffer.from([0xa2, 0x06, 2, 1, 2]), // length
      Buffer.from([0xa5, 0x06, 1, 2, 3, 4]), // 32 bits
      Buffer.from([0x10, 0x01]), // field 2, the runtime's name, as a number
    ];
    const known = encode('VersionResponse', { runtimeName: 'containerd', runtimeVersion: '1' });
    for (const field of unknown) {
      for (const bytes of [Buffer.concat([field, known]), Buffer.concat([known, field])]) {
        assert.deepEqual(decode('VersionResponse', bytes), {
          runtimeName: 'containerd',
          runtimeVersion: '1',
        });
      }
    }
  });

  test('a label named __proto__ is a label', () => {
    const labels = JSON.parse('{"__proto__": "x", "a": "b"}') as Record<string, string>;
    const read: Message<'PodSandbox'> = decode('PodSandbox', encode('PodSandbox', { labels }));
    assert.deepEqual(Object.entries(read.labels), [
      ['__proto__', 'x'],
      ['a', 'b'],
    ]);
    assert.equal(Object.getPrototypeOf(read.labels), Object.prototype);
  });

  test('invalid messages are refused, and nothing is read beyond them', () => {
    const whole = encode('ListContainersResponse', {
      containers: [
        { id: 'x'.repeat(64), createdAt: 5n, labels: { a: 'b' }, metadata: { name: 'n', attempt: 3 } },
      ],
    });
    for (let end = 1; end < whole.length; end += 1) {
      assert.throws(() => decode('ListContainersResponse', whole.subarray(0, end)), {
        code: 'RAMPART_DECODE',
      });
    }
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), fc.constantFrom(...names), (bytes, name) => {
        try {
          decode(name, bytes);
        } catch (error) {
          assert.equal((error as { code?: string }).code, 'RAMPART_DECODE', String(error));
        }
      }),
      { numRuns: 2_000 },
    );
  });
});
