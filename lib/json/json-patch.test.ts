import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { isObject, type JsonObject } from './json.ts';
import { applyJsonPatch } from './json-patch.ts';
import { refusalOf } from './refusal.fixture.ts';

const parse = (text: string): unknown => JSON.parse(text) as unknown;

/** RFC 6902, appendix A, with the result or 422 for an error. */
const appendix: readonly (readonly [string, string, string, string | 422])[] = [
  [
    'A.1 adding a member',
    '{"foo":"bar"}',
    '[{"op":"add","path":"/baz","value":"qux"}]',
    '{"foo":"bar","baz":"qux"}',
  ],
  [
    'A.2 adding an element',
    '{"foo":["bar","baz"]}',
    '[{"op":"add","path":"/foo/1","value":"qux"}]',
    '{"foo":["bar","qux","baz"]}',
  ],
  ['A.3 removing a member', '{"baz":"qux","foo":"bar"}', '[{"op":"remove","path":"/baz"}]', '{"foo":"bar"}'],
  [
    'A.4 removing an element',
    '{"foo":["bar","qux","baz"]}',
    '[{"op":"remove","path":"/foo/1"}]',
    '{"foo":["bar","baz"]}',
  ],
  [
    'A.5 replacing a value',
    '{"baz":"qux","foo":"bar"}',
    '[{"op":"replace","path":"/baz","value":"boo"}]',
    '{"baz":"boo","foo":"bar"}',
  ],
  [
    'A.6 moving a value',
    '{"foo":{"bar":"baz","waldo":"fred"},"qux":{"corge":"grault"}}',
    '[{"op":"move","from":"/foo/waldo","path":"/qux/thud"}]',
    '{"foo":{"bar":"baz"},"qux":{"corge":"grault","thud":"fred"}}',
  ],
  [
    'A.7 moving an element',
    '{"foo":["all","grass","cows","eat"]}',
    '[{"op":"move","from":"/foo/1","path":"/foo/3"}]',
    '{"foo":["all","cows","eat","grass"]}',
  ],
  [
    'A.8 testing: success',
    '{"baz":"qux","foo":["a",2,"c"]}',
    '[{"op":"test","path":"/baz","value":"qux"},{"op":"test","path":"/foo/1","value":2}]',
    '{"baz":"qux","foo":["a",2,"c"]}',
  ],
  ['A.9 testing: error', '{"baz":"qux"}', '[{"op":"test","path":"/baz","value":"bar"}]', 422],
  [
    'A.10 adding a nested member',
    '{"foo":"bar"}',
    '[{"op":"add","path":"/child","value":{"grandchild":{}}}]',
    '{"foo":"bar","child":{"grandchild":{}}}',
  ],
  [
    'A.11 unknown members are ignored',
    '{"foo":"bar"}',
    '[{"op":"add","path":"/baz","value":"qux","xyz":123}]',
    '{"foo":"bar","baz":"qux"}',
  ],
  ['A.12 adding to a missing target', '{"foo":"bar"}', '[{"op":"add","path":"/baz/bat","value":"qux"}]', 422],
  ['A.14 ~ escapes', '{"/":9,"~1":10}', '[{"op":"test","path":"/~01","value":10}]', '{"/":9,"~1":10}'],
  ['A.15 texts and numbers differ', '{"/":9,"~1":10}', '[{"op":"test","path":"/~01","value":"10"}]', 422],
  [
    'A.16 appending a value',
    '{"foo":["bar"]}',
    '[{"op":"add","path":"/foo/-","value":["abc","def"]}]',
    '{"foo":["bar",["abc","def"]]}',
  ],
];

