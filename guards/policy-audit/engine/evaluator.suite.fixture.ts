/**
 * The requirements for every runtime, whatever its policies are written in. Each runtime brings one policy:
 * it refuses objects whose `metadata.name` is among the names in its settings, with the message `<name> is
 * denied`.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import {
  EvaluationError,
  type Evaluator,
  type JsonObject,
  type PolicyRequest,
  type Verdict,
} from './evaluator.ts';
import { podNamed, requestFor } from './requests.fixture.ts';

export interface RuntimeUnderTest {
  readonly name: string;
  /** Opens the policy. No names at all are settings that it calls invalid. */
  open(denied: readonly string[]): Evaluator | Promise<Evaluator>;
  /** The code of a refusal, where the policy sets one. */
  readonly code?: number;
  /** Whether its policies look at their settings at all; those in Rego have no way to. Default: true. */
  readonly checksSettings?: boolean;
  /** Where the message of the policy is, if not that of the verdict. */
  messageOf?(verdict: Verdict): string | undefined;
}

interface Case {
  readonly name: string;
  readonly denied: readonly string[];
  readonly request: PolicyRequest;
  /** Undefined: it is allowed. */
  readonly message?: string;
}

const large: JsonObject = {
  annotations: Object.fromEntries(
    Array.from({ length: 2_000 }, (_, index) => [`example.com/note-${index}`, 'x'.repeat(100)]),
  ),
};

/** None of these is about deadlines, and the machine may be busy. */
const patient = { deadlineMs: 60_000 };

/** Cases as data. */
export const cases: readonly Case[] = [
  { name: 'another name is allowed', denied: ['root'], request: requestFor(podNamed('web')) },
  {
    name: 'a denied name is refused with the message of the policy',
    denied: ['root', 'admin'],
    request: requestFor(podNamed('admin')),
    message: 'admin is denied',
  },
  {
    name: 'an update is judged by the new object',
    denied: ['root'],
    request: requestFor(podNamed('root'), { operation: 'UPDATE', oldObject: podNamed('web') }),
    message: 'root is denied',
  },
  {
    name: 'texts beyond ASCII arrive as they are',
    denied: ['größe-日本-😀'],
    request: requestFor(podNamed('größe-日本-😀')),
    message: 'größe-日本-😀 is denied',
  },
  {
    name: 'an object of 200 kB is no trouble',
    denied: ['root'],
    request: requestFor({ ...podNamed('root'), ...large }),
    message: 'root is denied',
  },
];

/** Registers the tests of one runtime. */
export function evaluatorSuite({
  name,
  open,
  code,
  checksSettings = true,
  messageOf = ({ message }) => message,
}: RuntimeUnderTest): void {
  suite(`the runtime ${name}`, () => {
    for (const one of cases) {
      test(one.name, async () => {
        await using policy = await open(one.denied);
        const verdict = await policy.evaluate(one.request, patient);
        assert.deepEqual([verdict.allowed, messageOf(verdict)], [one.message === undefined, one.message]);
        if (one.message !== undefined && code !== undefined) assert.equal(verdict.code, code);
      });
    }

    test('it says of its settings whether they can work', async () => {
      await using good = await open(['root']);
      assert.deepEqual(await good.validateSettings(), { valid: true });
      await using bad = await open([]);
      if (!checksSettings) return assert.deepEqual(await bad.validateSettings(), { valid: true });
      const { valid, message = '' } = await bad.validateSettings();
      assert.equal(valid, false);
      assert.notEqual(message, '');
    });

    test('requests do not see one another', async () => {
      await using policy = await open(['pod-3', 'pod-7']);
      const verdicts = await Promise.all(
        Array.from({ length: 20 }, (_, index) =>
          policy.evaluate(requestFor(podNamed(`pod-${index}`)), patient),
        ),
      );
      const refused = verdicts.flatMap((verdict) => (verdict.allowed ? [] : [messageOf(verdict)]));
      assert.deepEqual(refused, ['pod-3 is denied', 'pod-7 is denied']);
    });

    test('the request is not changed', async () => {
      await using policy = await open(['root']);
      const request = requestFor(podNamed('root'));
      const before = JSON.stringify(request);
      await policy.evaluate(request, patient);
      assert.equal(JSON.stringify(request), before);
    });

    test('an evaluation whose caller has given up is cancelled', async () => {
      await using policy = await open(['root']);
      await assert.rejects(
        policy.evaluate(requestFor(podNamed('web')), { signal: AbortSignal.abort() }),
        (error) => error instanceof EvaluationError && error.why === 'aborted',
      );
    });

    test('a policy that is closed gives no verdicts', async () => {
      const policy = await open(['root']);
      await policy[Symbol.asyncDispose]();
      await policy[Symbol.asyncDispose]();
      await assert.rejects(
        policy.evaluate(requestFor(podNamed('web'))),
        (error) => error instanceof EvaluationError && error.why === 'aborted',
      );
    });
  });
}
