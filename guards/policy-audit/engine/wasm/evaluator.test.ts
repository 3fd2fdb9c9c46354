/** Each policy in each runtime gives the same verdicts. */
import assert from 'node:assert/strict';
import { after, suite, test } from 'node:test';

import type { HostCalls, JsonObject, PolicyRequest, Verdict } from '../evaluator.ts';
import { evaluatorSuite } from '../evaluator.suite.fixture.ts';
import type { WasmRuntime } from './metadata.ts';
import { PolicyPool } from './pool.ts';
import { openWasmEvaluator } from './open.ts';
import {
  allRuntimes,
  noHostCalls,
  openPolicy,
  podRequest,
  policyModule,
  type PolicyName,
} from './policies.fixture.ts';

const pool = new PolicyPool({ threads: 1 });
after(() => pool[Symbol.asyncDispose]());

interface Case {
  readonly title: string;
  readonly policy: PolicyName;
  readonly settings: JsonObject;
  readonly request: PolicyRequest;
  readonly expected: Verdict;
  /** By default all. */
  readonly runtimes?: readonly WasmRuntime[];
}

/** Rego's have no way to answer a whole object. */
const mutating: readonly WasmRuntime[] = ['wapc', 'wasi'];
const labelled = (labels: object) => podRequest({ labels });
const objectWith = (labels: object) => ({ ...labelled(labels).object });

const cases: readonly Case[] = [
  {
    title: 'allows an object that has the labels that the settings name',
    policy: 'labels',
    settings: { required: ['team', 'tier'] },
    request: podRequest({ labels: { team: 'a', tier: 'front' } }),
    expected: { allowed: true, warnings: ['team', 'tier'] },
  },
  {
    title: 'refuses one that lacks a label, with message, code and annotations',
    policy: 'labels',
    settings: { required: ['team', 'tier'] },
    request: podRequest({ labels: { team: 'a' } }),
    expected: {
      allowed: false,
      message: 'label tier is missing',
      code: 422,
      auditAnnotations: { missing: 'tier' },
    },
  },
  {
    title: 'sees text of any script as it is',
    policy: 'labels',
    settings: { required: ['größe', '尺寸'] },
    request: labelled({ größe: 'XL' }),
    expected: {
      allowed: false,
      message: 'label 尺寸 is missing',
      code: 422,
      auditAnnotations: { missing: '尺寸' },
    },
  },
  {
    title: 'mutates an object',
    policy: 'owner',
    settings: {},
    request: labelled({ app: 'web' }),
    expected: { allowed: true, mutated: objectWith({ owner: 'anna', app: 'web' }) },
    runtimes: mutating,
  },
  {
    title: 'mutates an object by a patch',
    policy: 'owner',
    settings: {},
    request: labelled({ app: 'web' }),
    expected: { allowed: true, mutated: objectWith({ owner: 'rego', app: 'web' }) },
    runtimes: ['opa'],
  },
  {
    title: 'has not mutated an object that it answers as it was',
    policy: 'owner',
    settings: { copy: true },
    request: labelled({ owner: 'bert' }),
    expected: { allowed: true },
    runtimes: mutating,
  },
  {
    title: 'has not mutated an object with a patch that changes nothing',
    policy: 'owner',
    settings: { copy: true },
    request: labelled({ owner: 'rego' }),
    expected: { allowed: true },
    runtimes: ['opa'],
  },
  {
    title: 'may not mutate what is deleted',
    policy: 'owner',
    settings: { copy: true },
    request: podRequest({}, { operation: 'DELETE', object: null }),
    expected: {
      allowed: false,
      message:
        'Incoming object is null, which happens only with DELETE operations, but the policy is attempting a mutation. This is not allowed',
    },
    runtimes: mutating,
  },
];

/** Gatekeeper's policies say messages only. */
function sayable(runtime: string, expected: Verdict): Verdict {
  if (runtime !== 'gatekeeper') return expected;
  const { allowed, message } = expected;
  return { allowed, ...(message !== undefined && { message }) };
}

