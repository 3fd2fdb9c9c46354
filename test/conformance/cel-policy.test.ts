/** The module `cel-policy` of Kubewarden, by its own tests (https://github.com/kubewarden/cel-policy, `internal`, `e2e.bats`). */
import type { CelOptions } from '../../guards/policy-audit/engine/cel/open.ts';
import type { JsonObject } from '../../guards/policy-audit/engine/evaluator.ts';
import { allowed, denied, deployment, judgePolicy, pod, type PolicyCase } from './policy-case.fixture.ts';
import { conformance, type Section } from './section.fixture.ts';

const rule = (expression: string, more: JsonObject = {}): JsonObject => ({
  validations: [{ expression, ...more }],
});
const named = "object.metadata.name != 'web'";
const plain = pod({});

const items = [{ data: { most: '50' } }, { data: { most: '2' } }];
const cluster = (found: readonly JsonObject[]): CelOptions => ({
  cluster: { get: () => found[0], list: () => ({ items: found }) },
});
const limited = (paramRef: JsonObject): JsonObject => ({
  ...rule('object.spec.replicas <= int(params.data.most)', {
    messageExpression: "'Deployment: ' + object.metadata.name + ' - at most ' + params.data.most",
    reason: 'Unauthorized',
  }),
  paramKind: { apiVersion: 'v1', kind: 'ConfigMap' },
  paramRef: { parameterNotFoundAction: 'Deny', ...paramRef },
});

