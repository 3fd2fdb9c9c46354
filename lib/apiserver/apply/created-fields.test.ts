import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as fc from '../../testing/fast-check.fixture.ts';
import { isObject, type JsonObject } from '../../json/json.ts';
import { compare } from './compare.ts';
import { createdFields } from './created-fields.ts';
import { thing } from './field-manager.fixture.ts';
import { toFieldsV1 } from './managed-fields.ts';
import { ownable } from './ownership.ts';
import { schemaless } from './type.ts';

const name = fc.constantFrom('name', 'image', 'spec', 'metadata', 'labels', 'a', '__proto__', 'constructor');
const scalar = fc.oneof(fc.constantFrom('a', 'b', 'TCP'), fc.integer({ min: 0, max: 3 }), fc.constant(null));
const { value: any } = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    scalar,
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(name, tie('value'), { maxKeys: 3 }),
  ),
}));
const items = fc.array(
  fc.oneof(
    fc.record(
      { name: scalar, containerPort: scalar, protocol: scalar, type: scalar, image: any },
      { requiredKeys: [] },
    ),
    any,
  ),
  { maxLength: 4 },
);
const object = fc
  .record(
    {
      apiVersion: any,
      metadata: fc.oneof(
        fc.record({ name: any, labels: any, finalizers: any, uid: any }, { requiredKeys: [] }),
        any,
      ),
      data: any,
      spec: fc.oneof(
        fc.record(
          { containers: items, zones: items, args: items, selector: any, free: any },
          { requiredKeys: [] },
        ),
        any,
      ),
      other: any,
    },
    { requiredKeys: [] },
  )
  .map((value) => JSON.parse(JSON.stringify(value)) as JsonObject);

for (const [title, type] of Object.entries({ thing, schemaless })) {
  test(`the fields of a new ${title}: those of a comparison with nothing`, () => {
    fc.assert(
      fc.property(object, (value) => {
        const { added } = compare({}, value, type);
        assert.deepEqual(createdFields(value, type, new Set()), toFieldsV1(ownable(added)));
      }),
      { numRuns: 1_000 },
    );
  });
}

test('omits fields that this request does not write', () => {
  const fields = createdFields({ spec: { image: 'a' }, status: { phase: 'b' } }, thing, new Set(['status']));
  assert.deepEqual(fields, { 'f:spec': { '.': {}, 'f:image': {} } });
  assert.ok(isObject(fields));
});
