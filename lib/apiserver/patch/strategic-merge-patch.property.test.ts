import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { assertReached, scaled } from '../../testing/depth.fixture.ts';
import * as fc from '../../testing/fast-check.fixture.ts';
import { deepEqual, fieldOf, isObject, type JsonObject } from '../../json/json.ts';
import { patchTypeOf, type PatchField, type PatchType } from './merge-keys.ts';
import { Refusal } from '../../json/refusal.ts';
import { applyStrategicMergePatch } from './strategic-merge-patch.ts';

const pod = patchTypeOf('v1', 'Pod');

/** The patch that makes one object another: what `kubectl` computes on its side, written for these tests. */
function difference(from: JsonObject, to: JsonObject, type: PatchType | undefined): JsonObject {
  const patch: JsonObject = {};
  for (const name of Object.keys(from)) if (!Object.hasOwn(to, name)) patch[name] = null;
  for (const [name, value] of Object.entries(to)) {
    const before = fieldOf(from, name);
    const field = type?.get(name);
    if (deepEqual(before, value)) continue;
    if (isObject(before) && isObject(value)) patch[name] = difference(before, value, field?.type);
    else if (Array.isArray(before) && Array.isArray(value) && field?.mergesList === true) {
      differenceOfLists(patch, name, before, value, field);
    } else patch[name] = value;
  }
  return patch;
}

function differenceOfLists(
  patch: JsonObject,
  name: string,
  from: readonly unknown[],
  to: readonly unknown[],
  { mergeKey, type }: PatchField,
): void {
  if (mergeKey === undefined) {
    patch[name] = to.filter((item) => !from.includes(item));
    patch[`$deleteFromPrimitiveList/${name}`] = from.filter((item) => !to.includes(item));
    patch[`$setElementOrder/${name}`] = to;
    return;
  }
  const key = (item: unknown) => fieldOf(item as JsonObject, mergeKey);
  const items = to.flatMap((item): JsonObject[] => {
    const before = from.find((other) => key(other) === key(item));
    if (before === undefined) return [item as JsonObject];
    const changes = difference(before as JsonObject, item as JsonObject, type);
    return Object.keys(changes).length > 0 ? [{ ...changes, [mergeKey]: key(item) }] : [];
  });
  const deletions = from
    .filter((item) => !to.some((other) => key(other) === key(item)))
    .map((item) => ({ $patch: 'delete', [mergeKey]: key(item) }));
  patch[name] = [...items, ...deletions];
  patch[`$setElementOrder/${name}`] = to.map((item) => ({ [mergeKey]: key(item) }));
}

const text = fc.constantFrom('a', 'b', 'c', 'd');
const some = (fields: Readonly<Record<string, fc.Arbitrary<unknown>>>, required: readonly string[] = []) =>
  fc.record(fields, { requiredKeys: [...required], noNullPrototype: true }) as fc.Arbitrary<JsonObject>;
const keyed = (
  key: string,
  of: fc.Arbitrary<unknown>,
  fields: Readonly<Record<string, fc.Arbitrary<unknown>>> = {},
) => fc.uniqueArray(some({ [key]: of, ...fields }, [key]), { selector: (item) => item[key], maxLength: 4 });
const container = {
  image: text,
  args: fc.array(text, { maxLength: 3 }),
  env: keyed('name', text, { value: text }),
  ports: keyed('containerPort', fc.constantFrom(80, 81, 82), { protocol: text }),
  resources: some({ limits: fc.dictionary(text, text, { noNullPrototype: true }) }),
};
const pods = some({
  metadata: some({
    finalizers: fc.uniqueArray(text, { maxLength: 4 }),
    labels: fc.dictionary(text, text, { noNullPrototype: true }),
    ownerReferences: keyed('uid', text, { name: text }),
  }),
  spec: some({
    containers: keyed('name', text, container),
    volumes: keyed('name', text, { emptyDir: some({ medium: text }), hostPath: some({ path: text }) }),
    tolerations: fc.array(some({ key: text }), { maxLength: 3 }),
  }),
  status: some({ conditions: keyed('type', text, { status: text }) }),
});

describe('laws of strategic merge patch', () => {
  it('the patch of a difference reproduces the target', () => {
    fc.assert(
      fc.property(pods, pods, (from, to) => {
        const patch = difference(from, to, pod);
        assert.deepEqual(applyStrategicMergePatch(from, patch, pod), to, JSON.stringify(patch));
      }),
      { numRuns: 1000 },
    );
  });

  it('a patch applied twice is a patch applied once', () => {
    fc.assert(
      fc.property(pods, pods, pods, (live, from, to) => {
        const patch = difference(from, to, pod);
        const once = applyStrategicMergePatch(live, patch, pod);
        assert.deepEqual(applyStrategicMergePatch(once, patch, pod), once, JSON.stringify(patch));
      }),
      { numRuns: 500 },
    );
  });

  it('items that the patch does not name keep their content and their order among themselves', () => {
    fc.assert(
      fc.property(
        keyed('name', text, { image: text }),
        keyed('name', text, { image: text }),
        (live, patch) => {
          const result = applyStrategicMergePatch(
            { spec: { containers: live } },
            { spec: { containers: patch } },
            pod,
          );
          const { containers } = result['spec'] as { containers: readonly JsonObject[] };
          const named = new Set(patch.map((item) => item['name']));
          assert.deepEqual(
            containers.filter((item) => !named.has(item['name'])),
            live.filter((item) => !named.has(item['name'])),
          );
          assert.deepEqual(
            containers.filter((item) => named.has(item['name'])).map((item) => item['name']),
            patch.map((item) => item['name']),
          );
        },
      ),
    );
  });

  it('anything at all is refused or applied, and changes nothing that was handed in', () => {
    const name = fc.constantFrom(
      ...[
        'metadata',
        'spec',
        'finalizers',
        'containers',
        'ports',
        'env',
        'name',
        'containerPort',
        'tolerations',
      ],
      ...['$patch', '$retainKeys', '$setElementOrder/containers', '$deleteFromPrimitiveList/finalizers'],
      ...['$setElementOrder', '$setElementOrder/finalizers', '__proto__', 'constructor'],
    );
    const leaf = fc.constantFrom(null, 'a', 'b', 80, true, 'delete', 'replace', 'merge', 'name');
    const { value } = fc.letrec((tie) => ({
      value: fc.oneof(
        { maxDepth: 5, depthSize: 'large' },
        leaf,
        fc.array(tie('value'), { maxLength: 3 }),
        fc.dictionary(name, tie('value'), { maxKeys: 4 }),
      ),
    }));
    const object = fc.dictionary(name, value, { minKeys: 1 }) as fc.Arbitrary<JsonObject>;
    let applied = 0;
    fc.assert(
      fc.property(fc.oneof(object, pods), fc.oneof(object, value), (live, patch) => {
        const before = JSON.stringify([live, patch]);
        try {
          JSON.stringify(applyStrategicMergePatch(live, patch, pod));
          applied++;
        } catch (error) {
          assert.ok(error instanceof Refusal, String(error));
        }
        assert.equal(JSON.stringify([live, patch]), before);
        assert.ok(!('a' in {}));
      }),
      { numRuns: 3000 },
    );
    assertReached(applied > scaled(150), `only ${applied} patches applied`);
  });
});
