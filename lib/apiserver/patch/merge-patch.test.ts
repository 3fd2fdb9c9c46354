import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as fc from '../../testing/fast-check.fixture.ts';
import { canonicalJson, isObject, type JsonObject } from '../../json/json.ts';
import { applyMergePatch, mergePatch } from './merge-patch.ts';
import { Refusal } from '../../json/refusal.ts';

const parse = (text: string): unknown => JSON.parse(text) as unknown;

/** RFC 7386, appendix A: original, patch, result. */
const appendix: readonly (readonly [string, string, string])[] = [
  ['{"a":"b"}', '{"a":"c"}', '{"a":"c"}'],
  ['{"a":"b"}', '{"b":"c"}', '{"a":"b","b":"c"}'],
  ['{"a":"b"}', '{"a":null}', '{}'],
  ['{"a":"b","b":"c"}', '{"a":null}', '{"b":"c"}'],
  ['{"a":["b"]}', '{"a":"c"}', '{"a":"c"}'],
  ['{"a":"c"}', '{"a":["b"]}', '{"a":["b"]}'],
  ['{"a":{"b":"c"}}', '{"a":{"b":"d","c":null}}', '{"a":{"b":"d"}}'],
  ['{"a":[{"b":"c"}]}', '{"a":[1]}', '{"a":[1]}'],
  ['["a","b"]', '["c","d"]', '["c","d"]'],
  ['{"a":"b"}', '["c"]', '["c"]'],
  ['{"a":"foo"}', 'null', 'null'],
  ['{"a":"foo"}', '"bar"', '"bar"'],
  ['{"e":null}', '{"a":1}', '{"e":null,"a":1}'],
  ['[1,2]', '{"a":"b","c":null}', '{"a":"b"}'],
  ['{}', '{"a":{"bb":{"ccc":null}}}', '{"a":{"bb":{}}}'],
];

describe('JSON merge patch', () => {
  for (const [original, patch, expected] of appendix) {
    it(`RFC 7386 A: ${original} with ${patch}`, () => {
      const target = parse(original);
      assert.deepEqual(mergePatch(target, parse(patch)), parse(expected));
      assert.equal(JSON.stringify(target), original);
    });
  }

  it('names that mean something elsewhere are ordinary data', () => {
    const patch = parse(
      '{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}},"toString":null}',
    );
    const patched = applyMergePatch({ a: 1 }, patch);
    assert.equal(
      JSON.stringify(patched),
      '{"a":1,"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}',
    );
    assert.equal(Object.getPrototypeOf(patched), Object.prototype);
    assert.ok(!('polluted' in {}));
    assert.equal(
      JSON.stringify(applyMergePatch(patched, parse('{"__proto__":null,"constructor":null}'))),
      '{"a":1}',
    );
  });

  it('a body that is not an object is 400, and so is one that is nested too deep', () => {
    const deep = parse(`${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}`);
    for (const body of [null, [], 'x', 1, true, deep]) {
      assert.throws(
        () => applyMergePatch({}, body),
        (error) => error instanceof Refusal && error.status.code === 400,
      );
    }
  });
});

describe('laws of merge patch', () => {
  const name = fc.constantFrom('a', 'b', 'c', '__proto__', 'constructor');
  const valueWith = (leaf: fc.Arbitrary<unknown>) =>
    fc.letrec((tie) => ({
      value: fc.oneof(
        { maxDepth: 3 },
        leaf,
        fc.array(leaf, { maxLength: 2 }),
        fc.dictionary(name, tie('value'), { maxKeys: 3 }),
      ),
    })).value;
  const patches = fc.dictionary(name, valueWith(fc.constantFrom(null, 1, 'x'))) as fc.Arbitrary<JsonObject>;
  const objects = fc.dictionary(name, valueWith(fc.constantFrom(1, 'x', true))) as fc.Arbitrary<JsonObject>;

  it('a patch applied twice is a patch applied once', () => {
    fc.assert(
      fc.property(objects, patches, (target, patch) => {
        const once = mergePatch(target, patch);
        assert.equal(canonicalJson(mergePatch(once, patch)), canonicalJson(once));
      }),
    );
  });

  it('two patches one after the other are one, where a name is an object always or never', () => {
    const inner = fc.constantFrom('a', '__proto__');
    const leaves = fc.dictionary(fc.constantFrom('x', 'constructor'), fc.constantFrom(1, 'x', [2]), {
      maxKeys: 2,
    });
    const { object } = fc.letrec<{ object: JsonObject }>((tie) => ({
      object: fc
        .tuple(leaves, fc.oneof({ maxDepth: 3 }, fc.constant({}), fc.dictionary(inner, tie('object'))))
        .map(([fields, nested]) => ({ ...fields, ...nested })),
    }));
    fc.assert(
      fc.property(object, object, object, (target, first, second) => {
        assert.equal(
          canonicalJson(mergePatch(mergePatch(target, first), second)),
          canonicalJson(mergePatch(target, mergePatch(first, second))),
        );
      }),
    );
  });

  it('the empty patch changes nothing; onto nothing, a patch is itself without its nulls', () => {
    fc.assert(
      fc.property(objects, (target) => {
        assert.equal(canonicalJson(mergePatch(target, {})), canonicalJson(target));
        assert.equal(canonicalJson(mergePatch({}, target)), canonicalJson(target));
      }),
    );
  });

  it('a null removes, a value is there afterwards, and what is not named stays', () => {
    fc.assert(
      fc.property(objects, patches, (target, patch) => {
        const merged = mergePatch(target, patch) as JsonObject;
        for (const [field, value] of Object.entries(patch)) {
          if (value === null) assert.ok(!Object.hasOwn(merged, field));
          else if (!isObject(value)) assert.deepEqual(merged[field], value);
        }
        for (const field of Object.keys(target)) {
          if (!Object.hasOwn(patch, field)) assert.equal(merged[field], target[field]);
        }
      }),
    );
  });

  it('neither argument is changed, whatever they are', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (target, patch) => {
        const before = JSON.stringify([target, patch]);
        mergePatch(target, patch);
        assert.equal(JSON.stringify([target, patch]), before);
      }),
    );
  });
});