const sections: readonly Section<PolicyCase>[] = [
  {
    name: 'validations and messages',
    cases: [
      { settings: rule("object.metadata.name == 'web'"), object: plain, expected: allowed },
      {
        settings: rule(named, { message: 'not this' }),
        object: plain,
        expected: denied('not this', { code: 400 }),
      },
      {
        settings: rule(named),
        object: plain,
        expected: denied(`failed expression: ${named}`, { code: 400 }),
      },
      { settings: rule(` ${named}\n`), object: plain, expected: denied(`failed expression: ${named}`) },
      {
        settings: rule(named, { messageExpression: "object.metadata.name + ' is not allowed'" }),
        object: plain,
        expected: denied('web is not allowed'),
      },
      {
        settings: rule(named, { reason: 'Unauthorized' }),
        object: plain,
        expected: { allowed: false, code: 401 },
      },
      {
        settings: rule(named, { reason: 'Forbidden' }),
        object: plain,
        expected: { allowed: false, code: 403 },
      },
      {
        settings: rule(named, { reason: 'RequestEntityTooLarge' }),
        object: plain,
        expected: { allowed: false, code: 413 },
      },
      { settings: rule(named, { reason: 'Other' }), object: plain, expected: 'The settings are invalid' },
      { settings: rule('oldObject == {} && object != {}'), object: plain, expected: allowed },
      {
        settings: rule("request.object.metadata.name == 'web' && request.kind.kind == 'Pod'"),
        object: plain,
        expected: allowed,
      },
      { settings: { validations: [] }, object: plain, expected: 'The settings are invalid: validations' },
      {
        settings: rule("'a' + 1 == 'a'"),
        object: plain,
        expected: 'The settings are invalid: validations[0].expression',
      },
      {
        settings: rule('object.spec.nothing == 1'),
        object: plain,
        expected: "expression 'object.spec.nothing == 1' resulted in error",
      },
      {
        settings: { ...rule('true'), failurePolicy: 'Other' },
        object: plain,
        expected: 'The settings are invalid: failurePolicy',
      },
    ],
  },
  {
    name: 'variables',
    cases: [
      {
        settings: {
          variables: [
            { name: 'forbidden', expression: "'web'" },
            { name: 'metadata', expression: 'request.object.metadata' },
            { name: 'name', expression: 'variables.metadata.name' },
          ],
          ...rule('variables.name != variables.forbidden', {
            messageExpression: "variables.forbidden + ' is forbidden'",
          }),
        },
        object: plain,
        expected: denied('web is forbidden'),
      },
      {
        settings: { variables: [{ name: '1a', expression: '1' }], ...rule('true') },
        object: plain,
        expected: 'The settings are invalid: variables[0].name',
      },
      {
        settings: { variables: [{ name: 'a', expression: '' }], ...rule('true') },
        object: plain,
        expected: 'The settings are invalid: variables[0].expression',
      },
      {
        settings: { variables: [{ name: 'a', expression: 'nothing' }], ...rule('true') },
        object: plain,
        expected: 'The settings are invalid: variables[0].expression',
      },
      {
        settings: rule('variables.nothing == 1'),
        object: plain,
        expected: 'The settings are invalid: validations[0].expression',
      },
    ],
  },
  {
    name: 'parameters',
    cases: [
      {
        settings: limited({ name: 'limits' }),
        object: deployment(10),
        options: cluster(items),
        expected: allowed,
      },
      {
        settings: limited({ name: 'limits' }),
        object: deployment(51),
        options: cluster(items),
        expected: denied('Deployment: web - at most 50', { code: 401 }),
      },
      {
        settings: limited({ selector: { matchLabels: { for: 'web' } } }),
        object: deployment(10),
        options: cluster(items),
        expected: denied('Deployment: web - at most 2', { code: 401 }),
      },
      {
        settings: limited({ selector: { matchLabels: { for: 'web' } } }),
        object: deployment(1),
        options: cluster([]),
        expected: denied('failed to get params for performing policy evaluation: no parameters found', {
          code: 400,
        }),
      },
      {
        settings: { ...limited({ selector: { matchLabels: { for: 'web' } } }), failurePolicy: 'Ignore' },
        object: deployment(1),
        options: cluster([]),
        expected: allowed,
      },
      {
        settings: limited({ name: 'limits', parameterNotFoundAction: 'Allow' }),
        object: deployment(1),
        options: cluster([]),
        expected: allowed,
      },
      {
        settings: limited({}),
        object: deployment(1),
        options: cluster(items),
        expected: 'The settings are invalid: paramRef',
      },
      {
        settings: limited({ name: 'a', selector: {} }),
        object: deployment(1),
        options: cluster(items),
        expected: 'The settings are invalid: paramRef',
      },
      {
        settings: limited({ name: 'a', parameterNotFoundAction: 'Other' }),
        object: deployment(1),
        options: cluster(items),
        expected: 'The settings are invalid: paramRef',
      },
      {
        settings: { ...limited({ name: 'a' }), paramKind: { kind: 'ConfigMap' } },
        object: deployment(1),
        options: cluster(items),
        expected: 'The settings are invalid: paramKind',
      },
    ],
  },
  {
    name: 'functions',
    cases: [
      {
        settings: rule(
          "base64.encode(b'a?>') == 'YT8+' && base64.decode('YT8+') == b'a?>' && string(base64.decode('aGVsbG8')) == 'hello'",
        ),
        object: plain,
        expected: allowed,
      },
      {
        settings: rule("base64.decode('YT8-') == b''"),
        object: plain,
        expected: "expression 'base64.decode('YT8-') == b''' resulted in error: illegal base64 data",
      },
      {
        settings: rule(
          "sets.contains([1, 2], [2]) && 'a,b'.split(',').join('-') == 'a-b' && {}.?a.orValue(1) == 1",
        ),
        object: plain,
        expected: allowed,
      },
      {
        settings: rule(
          "url('https://a.b/c?d=e#f').getQuery() == {'d': ['e']} && 'abc'.find('b.') == 'bc' && [2, 1].max() == 2 && quantity('1k').compareTo(quantity('1000')) == 0",
        ),
        object: plain,
        expected: allowed,
      },
      {
        settings: rule(
          "kw.k8s.apiVersion('v1').kind('ConfigMap').namespace('shop').get('limits').data.most == '50' && kw.k8s.apiVersion('v1').kind('ConfigMap').labelSelector('a=b').fieldSelector('c=d').list().items.size() == 2",
        ),
        object: plain,
        options: cluster(items),
        expected: allowed,
      },
      {
        settings: rule("namespaceObject.data.most == '50'"),
        object: plain,
        options: cluster(items),
        expected: allowed,
      },
      {
        settings: rule('namespaceObject == null'),
        object: pod({}, { namespace: undefined }),
        expected: allowed,
      },
    ],
    notApplicable: [
      {
        what: 'kw.oci, kw.net, kw.crypto, kw.sigstore',
        why: 'such a policy is invalid here, and has to run as the module',
      },
      {
        what: 'numbers of objects as doubles',
        why: 'they are integers where they are whole, as in Kubernetes',
      },
    ],
  },
];

conformance('cel-policy', sections, judgePolicy({}));
