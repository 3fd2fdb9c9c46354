import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { EvaluationError, type JsonObject, type PolicyRequest } from '../evaluator.ts';
import { evaluatorSuite } from '../evaluator.suite.fixture.ts';
import { podNamed, requestFor } from '../requests.fixture.ts';
import { denyingPolicy } from './denying-policy.fixture.ts';
import { evaluate, kubernetes, validations } from './evaluate.fixture.ts';
import { openCelEvaluator } from './open.ts';

evaluatorSuite({ name: 'cel', code: 400, open: denyingPolicy });

suite('variables of expressions', () => {
  const holds: Readonly<Record<string, Partial<PolicyRequest>>> = {
    'object.spec.terminationGracePeriodSeconds + 1 == 31': {},
    'object.spec.containers.all(c, c.ports.all(p, p.containerPort % 2 == 0))': {},
    "request.operation == 'CREATE' && request.kind.kind == 'Pod' && request.namespace == 'shop'": {},
    "request.userInfo.username == 'alice' && 'system:authenticated' in request.userInfo.groups": {},
    "has(request.name) && !has(request.subResource) && request.requestKind.version == 'v1'": {},
    'oldObject == null': {},
    'object == null && !has(object.spec) && oldObject.metadata.name == "web"': {
      operation: 'DELETE',
      object: null,
      oldObject: podNamed('web'),
    },
    'request.dryRun && request.options.fieldManager == "kubectl"': {
      dryRun: true,
      options: { fieldManager: 'kubectl' },
    },
  };
  for (const [expression, more] of Object.entries(holds)) {
    test(expression, async () => {
      const request = requestFor(podNamed('web'), more);
      assert.deepEqual(await evaluate(validations(expression), request, kubernetes), { allowed: true });
    });
  }

  test('the module gives an empty object for what is not there', async () => {
    assert.equal((await evaluate(validations('oldObject == {} && !has(oldObject.spec)'))).allowed, true);
  });
});

suite('variables', () => {
  test('see those before them, and run once', async () => {
    const verdict = await evaluate({
      variables: [
        { name: 'images', expression: 'object.spec.containers.map(c, c.image)' },
        { name: 'hosts', expression: "variables.images.map(i, i.split('/')[0])" },
      ],
      validations: [
        // The variable's own `c` and `i` do not disturb those of the expression that asks for it first.
        { expression: "object.spec.containers.all(c, variables.hosts.all(i, i != '') && c.name == 'web')" },
        { expression: "variables.hosts == ['other']", message: 'only from other' },
      ],
    });
    assert.deepEqual(verdict, { allowed: false, message: 'only from other', code: 400, reason: 'Invalid' });
  });

  test('that fail say so, unless the error does not matter', async () => {
    const variables = [{ name: 'label', expression: 'object.metadata.labels.team' }];
    const failing = { ...validations("variables.label == 'a'"), variables };
    await assert.rejects(
      evaluate(failing),
      /expression 'variables.label == 'a'' resulted in error: composited variable "label" fails to evaluate: no such key: team/,
    );
    const swallowed = { ...validations("variables.label == 'a' || true", 'has(variables.label)'), variables };
    assert.equal((await evaluate(swallowed)).allowed, true);
  });
});

suite('verdicts of the module cel-policy', () => {
  const refusing = (validation: JsonObject): JsonObject => ({
    validations: [{ expression: " object.metadata.name == 'other' ", ...validation }],
  });

  test('only the first that fails counts', async () => {
    const settings = {
      validations: [
        { expression: 'true' },
        { expression: 'false', message: 'first', reason: 'Forbidden' },
        { expression: 'false', message: 'second' },
      ],
    };
    assert.deepEqual(await evaluate(settings), {
      allowed: false,
      message: 'first',
      code: 403,
      reason: 'Forbidden',
    });
  });

  for (const [reason, code] of Object.entries({
    Invalid: 400,
    Unauthorized: 401,
    Forbidden: 403,
    RequestEntityTooLarge: 413,
  })) {
    test(`${reason} is ${code}`, async () => {
      assert.equal((await evaluate(refusing({ reason }))).code, code);
    });
  }

  test('the message is that of the expression, the given one, or the default', async () => {
    const messages: readonly (readonly [JsonObject, string])[] = [
      [{}, "failed expression: object.metadata.name == 'other'"],
      [{ message: ' not this ' }, 'not this'],
      [{ message: 'not this', messageExpression: "'not ' + string(object.metadata.name)" }, 'not web'],
    ];
    for (const [validation, message] of messages) {
      assert.equal((await evaluate(refusing(validation))).message, message);
    }
  });

  test('an expression of several lines needs no message', async () => {
    const { message } = await evaluate(refusing({ expression: "object.metadata.name\n  == 'other'\n" }));
    assert.equal(message, "failed expression: object.metadata.name\n  == 'other'");
  });

  test('base64, which the module adds', async () => {
    const settings = validations(
      "base64.encode(b'hello') == 'aGVsbG8=' && base64.decode('aGVsbG8=') == b'hello'",
      "base64.decode('aGVsbG8') == b'hello' && base64.decode('aGVs\\nbG8=') == b'hello'",
    );
    assert.equal((await evaluate(settings)).allowed, true);
    await assert.rejects(evaluate(validations("base64.decode('a-b_') == b''")), /illegal base64 data/);
    await assert.rejects(evaluate(settings, undefined, kubernetes), /undeclared reference to 'base64'/);
  });

  test('an error is not a verdict, whatever the failure policy', async () => {
    const settings = { ...validations('object.spec.nothing == 1'), failurePolicy: 'Ignore' };
    await assert.rejects(
      evaluate(settings),
      (error) =>
        error instanceof EvaluationError &&
        error.why === 'expression' &&
        error.message === "expression 'object.spec.nothing == 1' resulted in error: no such key: nothing",
    );
  });
});

