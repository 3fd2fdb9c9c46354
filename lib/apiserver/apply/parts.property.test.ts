import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { assertReached, scaled } from '../../testing/depth.fixture.ts';
import * as fc from '../../testing/fast-check.fixture.ts';
import { Refusal } from '../../json/refusal.ts';
import { isObject, type JsonObject } from '../../json/json.ts';
import { compare } from './compare.ts';
import { thing } from './field-manager.fixture.ts';
import { serverSideApply, trackUpdate, type ApplyContext } from './field-manager.ts';
import { difference, equalSets, intersection, recursiveDifference, union } from './field-set.ts';
import { fieldsOf } from './fields-of.ts';
import { fromFieldsV1, toFieldsV1 } from './managed-fields.ts';
import { mergeApplied } from './merge.ts';
import { removeFields } from './remove.ts';
import { letter, things } from './things.fixture.ts';
import { schemaless } from './type.ts';

describe('laws of the parts', () => {
  const sets = things.map((value) => fieldsOf(value, thing));

  it('reading fieldsV1 returns the written set', () => {
    fc.assert(
      fc.property(sets, sets, (a, b) => {
        for (const set of [a, union(a, b), compare(undefined, {}, thing).added, difference(a, b)]) {
          const text = JSON.stringify(toFieldsV1(set));
          const again = fromFieldsV1(JSON.parse(text));
          assert.ok(again !== undefined && equalSets(again, set), text);
        }
      }),
    );
  });

  it('sets of fields are sets', () => {
    fc.assert(
      fc.property(sets, sets, sets, (a, b, c) => {
        assert.ok(equalSets(union(a, b), union(b, a)));
        assert.ok(equalSets(intersection(a, b), intersection(b, a)));
        assert.ok(equalSets(union(difference(a, b), intersection(a, b)), a));
        assert.ok(intersection(difference(a, b), b).isEmpty);
        assert.ok(equalSets(intersection(a, union(b, c)), union(intersection(a, b), intersection(a, c))));
        assert.ok(difference(recursiveDifference(a, b), difference(a, b)).isEmpty);
        for (const path of a.paths()) assert.ok(a.has(path) && union(a, b).has(path));
      }),
    );
  });

  it('an object minus all of its fields is empty; minus those of another, it has none of them', () => {
    fc.assert(
      fc.property(things, things, (value, other) => {
        const all = compare(undefined, value, thing).added;
        assert.equal(removeFields(value, all, thing), Object.keys(value).length > 0 ? undefined : value);
        const rest = removeFields(value, fieldsOf(other, thing), thing);
        assert.ok(intersection(fieldsOf(rest, thing), fieldsOf(other, thing)).isEmpty);
      }),
    );
  });

  it('merging changes what the comparison says, and nothing else', () => {
    fc.assert(
      fc.property(things, things, (live, applied) => {
        assert.equal(mergeApplied(live, structuredClone(live), thing), live);
        const merged = mergeApplied(live, applied, thing);
        const { added, modified, removed } = compare(live, merged, thing);
        // Nothing goes but what was in a value that is now of another kind.
        assert.ok(recursiveDifference(removed, modified).isEmpty);
        const touched = union(added, modified);
        const named = union(compare(undefined, applied, thing).added, fieldsOf(applied, thing));
        assert.ok(difference(touched, named).isEmpty, JSON.stringify(toFieldsV1(difference(touched, named))));
        const nothing = compare(merged, structuredClone(merged), thing);
        assert.ok(nothing.added.isEmpty && nothing.modified.isEmpty && nothing.removed.isEmpty);
      }),
      { numRuns: 500 },
    );
  });
});

describe('anything at all', () => {
  const names = [
    'metadata',
    'spec',
    'data',
    'containers',
    'name',
    'ports',
    'args',
    'zones',
    'free',
    'finalizers',
    'env',
  ];
  const more = [
    'managedFields',
    'labels',
    'annotations',
    'fieldsV1',
    'operation',
    '__proto__',
    'constructor',
    'a',
  ];
  const name = fc.constantFrom(...names, ...more);
  const leaf = fc.constantFrom(null, 'a', 'Apply', 'FieldsV1', 1, true, 1.5);
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 5, depthSize: 'large' },
      leaf,
      fc.array(tie('value'), { maxLength: 3 }),
      fc.dictionary(name, tie('value'), { maxKeys: 4 }),
      things,
    ),
  }));
  const object = fc.oneof(things, fc.dictionary(name, value)) as fc.Arbitrary<JsonObject>;
  const entry = fc.record(
    {
      manager: fc.oneof(letter, value),
      operation: fc.constantFrom('Apply', 'Update', 'x'),
      apiVersion: fc.constantFrom('example.com/v1', ''),
      fieldsType: fc.constantFrom('FieldsV1', 'x'),
      fieldsV1: fc.oneof(
        things.map((of) => toFieldsV1(fieldsOf(of, thing))),
        fc.dictionary(
          fc.constantFrom('f:spec', 'f:a', 'k:{}', 'k:{"name":"a"}', 'v:1', 'i:0', 'x:', '.', 'k:x'),
          value,
        ),
      ),
      time: fc.constantFrom('2024-01-01T00:00:00Z', 'x', null),
    },
    { requiredKeys: [] },
  );

  it('is applied or refused, and nothing that was handed in is changed', () => {
    let applied = 0;
    fc.assert(
      fc.property(
        fc.option(object, { nil: undefined }),
        fc.array(entry, { maxLength: 2 }),
        fc.oneof(object, value),
        fc.constantFrom(thing, schemaless),
        fc.boolean(),
        (base, entries, wanted, type, force) => {
          const live =
            base === undefined ? undefined : { ...base, metadata: { name: 'x', managedFields: entries } };
          const whole = isObject(wanted) ? { ...wanted, apiVersion: 'example.com/v1' } : wanted;
          const context: ApplyContext = {
            type,
            force,
            manager: 'kubectl',
            apiVersion: 'example.com/v1',
            now: new Date(0),
          };
          const before = JSON.stringify([live, whole]);
          try {
            JSON.stringify(serverSideApply(live, whole, context));
            applied++;
          } catch (error) {
            assert.ok(error instanceof Refusal, error instanceof Error ? error.stack : String(error));
          }
          if (isObject(whole)) JSON.stringify(trackUpdate(live, whole, context));
          assert.equal(JSON.stringify([live, whole]), before);
          assert.ok(!('a' in {}));
        },
      ),
      { numRuns: 3000 },
    );
    assertReached(applied > scaled(300), `only ${applied} applied`);
  });

  it('nested without measure is refused', () => {
    const deep = JSON.parse(`${'{"free":'.repeat(50_000)}1${'}'.repeat(50_000)}`) as JsonObject;
    const context: ApplyContext = { type: schemaless, manager: 'me', apiVersion: 'v1', now: new Date(0) };
    const attempts = [
      () => serverSideApply(undefined, { apiVersion: 'v1', ...deep }, context),
      () => trackUpdate(undefined, deep, context),
    ];
    for (const attempt of attempts) {
      assert.throws(attempt, (error) => error instanceof Refusal && error.status.code === 400);
    }
  });
});
