import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { runInNewContext } from 'node:vm';

import { denyingPolicy } from '../cel/denying-policy.fixture.ts';
import { openCelEvaluator } from '../cel/open.ts';
import { evaluatorSuite } from '../evaluator.suite.fixture.ts';
import { EvaluationError, type Evaluator, type JsonObject } from '../evaluator.ts';
import { podNamed, requestFor } from '../requests.fixture.ts';
import * as fc from '../../../../lib/testing/fast-check.fixture.ts';
import { decideGroup, parseGroupExpression } from './expression.ts';
import { openGroupEvaluator, type GroupSpec } from './open.ts';

const policy = (settings: JsonObject): Evaluator => openCelEvaluator(settings);
const saying = (expression: string): Evaluator =>
  policy({ validations: [{ expression, message: `not ${expression}` }] });

/** yes, no, broken, and one that looks at the name. */
const members = (): Map<string, Evaluator> =>
  new Map([
    ['yes', saying('true')],
    ['no', saying('false')],
    ['broken', saying('object.nothing.here')],
    ['web', saying("object.metadata.name == 'web'")],
    ['failing', saying('object.nothing == 1')],
  ]);

async function decide(expression: string, more: Partial<GroupSpec> = {}): Promise<unknown> {
  const used = new Map([...members()].filter(([name]) => name !== 'broken'));
  await using group = openGroupEvaluator({
    expression,
    message: 'refused by the group',
    members: used,
    ...more,
  });
  const { valid, message } = await group.validateSettings();
  assert.ok(valid, message);
  const { allowed, causes = [] } = await group.evaluate(requestFor(podNamed('web')));
  return allowed ? true : causes.map(({ field }) => field.slice('spec.policies.'.length));
}

suite('expressions of groups', () => {
  const cases: Readonly<Record<string, unknown>> = {
    'yes()': true,
    'no()': ['no'],
    '!no()': true,
    '!yes()': [],
    'yes() && web()': true,
    'no() && web()': ['no'],
    'no() || web()': true,
    ' ( no()||yes( ) )&&! ! web() ': true,
    // && binds closer than ||.
    'yes() || yes() && no()': true,
    '(yes() || yes()) && no()': ['no'],
    'true && no()': ['no'],
    // Members that do not matter are not asked.
    'no() && failing()': ['no'],
    'yes() || failing()': true,
    // Those that cannot be asked leave the answer to the others.
    'failing() || yes()': true,
    'failing() && no()': ['no', 'failing'],
  };
  for (const [expression, wanted] of Object.entries(cases)) {
    test(expression, async () => {
      assert.deepEqual(await decide(expression), wanted);
    });
  }

  for (const expression of ['failing()', '!failing()', 'failing() && yes()', 'no() || failing()']) {
    test(`${expression} has no verdict`, async () => {
      await assert.rejects(
        decide(expression),
        (error) =>
          error instanceof EvaluationError &&
          error.message.includes('spec.policies.failing: no verdict: expression') &&
          error.message.includes('no such key: nothing'),
      );
    });
  }

  test('they decide as JavaScript does', async () => {
    const tree = fc.letrec<Record<'node', string>>((of) => ({
      node: fc.oneof(
        { maxDepth: 5 },
        fc.constantFrom('a()', 'b()', 'c()', 'true'),
        of('node').map((node) => `!${node}`),
        of('node').map((node) => `(${node})`),
        fc.tuple(of('node'), fc.constantFrom('&&', '||'), of('node')).map((parts) => parts.join(' ')),
      ),
    })).node;
    const answers = fc.record({ a: fc.boolean(), b: fc.boolean(), c: fc.boolean() });
    await fc.assert(
      fc.asyncProperty(tree, answers, async (source, given) => {
        const asked: string[] = [];
        const names: Readonly<Record<string, boolean>> = given;
        const decided = await decideGroup(parseGroupExpression(source), async (name) => {
          asked.push(name);
          return names[name];
        });
        const theirs: string[] = [];
        const call = (name: string) => () => (theirs.push(name), names[name]);
        const calls = { a: call('a'), b: call('b'), c: call('c') };
        assert.equal(decided, runInNewContext(source, calls));
        assert.deepEqual(asked, theirs);
      }),
      { numRuns: 500 },
    );
  });
});