for (const runtime of allRuntimes) {
  evaluatorSuite({
    name: runtime,
    checksSettings: runtime === 'wapc' || runtime === 'wasi',
    open: (denied) => openPolicy('denied', runtime, { denied }, { pool }),
  });
  suite(`a policy run by ${runtime}`, () => {
    for (const { title, policy, settings, request, expected, runtimes = allRuntimes } of cases) {
      if (!runtimes.includes(runtime)) continue;
      test(title, async () => {
        await using evaluator = await openPolicy(policy, runtime, settings, { pool });
        assert.equal(evaluator.runtime, runtime);
        assert.deepEqual(await evaluator.evaluate(request), sayable(runtime, expected));
      });
    }

    test('is given each request by itself, whatever it remembers', async () => {
      await using evaluator = await openPolicy('memory', runtime, {}, { pool });
      for (const name of ['first', 'second', 'third']) {
        const { message } = await evaluator.evaluate(podRequest({ name }));
        assert.equal(message, 'call 1 after nobody, global 1', name);
      }
    });

    test('is given each request by itself also where its memory grows', async () => {
      await using evaluator = await openPolicy('memory', runtime, { grow: true }, { pool });
      for (let number = 1; number <= 8; number++) {
        const { message } = await evaluator.evaluate(podRequest({ name: `pod-${number}` }));
        assert.equal(message, 'call 1 after nobody, global 1', String(number));
      }
    });

    test('says whether its settings are valid, where it can', async () => {
      await using right = await openPolicy('labels', runtime, { required: [] }, { pool });
      assert.deepEqual(await right.validateSettings(), { valid: true });
      await using wrong = await openPolicy('labels', runtime, { required: 'team' }, { pool });
      const looks = runtime === 'wapc' || runtime === 'wasi';
      const refused = { valid: false, message: 'settings need a list named required' };
      assert.deepEqual(await wrong.validateSettings(), looks ? refused : { valid: true });
    });

    test('answers many at once, each its own', async () => {
      await using evaluator = await openPolicy('labels', runtime, { required: ['team'] }, { pool });
      const verdicts = await Promise.all(
        Array.from({ length: 40 }, (_, at) =>
          evaluator.evaluate(labelled(at % 3 === 0 ? {} : { team: 'a' })),
        ),
      );
      assert.deepEqual(
        verdicts.map(({ allowed }) => allowed),
        verdicts.map((_, at) => at % 3 !== 0),
      );
    });
  });
}

/**
 * Modules of other compilers: with their own start, allocation, imports of WASI, and one without metadata.
 */
const others = [
  ['denied-rust', 'wapc'],
  ['denied-rust', 'wasi'],
  ['denied-as', 'opa'],
  ['denied-as', 'wapc'],
] as const;
for (const [policy, runtime] of others) {
  evaluatorSuite({
    name: `${runtime} with ${policy}`,
    checksSettings: runtime !== 'opa',
    open: (denied) => openPolicy(policy, runtime, { denied }, { pool }),
  });
}

test('integers that others made bigint are numbers for a policy', async () => {
  const settings = { calls: [{ namespace: 'a', operation: 'b', payload: 12345678901234567890n }] };
  const { promise, resolve } = Promise.withResolvers<string>();
  const hostCalls: HostCalls = {
    call: (_operation, payload) => {
      resolve(Buffer.from(payload).toString());
      return Promise.resolve(Buffer.from('1'));
    },
  };
  await using evaluator = await openPolicy('lookup', 'wapc', settings, { pool, hostCalls });
  await evaluator.evaluate(podRequest());
  assert.equal(await promise, '12345678901234567890');
});

suite('builtins of Rego', () => {
  const declared = '{"sprintf":0,"hex.encode":1}';

  /** The policy `labels`, which calls builtin 0, with another declaration of its builtins. */
  function openWith(runtime: WasmRuntime, builtins: string) {
    const bytes = Buffer.from(policyModule('labels', runtime));
    assert.equal(builtins.length, declared.length);
    bytes.write(builtins, bytes.indexOf(declared));
    return openWasmEvaluator({
      module: bytes,
      settings: { required: ['team'] },
      hostCalls: noHostCalls,
      pool,
    });
  }

  for (const runtime of ['opa', 'gatekeeper'] as const) {
    test(`a builtin that fails ends the evaluation (${runtime})`, async () => {
      await using evaluator = await openWith(runtime, '{"hex.decode":0,"sprintf":1}');
      assert.deepEqual(await evaluator.validateSettings(), { valid: true });
      const message = 'the builtin hex.decode failed: operand 2 must be string but is array';
      await assert.rejects(evaluator.evaluate(labelled({})), { why: 'trap', message });
      assert.deepEqual((await evaluator.evaluate(labelled({ team: 'a' }))).allowed, true);
    });

    test(`an unknown builtin fails when the policy is opened, and in each evaluation (${runtime})`, async () => {
      await using evaluator = await openWith(runtime, '{"http.send":0,"rego.xy":12}');
      const message = 'the policy needs builtins of Rego that are not available: http.send, rego.xy';
      await assert.rejects(evaluator.validateSettings(), { why: 'trap', message });
      await assert.rejects(evaluator.evaluate(labelled({ team: 'a' })), { why: 'trap', message });
    });
  }
});