const more: readonly (readonly [string, string, string, string | 422])[] = [
  [
    'copy',
    '{"a":{"b":1}}',
    '[{"op":"copy","from":"/a","path":"/c"},{"op":"add","path":"/c/d","value":2}]',
    '{"a":{"b":1},"c":{"b":1,"d":2}}',
  ],
  [
    'adding to an own container after a copy of it',
    '{"a":{}}',
    '[{"op":"add","path":"/a/x","value":1},{"op":"copy","from":"/a","path":"/b"},{"op":"add","path":"/a/y","value":2}]',
    '{"a":{"x":1,"y":2},"b":{"x":1}}',
  ],
  ['add replaces a member', '{"a":1}', '[{"op":"add","path":"/a","value":null}]', '{"a":null}'],
  [
    'the whole object',
    '{"a":1}',
    '[{"op":"replace","path":"","value":{"b":1}},{"op":"add","path":"/c","value":1}]',
    '{"b":1,"c":1}',
  ],
  ['the whole object, tested', '{"a":1}', '[{"op":"test","path":"","value":{"a":1}}]', '{"a":1}'],
  ['the empty name', '{"":1}', '[{"op":"replace","path":"/","value":2}]', '{"":2}'],
  ['test of a null', '{"a":null}', '[{"op":"test","path":"/a","value":null}]', '{"a":null}'],
  [
    'test ignores the order of members',
    '{"a":{"x":1,"y":2}}',
    '[{"op":"test","path":"/a","value":{"y":2,"x":1}}]',
    '{"a":{"x":1,"y":2}}',
  ],
  ['the whole must stay an object', '{"a":1}', '[{"op":"replace","path":"","value":[]}]', 422],
  ['the whole cannot be removed', '{"a":1}', '[{"op":"remove","path":""}]', 422],
  ['remove of a missing member', '{"a":1}', '[{"op":"remove","path":"/b"}]', 422],
  ['replace of a missing member', '{"a":1}', '[{"op":"replace","path":"/b","value":1}]', '{"a":1,"b":1}'],
  ['replace in a missing member', '{"a":1}', '[{"op":"replace","path":"/b/c","value":1}]', 422],
  ['test of a missing member', '{"a":1}', '[{"op":"test","path":"/b","value":1}]', 422],
  ['test for null of a missing member', '{"a":1}', '[{"op":"test","path":"/b","value":null}]', '{"a":1}'],
  ['test for null of a missing item', '{"a":[1]}', '[{"op":"test","path":"/a/1","value":null}]', 422],
  ['copy from a missing member', '{"a":1}', '[{"op":"copy","from":"/b","path":"/c"}]', 422],
  ['move into itself', '{"a":{"b":1}}', '[{"op":"move","from":"/a","path":"/a/b"}]', 422],
  ['move onto itself', '{"a":{"b":1}}', '[{"op":"move","from":"/a","path":"/a"}]', '{"a":{"b":1}}'],
  ['index past the end', '{"a":[1]}', '[{"op":"add","path":"/a/2","value":1}]', 422],
  ['index at the end', '{"a":[1]}', '[{"op":"add","path":"/a/1","value":2}]', '{"a":[1,2]}'],
  ['replace at the end', '{"a":[1]}', '[{"op":"replace","path":"/a/1","value":2}]', 422],
  ['remove at -', '{"a":[1]}', '[{"op":"remove","path":"/a/-"}]', 422],
  ['leading zeros', '{"a":[1,2]}', '[{"op":"remove","path":"/a/01"}]', 422],
  [
    'an index from the end',
    '{"a":[1,2]}',
    '[{"op":"remove","path":"/a/-1"},{"op":"add","path":"/a/-1","value":3},{"op":"replace","path":"/a/-2","value":4}]',
    '{"a":[4,3]}',
  ],
  ['an index before the start', '{"a":[1]}', '[{"op":"remove","path":"/a/-2"}]', 422],
  ['minus nothing', '{"a":[1]}', '[{"op":"remove","path":"/a/-0"}]', 422],
  [
    'a path through an index from the end',
    '{"a":[{"b":1}]}',
    '[{"op":"add","path":"/a/-1/c","value":2}]',
    '{"a":[{"b":1,"c":2}]}',
  ],
  ['length of a list', '{"a":[1]}', '[{"op":"test","path":"/a/length","value":1}]', 422],
  ['length of a text', '{"a":"bc"}', '[{"op":"test","path":"/a/length","value":2}]', 422],
  ['a path into a text', '{"a":"bc"}', '[{"op":"add","path":"/a/0","value":"x"}]', 422],
  ['a path without slash', '{"a":1}', '[{"op":"remove","path":"a"}]', 422],
  ['an inherited member', '{"a":1}', '[{"op":"copy","from":"/toString","path":"/b"}]', 422],
  ['remove of an inherited member', '{"a":1}', '[{"op":"remove","path":"/constructor"}]', 422],
  ['no path', '{"a":1}', '[{"op":"remove"}]', 422],
  ['no value', '{"a":1}', '[{"op":"add","path":"/b"}]', 422],
  ['no from', '{"a":1}', '[{"op":"copy","path":"/b"}]', 422],
  ['no operation', '{"a":1}', '[{"path":"/a","value":1}]', 422],
  ['another operation', '{"a":1}', '[{"op":"spam","path":"/a"}]', 422],
  [
    'nothing is done by a patch that fails later',
    '{"a":1}',
    '[{"op":"remove","path":"/a"},{"op":"remove","path":"/a"}]',
    422,
  ],
  [
    '__proto__ is a name',
    '{"a":1}',
    '[{"op":"add","path":"/__proto__","value":{"x":1}},{"op":"add","path":"/__proto__/y","value":2}]',
    '{"a":1,"__proto__":{"x":1,"y":2}}',
  ],
  [
    '__proto__ is missing where there is none',
    '{"a":1}',
    '[{"op":"add","path":"/__proto__/polluted","value":1}]',
    422,
  ],
  [
    'constructor is a name',
    '{}',
    '[{"op":"add","path":"/constructor","value":{"prototype":{}}},{"op":"add","path":"/constructor/prototype/polluted","value":1}]',
    '{"constructor":{"prototype":{"polluted":1}}}',
  ],
  [
    '__proto__ can be removed',
    '{"__proto__":{"x":1}}',
    '[{"op":"move","from":"/__proto__","path":"/a"}]',
    '{"a":{"x":1}}',
  ],
];

