import assert from 'node:assert/strict';
import { test } from 'node:test';

import { assertReached, scaled } from '../../testing/depth.fixture.ts';
import * as fc from '../../testing/fast-check.fixture.ts';
import { BodyMistake } from '../body/body-mistake.ts';
import { body } from './bytes.fixture.ts';
import { decodeProtobuf } from './decode.ts';
import { knownKinds } from './fields.ts';
import { anyObject, encoded } from './messages.fixture.ts';

const kinds = knownKinds().map((kind) => kind.split(' ') as [string, string]);

/** A BodyMistake or an object; anything else fails. */
function decodes(bytes: Buffer): boolean {
  try {
    const object = decodeProtobuf(bytes);
    assert.equal(typeof object['kind'], 'string');
    return true;
  } catch (error) {
    if (error instanceof BodyMistake) return false;
    throw error;
  }
}

test('every object of every kind survives a round trip', () => {
  for (const [apiVersion, kind] of kinds) {
    fc.assert(
      fc.property(fc.integer(), (seed) => {
        const object = anyObject(seed, apiVersion, kind);
        assert.deepEqual(decodeProtobuf(encoded(object)), object);
      }),
      { numRuns: 100 },
    );
  }
});

const anyKind = fc.constantFrom(...kinds);
const anyBody = fc
  .tuple(anyKind, fc.integer())
  .map(([[apiVersion, kind], seed]) => encoded(anyObject(seed, apiVersion, kind)));

test('random bytes as the message of any kind', () => {
  fc.assert(
    fc.property(anyKind, fc.uint8Array({ maxLength: 200 }), ([apiVersion, kind], bytes) => {
      decodes(body(apiVersion, kind, Buffer.from(bytes)));
      decodes(Buffer.concat([Buffer.from('k8s\0'), bytes]));
    }),
    { numRuns: 2000 },
  );
});

test('bodies that were cut are refused, unless that was after a whole field', () => {
  let cut = 0;
  let refused = 0;
  fc.assert(
    fc.property(anyBody, fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), (bytes, part) => {
      // Two fields of the envelope, empty, come last.
      const length = Math.floor(part * (bytes.length - 4));
      cut++;
      if (!decodes(bytes.subarray(0, length))) refused++;
    }),
    { numRuns: 1000 },
  );
  assertReached(refused > cut * 0.9, `${refused} of ${cut}`);
});

test('bodies with bytes that were changed, put in, or taken out', () => {
  const change = fc.record({
    at: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
    remove: fc.integer({ min: 0, max: 3 }),
    insert: fc.uint8Array({ maxLength: 3 }),
  });
  let taken = 0;
  fc.assert(
    fc.property(anyBody, fc.array(change, { minLength: 1, maxLength: 5 }), (bytes, changes) => {
      let changed = bytes;
      for (const { at, remove, insert } of changes) {
        const index = Math.floor(at * changed.length);
        changed = Buffer.concat([changed.subarray(0, index), insert, changed.subarray(index + remove)]);
      }
      if (decodes(changed)) taken++;
    }),
    { numRuns: 3000, min: 1000 },
  );
  // Not all are refused at the door: the rest of the decoder is reached.
  assertReached(taken > scaled(10), `${taken} taken`);
});
