/**
 * ValidatingAdmissionPolicies, following Kubernetes' own tests (`test/e2e/apimachinery`,
 * `test/integration/apiserver/cel`, apiserver `pkg/admission/plugin/policy/validating`), as far as it is one
 * policy and one request. Matching is tested in `guards/policy-audit/policies`.
 */
import type { CelOptions } from '../../guards/policy-audit/engine/cel/open.ts';
import type { JsonObject } from '../../guards/policy-audit/engine/evaluator.ts';
import { allowed, denied, deployment, judgePolicy, type PolicyCase } from './policy-case.fixture.ts';
import { conformance, type Section } from './section.fixture.ts';

const kubernetes: CelOptions = { dialect: 'validating-admission-policy' };
const rule = (expression: string, more: JsonObject = {}): JsonObject => ({
  validations: [{ expression, ...more }],
});
const replicated = 'object.spec.replicas > 1';
const update = { operation: 'UPDATE' as const, oldObject: deployment(3) };
const remove = { operation: 'DELETE' as const, oldObject: deployment(3) };

const limits = (...values: readonly string[]): CelOptions => ({
  cluster: {
    get: () => (values[0] === undefined ? undefined : { data: { most: values[0] } }),
    list: () => ({ items: values.map((most) => ({ data: { most } })) }),
  },
});
const limited = (paramRef: JsonObject): JsonObject => ({
  ...rule('object.spec.replicas <= int(params.data.most)', {
    messageExpression: "'at most ' + params.data.most",
  }),
  paramKind: { apiVersion: 'v1', kind: 'ConfigMap' },
  paramRef: { parameterNotFoundAction: 'Deny', ...paramRef },
});

