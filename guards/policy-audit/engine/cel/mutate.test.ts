import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { EvaluationError, type JsonObject } from '../evaluator.ts';
import { podNamed, requestFor } from '../requests.fixture.ts';
import { evaluate, kubernetes } from './evaluate.fixture.ts';
import { openCelEvaluator } from './open.ts';

const mutations = (...expressions: readonly string[]): JsonObject => ({
  mutations: expressions.map((expression) => ({ patchType: 'JSONPatch', jsonPatch: { expression } })),
});

const configurations = (...expressions: readonly string[]): JsonObject => ({
  mutations: expressions.map((expression) => ({
    patchType: 'ApplyConfiguration',
    applyConfiguration: { expression },
  })),
});

const labelsOf = (object: JsonObject | undefined): JsonObject | undefined =>
  (object?.['metadata'] as { readonly labels?: JsonObject } | undefined)?.labels;

suite('policies that mutate', () => {
  test('patches apply one after the other, and the request is not changed', async () => {
    const request = requestFor(podNamed('web'));
    const before = JSON.stringify(request);
    const settings = mutations(
      `[JSONPatch{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("example.com/size"),
        value: string(object.spec.terminationGracePeriodSeconds)}]`,
      `has(object.metadata.labels.app) && object.metadata.labels["example.com/size"] == "30" ? [
        JSONPatch{op: "test", path: "/metadata/name", value: "web"},
        JSONPatch{op: "add", path: "/spec/containers/-",
          value: Object.spec.containers{name: "proxy", image: "registry.example/proxy:1", ports: [{"containerPort": 1}]}},
        JSONPatch{op: "remove", path: "/spec/hostNetwork"}] : []`,
    );
    const { allowed, mutated } = await evaluate(settings, request, kubernetes);
    assert.equal(allowed, true);
    const expected = podNamed('web', {}) as {
      metadata: JsonObject;
      spec: JsonObject & { containers: unknown[] };
    };
    expected.metadata['labels'] = { app: 'web', 'example.com/size': '30' };
    expected.spec.containers.push({
      name: 'proxy',
      image: 'registry.example/proxy:1',
      ports: [{ containerPort: 1 }],
    });
    delete expected.spec['hostNetwork'];
    assert.deepEqual(mutated, expected);
    assert.equal(JSON.stringify(request), before);
  });

  test('a patch without a change is not a mutation', async () => {
    const same = mutations(
      '[JSONPatch{op: "replace", path: "/metadata/name", value: object.metadata.name}]',
      '[]',
    );
    assert.deepEqual(await evaluate(same, undefined, kubernetes), { allowed: true });
  });

  test('match conditions decide, and what is gone is not mutated', async () => {
    const add = '[JSONPatch{op: "add", path: "/metadata/labels/a", value: "b"}]';
    const matchConditions = [{ name: 'other', expression: "object.metadata.name == 'other'" }];
    assert.deepEqual(await evaluate({ ...mutations(add), matchConditions }, undefined, kubernetes), {
      allowed: true,
    });
    const gone = requestFor(null, { operation: 'DELETE' });
    assert.deepEqual(await evaluate(mutations(add), gone, kubernetes), { allowed: true });
  });

  test('a patch that does not apply is an error; if it is ignored, the other mutations count', async () => {
    const missing = mutations(
      '[JSONPatch{op: "add", path: "/metadata/labels/a", value: "b"}]',
      '[JSONPatch{op: "remove", path: "/metadata/nothing/here"}]',
    );
    await assert.rejects(
      evaluate(missing, undefined, kubernetes),
      (error) => error instanceof EvaluationError && error.message.startsWith('the patch of expression'),
    );
    const ignored = await evaluate({ ...missing, failurePolicy: 'Ignore' }, undefined, kubernetes);
    assert.equal(labelsOf(ignored.mutated)?.['a'], 'b');
    assert.match(String(ignored.warnings), /^ignored by failurePolicy: the patch of expression/);
  });

  test('a test that does not hold keeps its patch from being applied', async () => {
    const expected = mutations(
      '[JSONPatch{op: "test", path: "/metadata/name", value: "other"}, JSONPatch{op: "add", path: "/metadata/labels/a", value: "b"}]',
    );
    assert.deepEqual(await evaluate(expected, undefined, kubernetes), { allowed: true });
  });

  test('patches have fields, and are equal by them', async () => {
    const { mutated } = await evaluate(
      mutations(`[JSONPatch{op: "add", path: "/metadata/labels", value: {
        "op": JSONPatch{op: "x"}.op,
        "has": string(has(JSONPatch{op: "x"}.op)) + string(has(JSONPatch{}.op)),
        "same": string(JSONPatch{op: "add", value: 1} == JSONPatch{op: "add", value: 1}),
        "other": string(JSONPatch{op: "add", value: 1} == JSONPatch{op: "add", value: "1"}),
      }}]`),
      undefined,
      kubernetes,
    );
    assert.deepEqual(labelsOf(mutated), { op: 'x', has: 'truefalse', same: 'true', other: 'false' });
  });

  test('the module cel-policy has no mutations', async () => {
    await using policy = openCelEvaluator(mutations('[]'));
    assert.match((await policy.validateSettings()).message ?? '', /validations: Required value/);
  });

  const invalid: readonly (readonly [JsonObject, RegExp])[] = [
    [
      mutations('[JSONPatch{op: 1, path: "/a"}]'),
      /expected type of field 'op' is 'string' but provided type is 'int'/,
    ],
    [mutations('[JSONPatch{opp: "add"}]'), /undefined field 'opp'/],
    [mutations('JSONPatch{op: "add"}'), /must evaluate to list but got JSONPatch/],
    [
      { mutations: [{ patchType: 'ApplyConfiguration' }] },
      /mutations\[0\]\.applyConfiguration\.expression: Required value/,
    ],
    [configurations('"I am a teapot"'), /must evaluate to Object but got string/],
    [configurations('Object.spec{}'), /must evaluate to Object but got Object\.spec/],
  ];
  for (const [settings, words] of invalid) {
    test(words.source, async () => {
      await using policy = openCelEvaluator(settings, kubernetes);
      const { valid, message } = await policy.validateSettings();
      assert.equal(valid, false);
      assert.match(message ?? '', words);
    });
  }
});
