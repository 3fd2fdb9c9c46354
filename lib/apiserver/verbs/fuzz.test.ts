import assert from 'node:assert/strict';
import { test } from 'node:test';

import { assertReached } from '../../testing/depth.fixture.ts';
import * as fc from '../../testing/fast-check.fixture.ts';
import { ApiError } from '../resources/api-error.ts';
import type { Verb } from '../resources/resource.ts';
import type { JsonObject } from '../../json/json.ts';
import { patchMediaTypes } from './request.ts';
import { type Asked, Bench, pod, widget } from './verbs.fixture.ts';

/** Names that mean something somewhere, so that what is made up gets far. */
const word = fc.constantFrom(
  ...[
    'apiVersion',
    'kind',
    'metadata',
    'spec',
    'status',
    'name',
    'namespace',
    'uid',
    'resourceVersion',
    'labels',
  ],
  ...[
    'annotations',
    'finalizers',
    'ownerReferences',
    'managedFields',
    'generateName',
    'deletionTimestamp',
    'generation',
  ],
  ...[
    'deletionGracePeriodSeconds',
    'creationTimestamp',
    'size',
    'replicas',
    'parts',
    'free',
    'containers',
    'ports',
    'env',
  ],
  ...[
    'controller',
    'fieldsV1',
    'fieldsType',
    'operation',
    'manager',
    'time',
    'f:spec',
    '.',
    '$patch',
    '$retainKeys',
  ],
  ...[
    '$setElementOrder/containers',
    '__proto__',
    'constructor',
    'toString',
    'image',
    'op',
    'path',
    'value',
    'from',
    '',
  ],
);
const anyText = fc.oneof(
  word,
  fc.constantFrom(
    'example.com/v1',
    'v1',
    'Widget',
    'Pod',
    'default',
    'other',
    'a',
    'b',
    '0',
    '1',
    '5',
    '-1',
    'x',
    'A/B',
  ),
  fc.constantFrom(
    '2026-01-01T00:00:00Z',
    '2026-13-99T99:99:99Z',
    'Apply',
    'Update',
    'FieldsV1',
    'delete',
    'merge',
    'replace',
  ),
  fc.constantFrom(
    'add',
    'remove',
    'test',
    'move',
    'copy',
    '/spec',
    '/metadata/name',
    '/metadata',
    '/spec/containers/0',
    '/-',
    '',
  ),
  fc.string({ unit: 'binary', maxLength: 12 }),
);
const scalar = fc.oneof(
  anyText,
  fc.integer(),
  fc.constantFrom(null, true, false, 0, -1, 1e300, -0, 2n ** 62n, 0.5),
);
const { json } = fc.letrec<{ json: unknown }>((tie) => ({
  json: fc.oneof(
    { maxDepth: 4, depthSize: 'medium' },
    scalar,
    fc.array(tie('json'), { maxLength: 4 }),
    fc.array(fc.tuple(fc.oneof(word, anyText), tie('json')), { maxLength: 5 }).map((fields) => {
      const object: JsonObject = {};
      for (const [name, value] of fields) {
        Object.defineProperty(object, name, { value, enumerable: true, writable: true, configurable: true });
      }
      return object;
    }),
  ),
}));

/** An object that is nearly right, with something put into it. */
const nearly = fc
  .tuple(
    fc.constantFrom(widget('a'), widget('b', { spec: {} }), pod('a'), widget('new')),
    word,
    word,
    json,
    fc.boolean(),
  )
  .map(([object, outer, inner, value, isDeep]) => {
    const part = object[outer];
    const changed = {
      ...object,
      [outer]: isDeep && typeof part === 'object' ? { ...part, [inner]: value } : value,
    };
    return changed;
  });
const operation = fc.record({ op: anyText, path: anyText, from: anyText, value: json }, { requiredKeys: [] });
const deep = fc.integer({ min: 100, max: 3_000 }).map((levels) => {
  let value: unknown = 1;
  for (let level = 0; level < levels; level++) value = level % 2 === 0 ? [value] : { spec: value };
  return { ...widget('deep'), spec: { free: { value } } };
});
const body = fc.oneof(
  { weight: 6, arbitrary: nearly },
  { weight: 3, arbitrary: json },
  { weight: 2, arbitrary: fc.array(operation, { maxLength: 4 }) },
  { weight: 1, arbitrary: deep },
  { weight: 1, arbitrary: fc.constant(undefined) },
);
const parameter = fc.constantFrom(
  ...[
    'labelSelector',
    'fieldSelector',
    'continue',
    'limit',
    'resourceVersion',
    'resourceVersionMatch',
    'watch',
  ],
  ...[
    'sendInitialEvents',
    'allowWatchBookmarks',
    'timeoutSeconds',
    'dryRun',
    'fieldManager',
    'fieldValidation',
    'force',
  ],
  ...['gracePeriodSeconds', 'propagationPolicy', 'orphanDependents'],
);
const parameterValue = fc.oneof(
  anyText,
  fc.constantFrom(
    'true',
    'false',
    'All',
    'Strict',
    'Exact',
    'NotOlderThan',
    'Foreground',
    '3',
    '99999999999999999999',
  ),
  fc.constantFrom(
    'a=b',
    'a in (b,c)',
    '!a',
    'a>1',
    'a=b,',
    ',',
    'a==b==c',
    '(',
    'metadata.name=a',
    'spec.size!=x',
    'a\\=b',
  ),
  fc.base64String({ maxLength: 40 }),
);
const query = fc
  .array(fc.tuple(parameter, parameterValue), { maxLength: 3 })
  .map((pairs) => new URLSearchParams(pairs).toString());