suite('verdicts of a ValidatingAdmissionPolicy', () => {
  test('all validations run: the first refusal is the message, all are causes', async () => {
    const settings = validations(
      'true',
      "object.metadata.name != 'web'",
      'object.spec.nothing == 1',
      'false',
    );
    assert.deepEqual(await evaluate(settings, undefined, kubernetes), {
      allowed: false,
      message: "failed expression: object.metadata.name != 'web'",
      code: 422,
      reason: 'Invalid',
      causes: [
        { field: 'validations[1]', message: "failed expression: object.metadata.name != 'web'" },
        {
          field: 'validations[2]',
          message: "expression 'object.spec.nothing == 1' resulted in error: no such key: nothing",
        },
        { field: 'validations[3]', message: 'failed expression: false' },
      ],
    });
  });

  test('an error counts by the failure policy, and is never silent', async () => {
    const settings = validations('object.spec.nothing == 1');
    await assert.rejects(evaluate(settings, undefined, kubernetes), EvaluationError);
    const ignored = await evaluate({ ...settings, failurePolicy: 'Ignore' }, undefined, kubernetes);
    assert.equal(ignored.allowed, true);
    assert.match(ignored.warnings?.[0] ?? '', /^ignored by failurePolicy: .*no such key: nothing$/);
  });

  test('a message that cannot be made falls back to the next', async () => {
    const settings = {
      validations: [{ expression: 'false', message: 'plain', messageExpression: "string(1 / 0) + ''" }],
    };
    assert.equal((await evaluate(settings, undefined, kubernetes)).message, 'plain');
  });

  test('audit annotations are values of expressions', async () => {
    const settings = {
      ...validations('true'),
      auditAnnotations: [
        { key: 'name', valueExpression: "'it is ' + object.metadata.name" },
        { key: 'none', valueExpression: 'null' },
      ],
    };
    const { auditAnnotations } = await evaluate(settings, undefined, kubernetes);
    assert.deepEqual(auditAnnotations, { name: 'it is web' });
  });

  test('a policy whose match conditions do not hold lets the request through', async () => {
    const matchConditions = [{ name: 'not-web', expression: "object.metadata.name != 'web'" }];
    const settings = { ...validations('false'), matchConditions };
    assert.equal((await evaluate(settings, undefined, kubernetes)).allowed, true);
    assert.equal((await evaluate(settings, requestFor(podNamed('db')), kubernetes)).allowed, false);
  });
});

test('a raw request is whatever it is', async () => {
  const raw = { user: 'alice', object: { metadata: { namespace: 'shop' } } } as unknown as PolicyRequest;
  assert.equal((await evaluate(validations("request.user == 'alice'"), raw)).allowed, true);
  await assert.rejects(
    evaluate(validations('namespaceObject == null'), raw),
    (error) => error instanceof EvaluationError && error.why === 'expression',
  );
  const checked = validations("!authorizer.requestResource.check('get').allowed()");
  assert.equal((await evaluate(checked, raw)).allowed, true);
});

