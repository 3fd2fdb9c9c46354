import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { EvaluationError } from '../evaluator.ts';
import { podNamed, requestFor } from '../requests.fixture.ts';
import { compileMatchConditions } from './match-conditions.ts';
import type { Match } from './matching.ts';

const conditions = (...expressions: readonly string[]): { name: string; expression: string }[] =>
  expressions.map((expression, index) => ({ name: `condition-${index}`, expression }));

async function match(...expressions: readonly string[]): Promise<Match> {
  const matcher = compileMatchConditions(conditions(...expressions));
  assert.deepEqual(matcher.problems, []);
  return await matcher.match(requestFor(podNamed('web')));
}

suite('match conditions', () => {
  test('none at all match everything', async () => {
    assert.deepEqual(await match(), { matched: true });
  });

  test('all have to hold', async () => {
    assert.deepEqual(await match("object.kind == 'Pod'", "request.operation == 'CREATE'"), { matched: true });
    assert.deepEqual(await match("object.kind == 'Pod'", "request.operation == 'UPDATE'", 'false'), {
      matched: false,
      condition: 'condition-1',
    });
  });

  test('one that is false decides, whatever errors the others have', async () => {
    assert.deepEqual(await match('object.nothing == 1', 'false'), {
      matched: false,
      condition: 'condition-1',
    });
    assert.deepEqual(await match('true', 'object.nothing == 1'), {
      matched: false,
      error: "expression 'object.nothing == 1' resulted in error: no such key: nothing",
    });
    const { error = '' } = await match('object.nothing == 1', 'object.none == 1');
    assert.match(error, /^\[expression .*nothing, expression .*none\]$/);
  });

  test('groups that an audit does not know are empty', async () => {
    const matcher = compileMatchConditions(
      conditions("!(has(request.userInfo.groups) && 'system:masters' in request.userInfo.groups)"),
    );
    const request = requestFor(podNamed('web'), { userInfo: {} });
    assert.deepEqual(await matcher.match(request), { matched: true });
  });

  test('they read nothing of the cluster: this process would, with its own rights', () => {
    const get = "kw.k8s.apiVersion('v1').kind('Secret').namespace('vault').get('keys').data.key == ''";
    const read = (): never => assert.fail('something was read');
    const { problems } = compileMatchConditions(conditions(get), { cluster: { get: read, list: read } });
    assert.equal(problems.length, 1);
    assert.match(problems[0] ?? '', /matchConditions\[0\]\.expression: .*(undeclared|kw)/);
  });

  test('invalid conditions are named with their place', async () => {
    const { problems, match: ask } = compileMatchConditions(conditions('true', 'object.', 'object.metadata'));
    assert.equal(problems.length, 2);
    assert.match(
      problems[0] ?? '',
      /^matchConditions\[1\]\.expression: Invalid value: "object\.": compilation failed: /,
    );
    assert.match(
      problems[1] ?? '',
      /^matchConditions\[2\]\.expression: .*must evaluate to bool but got dyn$/,
    );
    assert.equal((await ask(requestFor(podNamed('web')))).matched, false);
    const many = compileMatchConditions(conditions(...Array.from({ length: 65 }, () => 'true')));
    assert.deepEqual(many.problems, ['matchConditions: Too many: 65: must have at most 64 items']);
  });

  test('a cancelled evaluation rejects with its reason', async () => {
    const matcher = compileMatchConditions(conditions('true'));
    await assert.rejects(
      matcher.match(requestFor(podNamed('web')), { signal: AbortSignal.abort() }),
      (error) => error instanceof EvaluationError && error.why === 'aborted',
    );
  });
});