const sections: readonly Section<PolicyCase>[] = [
  {
    name: 'validations',
    cases: [
      { settings: rule(replicated), object: deployment(2), expected: allowed },
      {
        settings: rule(replicated),
        object: deployment(1),
        expected: denied(`failed expression: ${replicated}`),
      },
      {
        settings: rule(replicated),
        object: deployment(1),
        expected: { allowed: false, code: 422, reason: 'Invalid' },
      },
      {
        settings: rule(replicated, { reason: 'Forbidden', message: 'too few' }),
        object: deployment(1),
        expected: denied('too few', { code: 403, reason: 'Forbidden' }),
      },
      {
        settings: rule('object == null && oldObject.spec.replicas == 3'),
        object: null,
        request: remove,
        expected: allowed,
      },
      {
        settings: rule('object.spec.replicas >= oldObject.spec.replicas'),
        object: deployment(2),
        request: update,
        expected: denied('failed expression: object.spec.replicas >= oldObject.spec.replicas'),
      },
      {
        settings: rule('oldObject == null || has(oldObject.spec)'),
        object: deployment(1),
        expected: allowed,
      },
      {
        settings: rule(
          "request.operation == 'CREATE' && request.userInfo.username == 'alice' && !has(request.dryRun)",
        ),
        object: deployment(1),
        expected: allowed,
      },
      {
        settings: rule('object.spec.replicas + 1 == 3 && object.spec.replicas * 2 == 4'),
        object: deployment(2),
        expected: allowed,
      },
      {
        settings: rule('object.spec.replicas +'),
        object: deployment(1),
        expected: 'The settings are invalid: validations[0].expression',
      },
      {
        settings: rule("'a'"),
        object: deployment(1),
        expected: 'The settings are invalid: validations[0].expression',
      },
      {
        settings: rule('request.nothing == 1'),
        object: deployment(1),
        expected: 'The settings are invalid: validations[0].expression',
      },
      {
        settings: { validations: [] },
        object: deployment(1),
        expected: 'The settings are invalid: validations',
      },
    ],
    notApplicable: [
      {
        what: 'warnings in status.typeChecking',
        why: 'expressions are compiled without the schemas of the resources that a policy matches',
      },
    ],
  },
  {
    name: 'messages',
    cases: [
      {
        settings: rule(replicated, {
          messageExpression: "'wants more than ' + string(object.spec.replicas)",
        }),
        object: deployment(1),
        expected: denied('wants more than 1'),
      },
      {
        settings: rule(replicated, { message: 'too few', messageExpression: 'object.spec.nothing' }),
        object: deployment(1),
        expected:
          'The settings are invalid: validations[0].messageExpression: Invalid value: "object.spec.nothing": must evaluate to string',
      },
      {
        settings: rule(replicated, { message: 'too few', messageExpression: 'string(object.spec.nothing)' }),
        object: deployment(1),
        expected: denied('too few'),
      },
      {
        settings: rule(replicated, { message: 'too few', messageExpression: "'two\\n' + 'lines'" }),
        object: deployment(1),
        expected: denied('too few'),
      },
      {
        settings: rule(replicated, { messageExpression: "'  '" }),
        object: deployment(1),
        expected: denied(`failed expression: ${replicated}`),
      },
      {
        settings: rule('object.spec.replicas\n  > 1'),
        object: deployment(1),
        expected: denied('failed expression: object.spec.replicas\n  > 1'),
      },
      {
        settings: rule(replicated, { message: 'two\nlines' }),
        object: deployment(1),
        expected: 'The settings are invalid: validations[0].message',
      },
      {
        settings: rule(replicated, { message: '  ' }),
        object: deployment(1),
        expected: 'The settings are invalid: validations[0].message',
      },
      {
        settings: {
          validations: [
            { expression: replicated, message: 'first' },
            { expression: 'false', message: 'second' },
          ],
        },
        object: deployment(1),
        expected: denied('first', {
          causes: [
            { field: 'validations[0]', message: 'first' },
            { field: 'validations[1]', message: 'second' },
          ],
        }),
      },
    ],
  },
  {
    name: 'variables',
    cases: [
      {
        settings: {
          variables: [
            { name: 'replicas', expression: 'object.spec.replicas' },
            { name: 'isOdd', expression: 'variables.replicas % 2 == 1' },
          ],
          ...rule('variables.replicas > 1 && variables.isOdd'),
        },
        object: deployment(3),
        expected: allowed,
      },
      {
        settings: { variables: [{ name: 'broken', expression: '1 / 0' }], ...rule('true') },
        object: deployment(3),
        expected: allowed,
      },
      {
        settings: {
          variables: [{ name: 'broken', expression: 'object.spec.nothing' }],
          ...rule('variables.broken == 1 || true'),
        },
        object: deployment(3),
        expected: allowed,
      },
      {
        settings: {
          variables: [{ name: 'broken', expression: 'object.spec.nothing' }],
          ...rule('variables.broken == 1'),
        },
        object: deployment(3),
        expected: `expression 'variables.broken == 1' resulted in error: composited variable "broken" fails to evaluate`,
      },
      {
        settings: {
          variables: [
            { name: 'later', expression: 'variables.first' },
            { name: 'first', expression: '1' },
          ],
          ...rule('true'),
        },
        object: deployment(3),
        expected: 'The settings are invalid: variables[0].expression',
      },
      {
        settings: rule('variables.nothing == 1'),
        object: deployment(3),
        expected: 'The settings are invalid: validations[0].expression',
      },
      {
        settings: { variables: [{ name: 'text', expression: "'a'" }], ...rule('variables.text == 1') },
        object: deployment(3),
        expected: 'The settings are invalid: validations[0].expression',
      },
    ],
  },
  {
    name: 'match conditions',
    cases: [
      {
        settings: {
          matchConditions: [{ name: 'apps', expression: "object.metadata.namespace == 'other'" }],
          ...rule('false'),
        },
        object: deployment(1),
        expected: allowed,
      },
      {
        settings: {
          matchConditions: [
            {
              name: 'apps',
              expression: "has(object.metadata.labels) && object.metadata.labels.app == 'web'",
            },
          ],
          ...rule('false'),
        },
        object: deployment(1),
        expected: denied('failed expression: false'),
      },
      {
        settings: {
          matchConditions: [
            { name: 'broken', expression: 'object.spec.nothing == 1' },
            { name: 'never', expression: 'false' },
          ],
          ...rule('false'),
        },
        object: deployment(1),
        expected: allowed,
      },
      {
        settings: {
          matchConditions: [{ name: 'broken', expression: 'object.spec.nothing == 1' }],
          ...rule('true'),
          failurePolicy: 'Ignore',
        },
        object: deployment(1),
        expected: allowed,
      },
      {
        settings: {
          matchConditions: [{ name: 'broken', expression: 'object.spec.nothing == 1' }],
          ...rule('true'),
        },
        object: deployment(1),
        expected: 'expression',
      },
    ],
  },
  {
    name: 'audit annotations',
    cases: [
      {
        settings: {
          auditAnnotations: [{ key: 'replicas', valueExpression: "'has ' + string(object.spec.replicas)" }],
        },
        object: deployment(1),
        expected: { allowed: true, auditAnnotations: { replicas: 'has 1' } },
      },
      {
        settings: { auditAnnotations: [{ key: 'none', valueExpression: 'null' }] },
        object: deployment(1),
        expected: allowed,
      },
      {
        settings: { auditAnnotations: [{ key: 'number', valueExpression: 'object.spec.replicas + 1' }] },
        object: deployment(1),
        expected: 'The settings are invalid: auditAnnotations[0].valueExpression',
      },
    ],
  },
  {
    name: 'parameters',
    cases: [
      {
        settings: limited({ name: 'limits' }),
        object: deployment(2),
        options: limits('3'),
        expected: allowed,
      },
      {
        settings: limited({ name: 'limits' }),
        object: deployment(4),
        options: limits('3'),
        expected: denied('at most 3'),
      },
      {
        settings: limited({ selector: {} }),
        object: deployment(2),
        options: limits('3', '1'),
        expected: denied('at most 1'),
      },
      {
        settings: limited({ name: 'limits', parameterNotFoundAction: 'Allow' }),
        object: deployment(9),
        options: limits(),
        expected: allowed,
      },
      {
        settings: limited({ name: 'limits' }),
        object: deployment(1),
        options: limits(),
        expected:
          'failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction',
      },
      {
        settings: rule('params == null'),
        object: deployment(1),
        expected: 'The settings are invalid: validations[0].expression',
      },
    ],
  },
  {
    name: 'namespaceObject and authorizer',
    cases: [
      {
        settings: rule(
          "namespaceObject.metadata.labels.env == 'prod' && namespaceObject.metadata.name == 'shop'",
        ),
        object: deployment(1),
        options: {
          cluster: {
            get: () => ({ metadata: { name: 'shop', labels: { env: 'prod' } } }),
            list: () => ({ items: [] }),
          },
        },
        expected: allowed,
      },
      {
        settings: rule('namespaceObject.spec.nothing == 1'),
        object: deployment(1),
        expected: 'The settings are invalid: validations[0].expression',
      },
      {
        settings: rule(
          "authorizer.group('apps').resource('deployments').namespace('shop').name('web').check('scale').allowed() && authorizer.requestResource.check('update').allowed()",
        ),
        object: deployment(1),
        options: { access: () => Promise.resolve({ allowed: true }) },
        expected: allowed,
      },
      {
        settings: rule("authorizer.path('/healthz').check('get').allowed()", { message: 'not you' }),
        object: deployment(1),
        options: { access: () => Promise.resolve({ allowed: false, reason: 'no rule' }) },
        expected: denied('not you'),
      },
    ],
  },
  {
    name: 'failure policy and cost',
    cases: [
      {
        settings: rule('object.spec.nothing == 1'),
        object: deployment(1),
        expected: "expression 'object.spec.nothing == 1' resulted in error: no such key: nothing",
      },
      {
        settings: { ...rule('object.spec.nothing == 1'), failurePolicy: 'Ignore' },
        object: deployment(1),
        expected: allowed,
      },
      {
        settings: {
          validations: [{ expression: 'object.spec.nothing == 1' }, { expression: 'false', message: 'no' }],
          failurePolicy: 'Ignore',
        },
        object: deployment(1),
        expected: denied('no'),
      },
      {
        settings: {
          variables: [{ name: 'l', expression: JSON.stringify(Array.from({ length: 200 }, (_, at) => at)) }],
          ...rule('variables.l.all(a, variables.l.all(b, variables.l.all(c, a + b + c >= 0)))'),
        },
        object: deployment(1),
        expected:
          "expression 'variables.l.all(a, variables.l.all(b, variables.l.all(c, a + b + c >= 0)))' resulted in error: operation cancelled: actual cost limit exceeded",
      },
    ],
  },
];

conformance('ValidatingAdmissionPolicy', sections, judgePolicy(kubernetes));
