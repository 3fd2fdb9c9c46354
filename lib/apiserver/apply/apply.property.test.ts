import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as fc from '../../testing/fast-check.fixture.ts';
import { Refusal } from '../../json/refusal.ts';
import { canonicalJson, isObject, type JsonObject } from '../../json/json.ts';
import { compare } from './compare.ts';
import { configuration, Store, thing } from './field-manager.fixture.ts';
import { difference, union } from './field-set.ts';
import { fieldsOf } from './fields-of.ts';
import { decodeManagedFields, toFieldsV1 } from './managed-fields.ts';
import { mergeApplied } from './merge.ts';
import { things } from './things.fixture.ts';

const manager = fc.constantFrom('one', 'two', 'three');
type Step = { readonly manager: string; readonly to: JsonObject; readonly how: 'apply' | 'force' | 'update' };
const step: fc.Arbitrary<Step> = fc
  .tuple(manager, things, fc.constantFrom('apply' as const, 'force' as const, 'update' as const))
  .map(([by, to, how]) => ({ manager: by, to, how }));
const history = fc.array(step, { maxLength: 5 });

function storeAfter(steps: readonly Step[]): Store {
  const store = new Store();
  for (const { manager: by, to, how } of steps) {
    if (how === 'update')
      store.update(by, () => ({
        ...configuration(to),
        metadata: { ...metadataOf(store), ...metadataOf({ object: configuration(to) }) },
      }));
    else {
      try {
        store.apply(by, to, { force: how === 'force' });
      } catch (error) {
        assert.ok(error instanceof Refusal && error.status.code === 409, String(error));
      }
    }
  }
  return store;
}

function metadataOf({ object }: Pick<Store, 'object'>): JsonObject {
  const metadata = object?.['metadata'];
  return isObject(metadata) ? metadata : {};
}

/** Without entries, and lists that have no order of their own sorted. */
function content(value: unknown, name = ''): unknown {
  if (Array.isArray(value)) {
    const items = value.map((item) => content(item));
    return ['args', 'command'].includes(name)
      ? items
      : items.toSorted((a, b) => (canonicalJson(a) < canonicalJson(b) ? -1 : 1));
  }
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([field]) => field !== 'managedFields')
      .map(([field, inner]) => [field, content(inner, field)]),
  );
}

/** Deals the leaves of an object to two, each with the keys of the list items that it has a part of. */
function dealt(value: unknown, name: string, draw: () => boolean): [unknown, unknown] {
  if (Array.isArray(value) && ['containers', 'env', 'ports'].includes(name)) {
    const key = name === 'ports' ? 'containerPort' : 'name';
    const sides: [unknown[], unknown[]] = [[], []];
    for (const item of value as JsonObject[]) {
      const { [key]: id, protocol, ...rest } = item;
      const keys = protocol === undefined ? { [key]: id } : { [key]: id, protocol };
      for (const [side, part] of dealt(rest, '', draw).entries()) {
        if (part !== undefined) sides[side]?.push({ ...keys, ...(part as JsonObject) });
      }
    }
    return [sides[0].length > 0 ? sides[0] : undefined, sides[1].length > 0 ? sides[1] : undefined];
  }
  if (Array.isArray(value) && ['zones', 'finalizers'].includes(name)) {
    const left = value.filter(() => draw());
    const right = value.filter((item) => !left.includes(item));
    return [left.length > 0 ? left : undefined, right.length > 0 ? right : undefined];
  }
  if (!isObject(value) || name === 'selector') return draw() ? [value, undefined] : [undefined, value];
  const sides: [JsonObject, JsonObject] = [{}, {}];
  for (const [field, inner] of Object.entries(value)) {
    for (const [side, part] of dealt(inner, field, draw).entries()) {
      if (part !== undefined) (sides[side] ?? {})[field] = part;
    }
  }
  return [
    Object.keys(sides[0]).length > 0 ? sides[0] : undefined,
    Object.keys(sides[1]).length > 0 ? sides[1] : undefined,
  ];
}

const disjoint = fc.tuple(things, fc.infiniteStream(fc.boolean())).map(([whole, stream]) => {
  const [one, two] = dealt(whole, '', () => stream.next().value === true);
  return [(one ?? {}) as JsonObject, (two ?? {}) as JsonObject] as const;
});

describe('laws of apply', () => {
  it('applying twice is applying once, whatever was before', () => {
    fc.assert(
      fc.property(history, things, (steps, to) => {
        const store = storeAfter(steps);
        store.apply('me', to, { force: true });
        // Fields without an owner, as from `finalizers: []` alone, count as older than the first apply.
        if (store.entries.length > 0) assert.equal(store.apply('me', to), false);
      }),
      { numRuns: 500 },
    );
  });

  it('after a forced apply, the fields have the applied values and the applier owns them', () => {
    fc.assert(
      fc.property(history, things, (steps, to) => {
        const store = storeAfter(steps);
        store.apply('me', to, { force: true });
        const applied = configuration(to);
        assert.deepEqual(content(mergeApplied(store.object, applied, thing)), content(store.object));
        const { fieldsV1 } = { fieldsV1: store.owned('me') ?? {} };
        const expected = fieldsOf({ ...to, metadata: to['metadata'] ?? {} }, thing);
        assert.deepEqual(fieldsV1, toFieldsV1(difference(expected, fieldsOf({ metadata: {} }, thing))));
      }),
      { numRuns: 500 },
    );
  });

  it('applying the present values is never a conflict', () => {
    fc.assert(
      fc.property(history, (steps) => {
        const store = storeAfter(steps);
        if (store.object === undefined) return;
        const { managedFields: _, ...metadata } = metadataOf(store);
        store.apply('newcomer', { ...store.object, metadata });
      }),
      { numRuns: 500 },
    );
  });

  it('two managers of different fields may come in any order', () => {
    fc.assert(
      fc.property(disjoint, ([one, two]) => {
        const [forth, back] = [new Store(), new Store()];
        forth.apply('one', one);
        forth.apply('two', two);
        back.apply('two', two);
        back.apply('one', one);
        assert.deepEqual(content(forth.object), content(back.object));
        for (const name of ['one', 'two']) assert.deepEqual(forth.owned(name), back.owned(name));
      }),
      { numRuns: 500 },
    );
  });

  it('an empty apply leaves only fields applied by others', () => {
    fc.assert(
      fc.property(disjoint, ([one, two]) => {
        const [both, alone] = [new Store(), new Store()];
        both.apply('one', one);
        both.apply('two', two);
        both.apply('one', {});
        alone.apply('two', two);
        assert.deepEqual(content(both.object), content(alone.object));
        assert.equal(both.owned('one'), undefined);
      }),
      { numRuns: 500 },
    );
  });

  it('missing fields never have an owner', () => {
    fc.assert(
      fc.property(history, (steps) => {
        const store = storeAfter(steps);
        const everything = union(
          compare(undefined, store.object, thing).added,
          fieldsOf(store.object, thing),
        );
        for (const { name, fields } of decodeManagedFields(store.entries)?.values() ?? []) {
          const stale = difference(fields, everything);
          assert.ok(stale.isEmpty, `${name} owns ${JSON.stringify(toFieldsV1(stale))}`);
        }
      }),
      { numRuns: 1000 },
    );
  });
});
