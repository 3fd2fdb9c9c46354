/** Rules with `oldSelf`: "Transition rules" in the Kubernetes task "Extend the Kubernetes API with CustomResourceDefinitions". */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { compileSchema } from '../compiled-schema.ts';
import { lines, refusals, resource, ruleProblems } from '../schema.fixture.ts';
import { failed, integer, object, rule, text } from './rules.fixture.ts';

suite('transitions', () => {
  test('run on updates only', () => {
    const properties = { n: integer };
    assert.deepEqual(ruleProblems(properties, ['self.n >= oldSelf.n'], { n: 1 }), []);
    assert.deepEqual(ruleProblems(properties, ['self.n >= oldSelf.n'], { n: 1 }, { n: 2 }), [
      failed('self.n >= oldSelf.n'),
    ]);
    assert.deepEqual(ruleProblems(properties, ['self == oldSelf'], { n: 1 }, { n: 1 }), []);
  });
  test('a field that is new has no old value', () => {
    const schema = compileSchema(resource(object({ a: { ...text, ...rule('self == oldSelf') } })));
    assert.deepEqual(schema.validate({ spec: { a: 'x' } }, { spec: {} }), []);
    assert.deepEqual(lines(schema.validate({ spec: { a: 'x' } }, { spec: { a: 'y' } })), [
      failed('self == oldSelf', 'spec.a', '"x": '),
    ]);
  });
  test('optionalOldSelf runs on creation as well', () => {
    const optional = (source: string): object => ({ rule: source, optionalOldSelf: true });
    assert.deepEqual(
      ruleProblems({ n: integer }, [optional('oldSelf.hasValue() || self.n == 0')], { n: 1 }),
      [failed('oldSelf.hasValue() || self.n == 0')],
    );
    const grows = 'oldSelf.optMap(o, o.n <= self.n).orValue(true)';
    assert.deepEqual(ruleProblems({ n: integer }, [optional(grows)], { n: 1 }), []);
    assert.deepEqual(ruleProblems({ n: integer }, [optional(grows)], { n: 1 }, { n: 2 }), [failed(grows)]);
  });
  test('items of a list map meet their old selves by their keys, defaults included (validation_test.go, "correlatable transition rule")', () => {
    const items = object(
      { k1: text, k2: { ...text, default: 'd' }, v: { ...integer, ...rule('self >= oldSelf') } },
      { required: ['k1'] },
    );
    const schema = compileSchema(
      resource(
        object({
          l: {
            type: 'array',
            maxItems: 9,
            items,
            'x-kubernetes-list-type': 'map',
            'x-kubernetes-list-map-keys': ['k1', 'k2'],
          },
        }),
      ),
    );
    const old = {
      spec: {
        l: [
          { k1: 'a', k2: 'd', v: 5 },
          { k1: 'b', k2: 'x', v: 5 },
        ],
      },
    };
    const now = {
      spec: {
        l: [
          { k1: 'b', k2: 'x', v: 4 },
          { k1: 'a', v: 4 },
          { k1: 'c', v: 0 },
        ],
      },
    };
    assert.deepEqual(lines(schema.validate(now, old)), [
      failed('self >= oldSelf', 'spec.l[0].v', '4: '),
      failed('self >= oldSelf', 'spec.l[1].v', '4: '),
    ]);
  });
  test('atomic maps have no old fields', () => {
    const part = (extra: object): object =>
      resource(object({ m: object({ a: { ...text, ...rule('self == oldSelf') } }, extra) }));
    assert.equal(refusals(part({ 'x-kubernetes-map-type': 'atomic' })).length, 1);
    assert.deepEqual(refusals(part({ 'x-kubernetes-map-type': 'granular' })), []);
  });
  test('values that an update leaves alone may go on violating a rule: a warning', () => {
    const warnings: string[] = [];
    const problems = ruleProblems({ n: integer }, ['self.n < 3'], { n: 5 }, { n: 5 }, warnings);
    assert.deepEqual([problems, warnings], [[], [failed('self.n < 3')]]);
  });
});
