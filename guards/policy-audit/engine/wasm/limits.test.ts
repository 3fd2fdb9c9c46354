/** Errors of a policy affect that policy only. */
import assert from 'node:assert/strict';
import { after, suite, test } from 'node:test';

import { deepTest, sampled, seed } from '../../../../lib/testing/depth.fixture.ts';
import { until } from '../../../../lib/testing/until.fixture.ts';
import { EvaluationError, type Evaluator } from '../evaluator.ts';
import { allRuntimes, openPolicy, podRequest } from './policies.fixture.ts';
import { PolicyPool } from './pool.ts';
import type { WasmRuntime } from './metadata.ts';

suite('limits of policies in WebAssembly', () => {
  const pool = new PolicyPool({ threads: 1 });
  after(() => pool[Symbol.asyncDispose]());

  const good = podRequest();
  const doing = (what: string) => podRequest({ annotations: { do: what } });

  function open(runtime: WasmRuntime, limits = {}): Promise<Evaluator> {
    return openPolicy('unruly', runtime, {}, { pool, limits: { memoryBytes: 8 * 2 ** 20, ...limits } });
  }

  function failing(why: EvaluationError['why'], message: RegExp) {
    return (error: unknown): true => {
      assert.ok(error instanceof EvaluationError, String(error));
      assert.equal(error.why, why, error.message);
      assert.match(error.message, message);
      return true;
    };
  }

  /** The tests are about the errors of policies, not about their speed on a busy machine. */
  const patient = { deadlineMs: 60_000 };

  /** By the policy's behaviour: the expected error. By runtime where they differ. */
  const failures: readonly (readonly [string, EvaluationError['why'], RegExp, WasmRuntime?])[] = [
    ['trap', 'trap', /^the policy trapped: unreachable/],
    ['outside', 'trap', /^the policy trapped: memory access out of bounds/],
    ['recurse', 'trap', /^the policy (trapped|needs too much of the stack)/],
    ['grow', 'memory', /^the policy has exhausted its memory limit of 8 MiB/],
    ['empty', 'answer', /^the policy returned nothing/, 'wasi'],
    ['garbage', 'answer', /it is not JSON/],
    ['list', 'answer', /an object is required/],
    ['null', 'answer', /an object is required|list of violations/],
    ['text', 'answer', /an object is required|list of violations/],
    ['wrong', 'answer', /is not a boolean|an object is required|list of violations/],
  ];

  for (const [at, runtime] of allRuntimes.entries()) {
    suite(`a ${runtime} policy that does not keep to the rules`, () => {
      for (const [what, why, message, only] of at === 0 ? failures : sampled(failures, 1, seed + at)) {
        if (only !== undefined && only !== runtime) continue;
        test(`${what}: ${why}, and the next evaluation is as if nothing had been`, async () => {
          await using policy = await open(runtime);
          await assert.rejects(policy.evaluate(doing(what), patient), failing(why, message));
          assert.deepEqual(await policy.evaluate(good), { allowed: true });
        });
      }

      test('one that spins is ended at its deadline, and starts anew', async () => {
        await using policy = await open(runtime);
        const late = failing('deadline', /^the policy did not respond within 150 ms and was terminated$/);
        await assert.rejects(policy.evaluate(doing('spin'), { deadlineMs: 150 }), late);
        assert.deepEqual(await policy.evaluate(good), { allowed: true });
      });

      test('a module whose initial memory exceeds the limit is not opened', async () => {
        const large = failing(
          'memory',
          /^the policy requires .* MiB of memory at start, more than the limit of 0 MiB$/,
        );
        await assert.rejects(open(runtime, { memoryBytes: 1024 }), large);
      });
    });
  }

  test('an answer that is too long is refused where the policy gives it', async () => {
    for (const runtime of sampled(allRuntimes, 1)) {
      await using policy = await open(runtime, { memoryBytes: 128 * 2 ** 20 });
      const large = failing('answer', /^the policy returns more than 16777216 bytes/);
      await assert.rejects(policy.evaluate(doing('large'), patient), large);
      assert.deepEqual(await policy.evaluate(good), { allowed: true });
    }
  });

  test('work caused by settings is bounded as well', async () => {
    for (const runtime of ['wapc', 'wasi'] as const) {
      await using trapping = await openPolicy('unruly', runtime, { settings: 'trap' }, { pool });
      await assert.rejects(trapping.validateSettings(), failing('trap', /unreachable/));
      await using spinning = await openPolicy('unruly', runtime, { settings: 'spin' }, { pool });
      await assert.rejects(spinning.validateSettings({ deadlineMs: 100 }), failing('deadline', /100 ms/));
      assert.deepEqual(await spinning.evaluate(good), { allowed: true });
    }
  });

  deepTest('while policies spin, however often they are asked, another one is asked at once', async () => {
    const spinning = await Promise.all(
      ['wapc', 'wasi', 'opa'].map((runtime) => open(runtime as WasmRuntime)),
    );
    const lost = spinning.flatMap((policy) =>
      Array.from({ length: 5 }, () => policy.evaluate(doing('spin'), { deadlineMs: 600_000 })),
    );
    await using other = await open('wapc');
    // Ten minutes before any of the others is over.
    for (let left = 3; left > 0; left--) assert.deepEqual(await other.evaluate(good), { allowed: true });
    const gone = Promise.allSettled(lost);
    await Promise.all(spinning.map((policy) => policy[Symbol.asyncDispose]()));
    for (const result of await gone) {
      assert.equal(result.status, 'rejected');
      failing('aborted', /closed/)(result.reason);
    }
  });

  test('while one request makes a policy spin, others are answered in its second thread', async () => {
    await using two = new PolicyPool({ threads: 2 });
    const policy = await openPolicy('unruly', 'wapc', {}, { pool: two });
    const lost = policy.evaluate(doing('spin'), { deadlineMs: 600_000 });
    const gone = assert.rejects(lost, failing('aborted', /closed/));
    for (let left = 3; left > 0; left--) assert.deepEqual(await policy.evaluate(good), { allowed: true });
    await policy[Symbol.asyncDispose]();
    await gone;
  });

  test('an evaluation takes the thread that is free first, not the one that is started for it', async () => {
    await using two = new PolicyPool({ threads: 2 });
    const asked = Promise.withResolvers<void>();
    const answered = Promise.withResolvers<Uint8Array>();
    const hostCalls = {
      call: () => {
        asked.resolve();
        return answered.promise;
      },
    };
    const settings = { calls: [{ namespace: 'net', operation: 'v1/dns_lookup_host', payload: 'a' }] };
    await using asking = await openPolicy('lookup', 'wapc', settings, { pool: two, hostCalls });
    await using other = await openPolicy('unruly', 'wapc', {}, { pool: two });
    const first = asking.evaluate(good);
    await asked.promise;
    const order: string[] = [];
    const second = other.evaluate(good).then(() => void order.push('second'));
    answered.resolve(new TextEncoder().encode('{}'));
    await first;
    await Promise.all([second, other.evaluate(good).then(() => void order.push('third'))]);
    assert.deepEqual(order, ['second', 'third']);
  });

  deepTest('policies that were ended leave a thread to others', async () => {
    await using two = new PolicyPool({ threads: 2 });
    const settings = { calls: [{ namespace: 'net', operation: 'v1/dns_lookup_host', payload: 'a' }] };
    const order: string[] = [];
    const late = (name: string, answer: Promise<Uint8Array>): Promise<Evaluator> => {
      const call = (): Promise<Uint8Array> => {
        order.push(name);
        return answer;
      };
      return openPolicy('lookup', 'wapc', settings, { pool: two, hostCalls: { call } });
    };
    const never = new Promise<never>(() => {});
    const answered = Promise.withResolvers<Uint8Array>();
    const [one, another] = [await late('one', never), await late('another', never)];
    await using both = await late('both', answered.promise);
    await using other = await openPolicy('unruly', 'wapc', {}, { pool: two });
    await Promise.allSettled([one, another].map((policy) => policy.evaluate(good, { deadlineMs: 100 })));
    // Two threads are there again.
    const long = { deadlineMs: 600_000 };
    const again = Promise.all([both.evaluate(good, long), both.evaluate(good, long)]);
    await until(() => order.filter((name) => name === 'both').length === 2);
    answered.resolve(new TextEncoder().encode('{}'));
    await again;
    order.length = 0;
    const lost = Promise.allSettled([one, another].map((policy) => policy.evaluate(good, long)));
    await other.evaluate(good);
    order.push('other');
    await until(() => order.length === 3);
    // That `one` asks for something may be known before `other` has answered, or after.
    assert.ok(order.indexOf('other') < order.indexOf('another'), order.join());
    await Promise.all([one, another].map((policy) => policy[Symbol.asyncDispose]()));
    await lost;
  });

  deepTest(
    'a policy that was ended has its turn, also where others always have something to do',
    async () => {
      await using two = new PolicyPool({ threads: 2 });
      const spinning = await openPolicy('unruly', 'wapc', {}, { pool: two });
      await assert.rejects(spinning.evaluate(doing('spin'), { deadlineMs: 100 }));
      const others = await Promise.all(
        ['wapc', 'wasi', 'opa'].map((one) => openPolicy('unruly', one as WasmRuntime, {}, { pool: two })),
      );
      const stop = new AbortController();
      const busy = others.flatMap((other) =>
        Array.from({ length: 8 }, async () => {
          while (!stop.signal.aborted) await other.evaluate(good, { deadlineMs: 600_000 });
        }),
      );
      // Long after its turn, and before it would have one by chance.
      const patience = AbortSignal.timeout(8000);
      try {
        assert.deepEqual(await spinning.evaluate(good, { signal: patience }), { allowed: true });
      } finally {
        stop.abort();
        await Promise.all(busy);
      }
      await Promise.all([spinning, ...others].map((policy) => policy[Symbol.asyncDispose]()));
    },
  );

  test('a policy that waits for its host is ended too', async () => {
    const hostCalls = { call: () => new Promise<never>(() => {}) };
    const settings = { calls: [{ namespace: 'net', operation: 'v1/dns_lookup_host', payload: 'a' }] };
    for (const runtime of ['wapc', 'wasi'] as const) {
      await using policy = await openPolicy('lookup', runtime, settings, { pool, hostCalls });
      const late = failing('deadline', /within 100 ms/);
      await assert.rejects(policy.evaluate(good, { deadlineMs: 100 }), late);
    }
  });

  test('the host is notified when an evaluation that waits for it ends', async () => {
    const signals: AbortSignal[] = [];
    const hostCalls = {
      call: (_operation: unknown, _payload: unknown, signal?: AbortSignal) => {
        if (signal) signals.push(signal);
        return new Promise<never>(() => {});
      },
    };
    const settings = { calls: [{ namespace: 'net', operation: 'v1/dns_lookup_host', payload: 'a' }] };
    await using policy = await openPolicy('lookup', 'wapc', settings, { pool, hostCalls });
    // The deadline may pass before it has asked.
    while (signals.length === 0) await assert.rejects(policy.evaluate(good, { deadlineMs: 100 }));
    await until(() => signals.every(({ aborted }) => aborted));
  });

  test('a thousand calls of the host are answered, or as many as the limit says, and no more', async () => {
    for (const [runtime, limit] of [['wapc'], ['wasi', 20]] as const) {
      let count = 0;
      const hostCalls = { call: () => Promise.resolve(Buffer.from(`"${++count}"`)) };
      const call = { namespace: 'net', operation: 'v1/dns_lookup_host', payload: 'a' };
      const [times, limits] = [limit ?? 1000, limit === undefined ? {} : { hostCalls: limit }];
      const settings = { calls: [{ ...call, times }, call] };
      await using policy = await openPolicy('lookup', runtime, settings, { pool, hostCalls, limits });
      const refused = `this policy has called the host ${times} times in this evaluation, which is the limit`;
      assert.deepEqual(await policy.evaluate(good, { deadlineMs: 60_000 }), {
        allowed: false,
        message: `"${times}" | error: ${refused}`,
        asked: [{ apiVersion: 'kubewarden', kind: 'net/v1/dns_lookup_host' }],
      });
      assert.equal(count, times);
    }
  });

  test('an evaluation that is aborted is not waited for, and the policy goes on', async () => {
    await using policy = await open('wapc');
    const reason = new Error('nobody asks any more');
    const stop = new AbortController();
    const asked = policy.evaluate(doing('spin'), { signal: stop.signal, deadlineMs: 300 });
    stop.abort(reason);
    await assert.rejects(
      asked,
      (error: EvaluationError) => error.why === 'aborted' && error.cause === reason,
    );
    await assert.rejects(policy.evaluate(good, { signal: stop.signal }), failing('aborted', /aborted/));
    assert.deepEqual(await policy.evaluate(good), { allowed: true });
  });

  test('a closed policy answers no more', async () => {
    const policy = await open('wapc');
    await policy[Symbol.asyncDispose]();
    await policy[Symbol.asyncDispose]();
    await assert.rejects(policy.evaluate(good), failing('aborted', /closed/));
  });

  test('threads end when there is nothing to do', async () => {
    await using own = new PolicyPool({ threads: 1, idleMs: 20 });
    await using policy = await openPolicy('labels', 'wapc', { required: [] }, { pool: own });
    await policy.evaluate(good);
    assert.equal(own.threads, 1);
    await until('the thread ends', () => own.threads === 0);
    assert.deepEqual(await policy.evaluate(good), { allowed: true });
  });
});