suite('groups that cannot work are refused with the place', () => {
  const invalid: Readonly<Record<string, string>> = {
    '': 'spec.expression: column 1: expected a member call, found the end',
    true: 'spec.expression: it calls none of the policies',
    'yes() && nobody()': 'spec.expression: column 10: there is no policy "nobody"',
    yes: 'spec.expression: column 4: expected "()" after yes, found the end',
    'yes(1)':
      'spec.expression: column 5: unexpected "1"; an expression consists of member calls, &&, ||, ! and parentheses',
    'yes() & web()':
      'spec.expression: column 7: unexpected "&"; an expression consists of member calls, &&, ||, ! and parentheses',
    'yes() web()': 'spec.expression: column 7: expected && or ||, found "web"',
    '(yes()': 'spec.expression: column 7: expected ")", found the end',
    '()': 'spec.expression: column 2: expected a member call, found ")"',
    [`${'('.repeat(200)}yes()${')'.repeat(200)}`]:
      'spec.expression: column 101: the expression is nested too deeply',
  };
  for (const [expression, words] of Object.entries(invalid)) {
    test(words, async () => {
      await using group = openGroupEvaluator({
        expression,
        message: 'no',
        members: new Map([
          ['yes', saying('true')],
          ['web', saying('true')],
        ]),
      });
      assert.deepEqual(await group.validateSettings(), { valid: false, message: words });
      await assert.rejects(group.evaluate(requestFor(podNamed('web'))), EvaluationError);
    });
  }

  test('so are members whose settings are invalid, or that mutate', async () => {
    await using group = openGroupEvaluator({
      expression: 'yes() && broken()',
      message: 'no',
      members: new Map([...members()].filter(([name]) => name === 'yes' || name === 'broken')),
      mutating: new Set(['yes']),
    });
    const { message = '' } = await group.validateSettings();
    assert.match(message, /^spec\.policies\.yes: mutation is not allowed inside of policy group; /);
    assert.match(message, /spec\.policies\.broken: Policy settings are invalid: .*must evaluate to bool/);
  });
});

test('a member that mutates after all counts as a refusal', async () => {
  const mutating: Evaluator = {
    runtime: 'cel',
    validateSettings: async () => ({ valid: true }),
    evaluate: async () => ({ allowed: true, mutated: {} }),
    [Symbol.asyncDispose]: async () => {},
  };
  await using group = openGroupEvaluator({
    expression: 'one()',
    message: 'no',
    members: new Map([['one', mutating]]),
  });
  assert.deepEqual(await group.evaluate(requestFor(podNamed('web'))), {
    allowed: false,
    message: 'no',
    causes: [{ field: 'spec.policies.one', message: 'mutation is not allowed inside of policy group' }],
  });
});

test('a member is asked once, each with the whole time limit', async () => {
  let times = 0;
  const slow: Evaluator = {
    runtime: 'cel',
    validateSettings: async () => ({ valid: true }),
    evaluate: async (_request, { deadlineMs = 0 } = {}) => {
      times++;
      assert.equal(deadlineMs, 500);
      return { allowed: false, message: `asked ${times} times` };
    },
    [Symbol.asyncDispose]: async () => {},
  };
  await using group = openGroupEvaluator({
    expression: 'one() || one() || !!one()',
    message: 'no',
    members: new Map([['one', slow]]),
  });
  const { causes } = await group.evaluate(requestFor(podNamed('web')), { deadlineMs: 500 });
  assert.deepEqual(causes, [{ field: 'spec.policies.one', message: 'asked 1 times' }]);
});

evaluatorSuite({
  name: 'group',
  messageOf: ({ causes }) => causes?.[0]?.message,
  open: (denied) =>
    openGroupEvaluator({
      expression: 'denied()',
      message: 'the group refuses it',
      members: new Map([['denied', denyingPolicy(denied)]]),
    }),
});