describe('JSON patch', () => {
  for (const [name, document, patch, expected] of [...appendix, ...more]) {
    it(name, () => {
      const before = parse(document) as JsonObject;
      const operations = parse(patch);
      if (expected === 422) {
        assert.equal(refusalOf(() => applyJsonPatch(before, operations)).code, 422);
      } else {
        const result = applyJsonPatch(before, operations);
        // As texts: deepEqual looks at __proto__ as at the prototype.
        assert.deepEqual(sorted(result), sorted(parse(expected)));
        assert.equal(Object.getPrototypeOf(result), Object.prototype);
      }
      assert.equal(JSON.stringify(before), JSON.stringify(parse(document)), 'the original was changed');
      assert.equal(JSON.stringify(operations), JSON.stringify(parse(patch)), 'the patch was changed');
      assert.ok(!('polluted' in {}));
    });
  }

  it('says what failed, in the words of the API server', () => {
    const message = (patch: unknown[]) => refusalOf(() => applyJsonPatch({ a: [1] }, patch)).message;
    assert.equal(message([{ op: 'test', path: '/a', value: 2 }]), 'testing value /a failed: test failed');
    assert.equal(
      message([{ op: 'add', path: '/b/c', value: 2 }]),
      'add operation does not apply: doc is missing path: "/b/c": missing value',
    );
    assert.equal(
      message([{ op: 'remove', path: '/a/3' }]),
      "error in remove for path: '/a/3': Unable to access invalid index: 3: invalid index referenced",
    );
    assert.equal(message([{ op: 'spam', path: '/a' }]), 'Unexpected kind: spam');
  });

  it('an invalid patch is 400, one with too many operations 413', () => {
    for (const body of [null, {}, 'x', 5, [null], [[]], ['x']]) {
      assert.equal(refusalOf(() => applyJsonPatch({}, body)).code, 400);
    }
    const test = { op: 'test', path: '', value: {} };
    assert.deepEqual(
      applyJsonPatch(
        {},
        Array.from({ length: 10_000 }, () => test),
      ),
      {},
    );
    assert.deepEqual(
      refusalOf(() =>
        applyJsonPatch(
          {},
          Array.from({ length: 10_001 }, () => test),
        ),
      ),
      {
        code: 413,
        reason: 'RequestEntityTooLarge',
        message: 'The allowed maximum operations in a JSON patch is 10000, got 10001',
      },
    );
  });

  it('copies cannot make an object without end', () => {
    const doubling = Array.from({ length: 100 }, () => ({ op: 'copy', from: '/a', path: '/a/-' }));
    assert.match(
      refusalOf(() => applyJsonPatch({ a: ['x'.repeat(1000)] }, doubling)).message,
      /^Unable to complete the copy, the accumulated size increase of copy is \d+, exceeding the limit 3145728$/,
    );
    const nesting = Array.from({ length: 1000 }, () => ({ op: 'move', from: '/a', path: '/b/a' })).flatMap(
      (move) => [{ op: 'add', path: '/b', value: {} }, move, { op: 'move', from: '/b', path: '/a' }],
    );
    assert.match(refusalOf(() => applyJsonPatch({ a: 1 }, nesting)).message, /nested deeper than 500 levels/);
  });

  it('a value nested without measure is refused, not run over', () => {
    const deep = parse(`${'['.repeat(100_000)}${']'.repeat(100_000)}`);
    assert.equal(refusalOf(() => applyJsonPatch({}, [{ op: 'add', path: '/a', value: deep }])).code, 422);
    assert.equal(refusalOf(() => applyJsonPatch({}, [{ op: 'test', path: '', value: deep }])).code, 422);
  });
});

/** With sorted fields, as text: for comparing objects that have a field __proto__. */
function sorted(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(sorted).join()}]`;
  if (!isObject(value)) return JSON.stringify(value);
  return `{${Object.entries(value)
    .map(([name, item]) => `${JSON.stringify(name)}:${sorted(item)}`)
    .toSorted()
    .join()}}`;
}