const anything = fc.record({
  verb: fc.constantFrom<Verb>(
    'create',
    'update',
    'patch',
    'delete',
    'get',
    'list',
    'watch',
    'deletecollection',
  ),
  kind: fc.constantFrom('widget', 'widget2', 'pod', 'lease', 'namespace'),
  subresource: fc.constantFrom(undefined, undefined, 'status', 'scale', 'finalize'),
  name: fc.oneof(fc.constantFrom('a', 'b', 'new'), anyText),
  namespace: fc.constantFrom('default', 'other', ''),
  patchType: fc.constantFrom(...patchMediaTypes, undefined),
  query,
  body,
  duplicates: fc.constantFrom<readonly string[]>([], ['duplicate field "spec.a"']),
});
type Random = typeof anything extends fc.Arbitrary<infer Value> ? Value : never;

/** A client's intention: names that exist or not, with an old version or none. */
const meant = fc
  .record({
    verb: fc.constantFrom<Verb>('create', 'update', 'delete'),
    name: fc.constantFrom('a', 'b', 'new'),
    kind: fc.constantFrom('widget', 'pod'),
    metadata: fc.constantFrom({}, {}, { resourceVersion: '1' }),
  })
  .map(({ verb, name, kind, metadata }): Random => ({
    verb,
    kind,
    name,
    namespace: 'default',
    subresource: undefined,
    patchType: undefined,
    query: '',
    body: verb === 'delete' ? undefined : named(kind, name, metadata),
    duplicates: [],
  }));
const named = (kind: string, name: string, metadata: JsonObject): JsonObject =>
  kind === 'pod' ? pod(name, {}, metadata) : widget(name, {}, metadata);

const request = fc.oneof({ weight: 9, arbitrary: anything }, { weight: 1, arbitrary: meant });

const collection: ReadonlySet<Verb> = new Set<Verb>(['create', 'list', 'watch', 'deletecollection']);

async function asked(
  bench: Bench,
  { verb, kind, name, namespace, patchType, subresource, ...rest }: Random,
): Promise<void> {
  const resource = bench[kind as 'widget'];
  const known = subresource !== undefined && resource.subresources.has(subresource) && !collection.has(verb);
  const one: Asked = {
    ...rest,
    resource,
    name: collection.has(verb) ? '' : name,
    namespace: resource.namespaced ? namespace : '',
    ...(known ? { subresource } : {}),
    ...(patchType === undefined || verb !== 'patch' ? {} : { patchType }),
  };
  const answer = await bench.ask(verb, one);
  if (answer.kind === 'item') assert.equal(typeof answer.item.text, 'string');
  if (answer.kind === 'list') for (const item of answer.list.items) assert.equal(typeof item.text, 'string');
  if (answer.kind !== 'watch') return;
  const events = answer.watch.events[Symbol.asyncIterator]();
  const first = events.next();
  await new Promise(setImmediate);
  await events.return?.();
  await first;
}

/** Stored objects must comply with the rules. */
function checkStored(bench: Bench): void {
  for (const resource of bench.registry.all) {
    if (resource === bench.widget2) continue;
    for (const { text, name, namespace, uid, resourceVersion } of bench.store.list(resource.storeName)
      .items) {
      const object = JSON.parse(text) as JsonObject;
      const metadata = object['metadata'] as JsonObject;
      assert.deepEqual(
        [
          object['kind'],
          metadata['name'],
          metadata['namespace'] ?? '',
          metadata['uid'],
          metadata['resourceVersion'],
        ],
        [resource.kind, name, namespace, uid, String(resourceVersion)],
      );
      assert.deepEqual(resource.model.schema.validate(object), []);
      assert.deepEqual(resource.model.schema.prune(structuredClone(object)), []);
    }
  }
}

test('carries out each request entirely, or rejects it with a Status', async () => {
  const codes = new Map<number, number>();
  await fc.assert(
    fc.asyncProperty(fc.array(request, { minLength: 1, maxLength: 40 }), async (requests) => {
      await using bench = await Bench.open();
      for (const name of ['a', 'b']) {
        await bench.ask('create', { body: widget(name, { spec: { replicas: 1 } }, { labels: { a: 'b' } }) });
        await bench.ask('create', { resource: bench.pod, body: pod(name, { nodeName: 'n' }) });
      }
      for (const one of requests) {
        const before = bench.store.version;
        try {
          await asked(bench, one);
        } catch (error) {
          assert.ok(error instanceof ApiError, `${String(error)}\n${(error as Error).stack}`);
          const { code, message } = error.status;
          codes.set(code, (codes.get(code) ?? 0) + 1);
          assert.ok(
            code !== 500,
            `${JSON.stringify(one, stringified)}: ${message}\n${String((error.cause as Error)?.stack)}`,
          );
          if (one.verb !== 'deletecollection') assert.equal(bench.store.version, before, message);
        }
      }
      checkStored(bench);
    }),
    { numRuns: 250 },
  );
  // The requests get far enough to be refused for many reasons.
  for (const code of [400, 404, 405, 409, 415, 422])
    assertReached(codes.has(code), `no request was refused with ${code}`);
});

const stringified = (_name: string, value: unknown): unknown =>
  typeof value === 'bigint' ? `${value}n` : value;
