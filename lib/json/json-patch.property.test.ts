import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { applyPatch, createPatch } from 'rfc6902';
import { assertReached, scaled } from '../testing/depth.fixture.ts';
import * as fc from '../testing/fast-check.fixture.ts';
import { isObject, type JsonObject } from './json.ts';
import { applyJsonPatch } from './json-patch.ts';
import { Refusal } from './refusal.ts';

describe('laws of JSON patch', () => {
  const name = fc.constantFrom('a', 'b', 'c/d', 'e~f', '', '0', '-', '~1');
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 3 },
      fc.constantFrom(null, true, 1, 'x', ''),
      fc.array(tie('value'), { maxLength: 3 }),
      fc.dictionary(name, tie('value'), { maxKeys: 3, noNullPrototype: true }),
    ),
  }));
  const object = fc.dictionary(name, value, {
    maxKeys: 4,
    noNullPrototype: true,
  }) as fc.Arbitrary<JsonObject>;
  const pointer = fc
    .array(fc.constantFrom('a', 'b', 'c~1d', 'e~0f', '', '0', '1', '-', '~01'), { maxLength: 3 })
    .map((tokens) => tokens.map((token) => `/${token}`).join(''));
  const operation = fc.oneof(
    fc.record(
      { op: fc.constantFrom('add', 'replace', 'test'), path: pointer, value },
      { noNullPrototype: true },
    ),
    fc.record({ op: fc.constant('remove'), path: pointer }, { noNullPrototype: true }),
    fc.record(
      { op: fc.constantFrom('move', 'copy'), from: pointer, path: pointer },
      { noNullPrototype: true },
    ),
  );

  it('the difference of two objects, found by another implementation, makes one the other', () => {
    fc.assert(
      fc.property(object, object, (from, to) => {
        const before = JSON.stringify(from);
        assert.deepEqual(applyJsonPatch(from, createPatch(from, to)), to);
        assert.equal(JSON.stringify(from), before);
      }),
    );
  });

  it('a patch that applies has the same result in another implementation', () => {
    // Theirs looks the target of a move up before it removes the source, which shifts a list.
    const steady = ({ op, path, ...rest }: { op: string; path: string }) => {
      const from = 'from' in rest ? String(rest.from) : '';
      const inside = `${from.slice(0, from.lastIndexOf('/'))}/`;
      return op !== 'move' || !path.startsWith(inside) || !path.slice(inside.length).includes('/');
    };
    const operationsOn = (document: JsonObject) => {
      const places = fc.constantFrom(...placesIn(document, ''));
      const target = fc.oneof(
        places,
        fc.tuple(places, fc.constantFrom('/n', '/0', '/-')).map((parts) => parts.join('')),
      );
      return fc.array(
        fc.oneof(
          fc.record(
            { op: fc.constantFrom('add', 'replace'), path: target, value },
            { noNullPrototype: true },
          ),
          fc.record({ op: fc.constant('remove'), path: places }, { noNullPrototype: true }),
          fc.record(
            { op: fc.constantFrom('move', 'copy'), from: places, path: target },
            { noNullPrototype: true },
          ),
        ),
        { minLength: 1, maxLength: 3 },
      );
    };
    const cases = object
      .filter((document) => Object.keys(document).length > 0)
      .chain((document) => fc.tuple(fc.constant(document), operationsOn(document)));
    let applied = 0;
    fc.assert(
      fc.property(cases, ([document, patch]) => {
        let ours: JsonObject;
        try {
          ours = applyJsonPatch(document, patch);
        } catch (error) {
          assert.ok(error instanceof Refusal && error.status.code === 422, String(error));
          return;
        }
        if (!patch.every(steady)) return;
        applied++;
        const theirs = structuredClone(document);
        const results = applyPatch(theirs, structuredClone(patch));
        // In replacing a missing value, ours follows the API server.
        if (patch.some(({ op }, index) => op === 'replace' && results[index] !== null)) return;
        assert.ok(
          results.every((result) => result === null),
          JSON.stringify({ document, patch }),
        );
        assert.deepEqual(ours, theirs);
      }),
      { numRuns: 1000 },
    );
    assertReached(applied > scaled(200), `only ${applied} patches applied`);
  });

  it('anything at all is refused or applied, and changes nothing that was handed in', () => {
    const body = fc.oneof(
      fc.jsonValue(),
      fc.array(
        fc.oneof(
          fc.jsonValue(),
          operation,
          fc.dictionary(fc.constantFrom('op', 'path', 'from', 'value'), value),
        ),
      ),
    );
    fc.assert(
      fc.property(object, body, (document, patch) => {
        const before = JSON.stringify([document, patch]);
        try {
          assert.ok(isObject(applyJsonPatch(document, patch)));
        } catch (error) {
          assert.ok(error instanceof Refusal, String(error));
        }
        assert.equal(JSON.stringify([document, patch]), before);
      }),
      { numRuns: 1000 },
    );
  });
});

/** The pointers to all values in a value, without the one to itself. */
function placesIn(value: unknown, at: string): string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, item]) => {
    const pointer = `${at}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`;
    return [pointer, ...placesIn(item, pointer)];
  });
}