suite('settings that cannot work', () => {
  const invalid: readonly (readonly [JsonObject, RegExp])[] = [
    [
      {},
      /^The settings are invalid: validations: Required value: validations must contain at least one item$/,
    ],
    [
      validations('object.spec.'),
      /validations\[0\]\.expression: Invalid value: "object\.spec\.": compilation failed: ERROR: <input>:1:\d+: Syntax error: /,
    ],
    [validations('nosuch == 1'), /compilation failed: ERROR: <input>:1:1: undeclared reference to 'nosuch'/],
    [validations('variables.nosuch == 1'), /ERROR: <input>:1:10: undefined field 'nosuch'/],
    [validations("'a' + 'b'"), /must evaluate to bool but got string/],
    [validations('object.spec.hostNetwork'), /must evaluate to bool but got dyn/],
    [
      { validations: [{ expression: 'true', messageExpression: '1 + 1' }] },
      /validations\[0\]\.messageExpression: Invalid value: "1 \+ 1": must evaluate to string but got int/,
    ],
    [
      { validations: [{ expression: 'true', reason: 'Because' }] },
      /validations\[0\]\.reason: Unsupported value: "Because"/,
    ],
    [
      { ...validations('true'), variables: [{ name: 'a b', expression: '1' }] },
      /variables\[0\]\.name: Invalid value: "a b": name is not a valid CEL identifier/,
    ],
    [
      {
        ...validations('true'),
        variables: [
          { name: 'a', expression: 'variables.b' },
          { name: 'b', expression: '1' },
        ],
      },
      /variables\[0\]\.expression: Invalid value: .*undefined field 'b'/s,
    ],
    [{ ...validations('true'), failurePolicy: 'Maybe' }, /failurePolicy: Unsupported value: "Maybe"/],
    [{ validations: 'true' }, /validations: Invalid value: must be a list/],
    [
      { ...validations('params.x == 1') },
      /validations\[0\]\.expression: .*undeclared reference to 'params'/s,
    ],
    [
      { ...validations('true'), paramKind: { apiVersion: 'v1', kind: 'ConfigMap' }, paramRef: { name: 'a' } },
      /paramRef\.parameterNotFoundAction: Required value/,
    ],
  ];
  for (const [settings, words] of invalid) {
    test(words.source, async () => {
      await using policy = openCelEvaluator(settings);
      const { valid, message } = await policy.validateSettings();
      assert.equal(valid, false);
      assert.match(message ?? '', words);
      await assert.rejects(policy.evaluate(requestFor(podNamed('web'))), EvaluationError);
    });
  }

  test('the variables of a ValidatingAdmissionPolicy are type-checked', async () => {
    await using policy = openCelEvaluator(validations("request.uid == ''"), kubernetes);
    const { message } = await policy.validateSettings();
    assert.match(message ?? '', /undefined field 'uid'/);
  });
});

suite('limits', () => {
  test('loops within loops are broken off', async () => {
    const sixty = JSON.stringify(Array.from({ length: 60 }, (_, index) => index));
    const expression =
      'variables.l.all(a, variables.l.all(b, variables.l.all(c, variables.l.all(d, a + b + c + d >= 0))))';
    const settings = { ...validations(expression), variables: [{ name: 'l', expression: sixty }] };
    await assert.rejects(
      evaluate(settings),
      (error) =>
        error instanceof EvaluationError &&
        error.why === 'deadline' &&
        error.message.endsWith('operation cancelled: actual cost limit exceeded'),
    );
  });

  test('many expressions have one budget', async () => {
    const items = JSON.stringify(Array.from({ length: 50 }, (_, index) => index));
    const expression = 'variables.l.all(a, variables.l.all(b, variables.l.all(c, a + b + c >= 0)))';
    const settings = {
      ...validations(...Array.from({ length: 25 }, () => expression)),
      variables: [{ name: 'l', expression: items }],
    };
    await assert.rejects(evaluate(settings), /running out of cost budget/);
    assert.equal((await evaluate({ ...settings, ...validations(expression) })).allowed, true);
  });

  const long = 'variables.l.all(a, variables.l.all(b, variables.l.all(c, a + b + c >= 0)))';
  const fifty = JSON.stringify(Array.from({ length: 50 }, (_, index) => index));

  test('the deadline ends a policy between two expressions', async () => {
    await using policy = openCelEvaluator({
      ...validations(long, 'true'),
      variables: [{ name: 'l', expression: fifty }],
    });
    await assert.rejects(
      policy.evaluate(requestFor(podNamed('web')), { deadlineMs: 1 }),
      /^EvaluationError: the evaluation took longer than 1 ms$/,
    );
  });

  test('others run while a policy takes long', async (t) => {
    await using policy = openCelEvaluator(validations(...Array.from({ length: 6 }, () => 'true')));
    // Each look at the clock is 10 ms later: others get a turn after 25 ms, however fast this machine is.
    let nowMs = 0;
    t.mock.method(performance, 'now', () => (nowMs += 10));
    let turns = 0;
    let others = setImmediate(function turn() {
      turns++;
      others = setImmediate(turn);
    });
    try {
      const { allowed } = await policy.evaluate(requestFor(podNamed('web')), { deadlineMs: 60_000 });
      assert.ok(allowed);
    } finally {
      clearImmediate(others);
    }
    assert.ok(turns > 1, `${turns} turns`);
  });
});
