import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import * as fc from '../../testing/fast-check.fixture.ts';
import { apiVersionOf } from '../resources/resource.ts';
import { cloneJson, isObject, type JsonObject } from '../../json/json.ts';
import { builtinDefinitions } from './definitions.ts';
import { builtinResources } from './builtin.ts';
import { cells, created, updated } from './builtin.fixture.ts';
import { refIn } from './inline.ts';

/** An object with a value in every field that its schema has, down to some depth. */
function fullObject(schema: JsonObject, depth: number): unknown {
  const name = refIn(schema);
  if (name !== undefined) return fullObject(builtinDefinitions().get(name) ?? {}, depth);
  const { type, properties, items, additionalProperties } = schema;
  if (Array.isArray(schema['enum'])) return schema['enum'][0];
  if (type === 'integer' || type === 'number') return 1;
  if (type === 'boolean') return true;
  if (type === 'array') return depth > 0 && isObject(items) ? [fullObject(items, depth - 1)] : [];
  if (type !== 'object') return 'a';
  if (depth === 0) return {};
  if (isObject(additionalProperties)) return { a: fullObject(additionalProperties, depth - 1) };
  const fields = Object.entries(isObject(properties) ? properties : {});
  return Object.fromEntries(fields.map(([field, one]) => [field, fullObject(one as JsonObject, depth - 1)]));
}

/** Puts a value in place of another one, which `steps` lead to. */
function corrupt(object: JsonObject, steps: readonly number[], value: unknown): void {
  let current: JsonObject = object;
  for (const [position, step] of steps.entries()) {
    const names = Object.keys(current).filter(
      (name) => !['apiVersion', 'kind', 'metadata'].includes(name) || current !== object,
    );
    const name = names[step % Math.max(1, names.length)];
    if (name === undefined) return;
    const next = current[name];
    if (position === steps.length - 1 || typeof next !== 'object' || next === null) {
      current[name] = value;
      return;
    }
    current = next as JsonObject;
  }
}

suite('Any JSON', () => {
  for (const { group, version, kind, openApi } of builtinResources().flat()) {
    const apiVersion = apiVersionOf({ group, version });
    test(`${apiVersion} ${kind}: nothing throws, and what comes out can be sent again`, () => {
      const schema = openApi.definitions.get(openApi.name) ?? {};
      const full = fullObject(schema, 7) as JsonObject;
      const sane = { ...full, apiVersion, kind, metadata: { name: 'a', namespace: 'default' } };
      const now = new Date('2026-01-01T00:00:00Z');
      fc.assert(
        fc.property(fc.array(fc.nat(40), { minLength: 1, maxLength: 9 }), fc.jsonValue(), (steps, value) => {
          const object = cloneJson(sane) as JsonObject;
          corrupt(object, steps, value);
          const first = created(object);
          cells(first.object, now, true);
          JSON.stringify(first.object);
          const again = updated(first, () => {});
          // A refused object is not stored, so it is never sent again.
          if (first.causes.length > 0) return;
          assert.deepEqual(again.causes, []);
          assert.deepEqual(updated(again, () => {}).object, again.object);
        }),
        { numRuns: 60 },
      );
    });
  }
});
