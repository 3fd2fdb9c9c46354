import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import * as fc from '../../testing/fast-check.fixture.ts';
import { decodeToken, encodeToken } from './continue-token.ts';
import { MalformedTokenError } from './errors.ts';

const key = Buffer.alloc(32, 7);
const plain = { noNullPrototype: true };
const continuation = fc.record(
  {
    resource: fc.string(),
    namespace: fc.option(fc.string(), { nil: undefined }),
    version: fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }),
    after: fc.record({ namespace: fc.string(), name: fc.string({ unit: 'grapheme' }) }, plain),
  },
  plain,
);

suite('continue token', () => {
  test('says what was put in, in characters that need no escape in a URL', () => {
    fc.assert(
      fc.property(continuation, (given) => {
        const token = encodeToken(key, given);
        assert.match(token, /^[\w-]+$/);
        assert.deepEqual(decodeToken(key, token), given);
      }),
    );
  });

  test('with any character changed, added or left out is malformed', () => {
    const change = fc.record({
      given: continuation,
      at: fc.nat(),
      text: fc.string({ maxLength: 2 }),
      cut: fc.nat({ max: 2 }),
    });
    fc.assert(
      fc.property(change, ({ given, at, text, cut }) => {
        const token = encodeToken(key, given);
        const place = at % (token.length + 1);
        const changed = token.slice(0, place) + text + token.slice(place + cut);
        if (changed !== token) assert.throws(() => decodeToken(key, changed), MalformedTokenError);
      }),
      { numRuns: 2000 },
    );
  });

  test('anything else is malformed', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (token) => {
        assert.throws(() => decodeToken(key, token), MalformedTokenError);
      }),
      { numRuns: 2000 },
    );
    const ofAnother = encodeToken(Buffer.alloc(32, 8), {
      resource: 'pods',
      namespace: undefined,
      version: 1n,
      after: { namespace: '', name: 'a' },
    });
    assert.throws(() => decodeToken(key, ofAnother), MalformedTokenError);
  });
});
