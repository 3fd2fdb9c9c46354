/**
 * Expressions over an object without a schema, as policies are, by what the API server of Kubernetes 1.32 gives (cel-go 0.22):
 * the documentation of Kubernetes and of its libraries, cel-spec's tests, and policies that are in use.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { Authorizer, type AccessCheck } from './authorizer.ts';
import { Scope } from './environment.ts';
import { authorizerType } from './library-authorizer.ts';
import { evaluationMessage } from './messages.ts';
import { measured } from './meter.ts';
import { compileExpression } from './program.ts';

const object = JSON.parse(`{
  "apiVersion": "apps/v1",
  "kind": "Deployment",
  "metadata": {
    "name": "web", "namespace": "shop", "generation": 3,
    "labels": {"app": "web", "app.kubernetes.io/name": "web"},
    "annotations": {"example.com/owner": "team-a@example.com"}
  },
  "spec": {
    "replicas": 3, "paused": false, "ratio": 0.5, "whole": 2.0, "big": 9007199254740991, "nothing": null,
    "ports": [80, 443], "matrix": [[1, 2], [3]], "empty": [], "none": {},
    "template": {"spec": {
      "hostNetwork": false,
      "containers": [
        {"name": "web", "image": "registry.example/web:1.2.3", "ports": [{"containerPort": 8080}],
         "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}},
         "env": [{"name": "A", "value": "1"}, {"name": "B"}]},
        {"name": "proxy", "image": "registry.example/proxy@sha256:0123", "securityContext": {"privileged": true}}
      ]
    }}
  }
}`) as object;

const scope = new Scope({ object: { type: { kind: 'dyn' } }, oldObject: { type: { kind: 'dyn' } } });
const place = scope.declare('authorizer', authorizerType);
const checks: AccessCheck[] = [];
const authorizer = new Authorizer({ username: 'alice' }, (check) => {
  checks.push(check);
  if (check.verb === 'break') return { allowed: false, error: 'no answer' };
  return { allowed: check.user.username === 'alice' && check.verb === 'get', reason: 'by RBAC' };
});

/** The value, or the error as `! message`, or that of the compilation. */
function outcome(source: string): unknown {
  const compiled = compileExpression(source, scope);
  if (typeof compiled === 'string') return compiled.split('\n', 1)[0];
  const frame: unknown[] = [];
  frame[scope.variables.get('object')?.place ?? 0] = object;
  frame[scope.variables.get('oldObject')?.place ?? 0] = null;
  frame[place] = authorizer;
  const { value, error } = measured(() => compiled.run(frame));
  return error === undefined ? value : `! ${evaluationMessage(error)}`;
}

const holds: Readonly<Record<string, readonly string[]>> = {
  'numbers of JSON': [
    'object.spec.replicas + 1 == 4',
    'object.spec.replicas > 2 && object.spec.replicas <= 3',
    'object.spec.replicas == 3.0 && object.spec.replicas < 3.5',
    'type(object.spec.replicas) == int && type(object.spec.ratio) == double',
    'object.spec.ratio * 2.0 == 1.0',
    'type(object.spec.whole) == int',
    'object.spec.big + 1 == 9007199254740992',
    'object.spec.ports[0] + object.spec.ports[1] == 523',
    'object.spec.ports == [80, 443] && object.spec.ports != [80]',
    '80 in object.spec.ports && !(81 in object.spec.ports)',
    'object.spec.ports.map(p, p * 2) == [160, 886]',
    'object.spec.ports.sum() == 523 && object.spec.ports.max() == 443 && object.spec.ports.min() == 80',
    'object.spec.ports.isSorted() && object.spec.ports.indexOf(443) == 1',
    'object.spec.matrix[0][1] == 2 && object.spec.matrix.map(r, r.sum()) == [3, 3]',
    'object.spec.matrix.all(r, r.all(n, n % 4 != 0))',
    'int(object.spec.ratio * 10.0) == 5 && double(object.spec.replicas) == 3.0',
    "string(object.spec.replicas) == '3' && 'n=%d'.format([object.spec.replicas]) == 'n=3'",
    'size(object.spec.ports) == 2 && object.spec.ports.size() == 2',
    '-object.spec.replicas == -3',
    'object.spec.ports + [8080] == [80, 443, 8080]',
    'sets.contains(object.spec.ports, [443]) && sets.intersects(object.spec.ports, [80, 1])',
    'object.spec.ports.exists_one(p, p > 100)',
    "{'a': object.spec.replicas}.a == 3 && [object.spec.replicas][0] == 3",
  ],
  'fields that may be missing': [
    'has(object.spec.replicas) && !has(object.spec.strategy) && !has(object.spec.template.spec.hostPID)',
    'has(object.spec.nothing) && object.spec.nothing == null',
    '!has(oldObject.spec) && oldObject == null',
    "object.?spec.?strategy.orValue('none') == 'none'",
    "object.metadata.?labels['app'].orValue('') == 'web' && object.metadata.labels[?'nope'].orValue('x') == 'x'",
    "object.?metadata.?annotations[?'example.com/owner'].hasValue()",
    "object.metadata.annotations['example.com/owner'].endsWith('@example.com')",
    "'app' in object.metadata.labels && !('tier' in object.metadata.labels)",
    "object.metadata.labels.exists(k, k.startsWith('app.kubernetes.io/'))",
    "object.metadata.labels.all(k, v, v == 'web')",
    'object.spec.template.spec.containers.all(c, !has(c.securityContext) || has(c.securityContext.privileged))',
    'object.spec.template.spec.containers.exists(c, has(c.securityContext) && c.securityContext.privileged == true)',
    "object.spec.template.spec.containers.filter(c, !has(c.resources)).map(c, c.name) == ['proxy']",
    "object.spec.template.spec.containers[0].?resources.?limits.?memory.optMap(m, quantity(m)).orValue(quantity('0')) == quantity('256Mi')",
    'object.spec.empty == [] && object.spec.none == {} && size(object.spec.none) == 0',
    'object.spec.empty.all(x, false) && !object.spec.empty.exists(x, true)',
    '[?object.?spec.?replicas, ?object.?spec.?nope] == [dyn(3)]',
    "object.spec.nope == 1 || object.kind == 'Deployment'",
    "object.kind == 'Pod' && object.spec.nope == 1 ? false : true",
    'optional.ofNonZeroValue(object.spec.paused).hasValue() == false',
    "object.metadata.namespace == 'shop' && object['metadata']['name'] == 'web'",
    'object.metadata == object.metadata && object.metadata != object.spec',
    "dyn('a') != 1 && dyn([1]) != {'a': 1}",
  ],
  'policies as they are written': [
    "object.spec.template.spec.containers.all(c, c.image.startsWith('registry.example/'))",
    "object.spec.template.spec.containers.all(c, c.image.contains('@sha256:') || !c.image.endsWith(':latest'))",
    "object.spec.template.spec.containers.all(c, c.image.matches('^[a-z.]+/[a-z]+(:[0-9.]+|@sha256:[0-9a-f]+)$'))",
    "object.spec.template.spec.containers.all(c, c.image.find('[^/]+$') != '')",
    "object.spec.template.spec.containers.map(c, c.image.split('/')[0]).all(h, h == 'registry.example')",
    "object.spec.template.spec.containers[0].env.exists(e, e.name == 'A' && e.?value.orValue('') == '1')",
    "quantity(object.spec.template.spec.containers[0].resources.limits.memory).isLessThan(quantity('1Gi'))",
    "quantity(object.spec.template.spec.containers[0].resources.limits.cpu).compareTo(quantity('0.5')) == 0",
    "semver(object.spec.template.spec.containers[0].image.split(':')[1]).isGreaterThan(semver('1.2.0'))",
    "object.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && object.metadata.name.size() <= 63",
    '!format.dns1123Label().validate(object.metadata.name).hasValue()',
    "object.spec.template.spec.containers.map(c, c.name).join(', ') == 'web, proxy'",
    'object.spec.template.spec.containers.map(c, c.name).all(n, object.spec.template.spec.containers.exists_one(c, c.name == n))',
    "object.spec.template.spec.containers.transformMap(i, c, c.name) == {0: 'web', 1: 'proxy'}",
    "object.spec.template.spec.containers.transformMapEntry(i, c, {c.name: i}) == {'web': 0, 'proxy': 1}",
    "object.metadata.labels.transformList(k, v, k + '=' + v).exists(p, p == 'app=web')",
    "url('https://' + object.metadata.name + '.example.com:8443/a?b=c').getPort() == '8443'",
    "cidr('10.0.0.0/8').containsIP('10.1.2.3') && !isIP(object.metadata.name)",
    "cel.bind(l, object.metadata.labels, l.app == l['app.kubernetes.io/name'])",
    "'%s has %d'.format([object.metadata.name, object.spec.replicas]) == 'web has 3'",
    "timestamp('2024-01-01T00:00:00Z') < timestamp('2024-01-02T00:00:00Z') && duration('1h') > duration('59m')",
  ],
  semver: [
    "isSemver('1.2.3-beta.1+build.1') && !isSemver('') && !isSemver('v1.0.0') && !isSemver(' 1.0.0') && !isSemver('1. 0.0')",
    "!isSemver('01.01.01') && !isSemver('1') && !isSemver('1.1') && !isSemver('1.0.0 ') && !isSemver('1.0.0-01') && !isSemver('1.0.0-')",
    "isSemver('v1.0.0', true) && isSemver('01.01.01', true) && isSemver('1', true) && isSemver('1.1', true)",
    "!isSemver('', true) && !isSemver(' 1.0.0', true) && !isSemver('1.0.0 ', true) && !isSemver('1.1-a', true)",
    "semver('v01.01', true) == semver('1.1.0') && semver('1.2.3') != semver('1.0.0') && semver('1.0.0+a') == semver('1.0.0+b')",
    "semver('1.0.0').isLessThan(semver('1.2.3')) && !semver('1.0.0').isLessThan(semver('1.0.0'))",
    "semver('1.2.3').compareTo(semver('1.2.3')) == 0 && semver('1.0.0').compareTo(semver('1.2.3')) == -1",
    "semver('1.2.3').major() == 1 && semver('1.2.3').minor() == 2 && semver('1.2.3').patch() == 3",
    // semver.org, item 11.
    "['1.0.0-alpha', '1.0.0-alpha.1', '1.0.0-alpha.beta', '1.0.0-beta', '1.0.0-beta.2', '1.0.0-beta.11', '1.0.0-rc.1', '1.0.0'].map(v, semver(v)).all(i, v, i == 0 || true) && semver('1.0.0-alpha').isLessThan(semver('1.0.0-alpha.1')) && semver('1.0.0-alpha.1').isLessThan(semver('1.0.0-alpha.beta'))",
    "semver('1.0.0-beta.2').isLessThan(semver('1.0.0-beta.11')) && semver('1.0.0-rc.1').isLessThan(semver('1.0.0')) && semver('1.0.0-beta').isLessThan(semver('1.0.0-beta.2'))",
    "jsonpatch.escapeKey('k8s.io/my~label') == 'k8s.io~1my~0label'",
  ],
  authorizer: [
    "authorizer.group('').resource('pods').namespace('default').check('get').allowed()",
    "!authorizer.group('apps').resource('deployments').subresource('scale').name('web').check('update').allowed()",
    "authorizer.path('/healthz').check('get').allowed() && authorizer.path('/healthz').check('get').reason() == 'by RBAC'",
    "!authorizer.serviceAccount('default', 'builder').group('').resource('secrets').check('get').allowed()",
    "authorizer.path('/x').check('break').errored() && authorizer.path('/x').check('break').error() == 'no answer'",
    "authorizer.group('').resource('pods').fieldSelector('spec.nodeName=a').labelSelector('app=b').check('get').allowed()",
    "!authorizer.path('/healthz').check('get').errored() && authorizer.path('/healthz').check('get').error() == ''",
  ],
  'texts that are made': [
    "'%s'.format([[2.71]]) == '[2.710000]' && '%s'.format([2.71]) == '2.71' && '%s'.format([0.000000002]) == '2e-09'",
    `'%s'.format([["abc", 3.14, null, [9, 8], timestamp("2023-02-03T23:31:20Z")]]) == '["abc", 3.140000, null, [9, 8], timestamp("2023-02-03T23:31:20Z")]'`,
    `'%s'.format([{"key1": b"xyz", "key5": null, "key2": duration("2h"), "key4": true, "key3": 2.71828}]) == '{"key1":b"xyz", "key2":duration("7200s"), "key3":2.718280, "key4":true, "key5":null}'`,
    `'%s'.format([{dyn(1): dyn("value1"), dyn(uint(2)): "value2", dyn(true): double("NaN")}]) == '{1:"value1", 2:"value2", true:"NaN"}'`,
    `'%s'.format([[double("NaN"), double("+Inf"), double("-Inf")]]) == '["NaN", "+Inf", "-Inf"]' && '%s'.format([double("Inf")]) == '+Inf'`,
    "'%.3f'.format([1.2345]) == '1.234' && '%f'.format([2.71828]) == '2.718280' && '%.2f'.format([1234567.891]) == '1,234,567.89'",
    "'%f'.format(['NaN']) == 'NaN' && '%f'.format(['Infinity']) == '∞' && '%f'.format(['-Infinity']) == '-∞'",
    "'%.6e'.format([1052.032911275]) == '1.052033\u202f×\u202f10⁰³' && '%e'.format([0.00271828]) == '2.718280\u202f×\u202f10⁻⁰³'",
    "'%b %o %x %X'.format([-5, 11, 30, 30]) == '-101 13 1e 1E' && '%x'.format(['Hello']) == '48656c6c6f' && '%X'.format([b'by']) == '6279'",
    "'%%%s%%'.format(['text']) == '%text%' && 'type is %s'.format([type('')]) == 'type is string'",
    "'%s'.format([object.spec.ports]) == '[80, 443]' && '%s'.format([object.metadata.labels.app]) == 'web'",
    `'%s'.format([object.spec.template.spec.containers[1]]) == '{"image":"registry.example/proxy@sha256:0123", "name":"proxy", "securityContext":{"privileged":true}}'`,
    "strings.quote('a\\nb\"') == '\"a\\\\nb\\\\\"\"' && '\\u0085 a\\u00a0'.trim() == 'a' && '\\ufeffa'.trim() == '\\ufeffa'",
  ],
};

for (const [name, expressions] of Object.entries(holds)) {
  suite(name, () => {
    for (const expression of expressions) {
      test(expression, () => {
        assert.equal(outcome(expression), true);
      });
    }
  });
}

suite('expressions that fail', () => {
  const fails: Readonly<Record<string, string>> = {
    'object.spec.nope == 1': '! no such key: nope',
    'oldObject.spec.replicas == 1': '! no such key: spec',
    'object.metadata.name.first == 1': '! no such key: first',
    'object.spec.ports[2] == 1': '! index out of bounds: 2',
    "object.spec.ports['a'] == 1": '! no such overload',
    'object.spec.replicas + 1.0 == 4.0': '! no such overload',
    "object.spec.replicas + 'a' == ''": '! no such overload',
    'object.metadata.name + 1 == 2': '! no such overload',
    'object.metadata.name > 1': '! no such overload',
    '!object.metadata.name': '! no such overload',
    'object.metadata.name ? true : false': '! no such overload',
    'object.metadata.name && true': '! no such overload',
    'object.spec.replicas.startsWith("a")': '! no such overload',
    'object.spec.replicas.all(x, true)': '! no such overload',
    'object.spec.replicas.contains("a")': '! no such overload',
    'object.spec.big * object.spec.big > 0': '! integer overflow',
    "quantity(object.metadata.name) == quantity('1')":
      "! quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    "semver('v1.0') == semver('1.0.0')": '! No Major.Minor.Patch elements found',
    "semver('1.a.0') == semver('1.0.0')": '! Invalid character(s) found in minor number "a"',
    "authorizer.path(' ') == authorizer.path('/')": '! path must not be empty',
    "authorizer.group('').resource('') == authorizer.group('').resource('a')": '! resource must not be empty',
    "authorizer.serviceAccount('not@a#valid!namespace', 'a') == authorizer":
      '! Invalid service account namespace',
    "authorizer.serviceAccount('a', 'invalid@*name') == authorizer": '! Invalid service account name',
    'object.spec.ports.transformMapEntry(i, v, {1: v}).size() == 1': '! insert failed: key 1 already exists',
    "'%d'.format([duration('30m2s')]) == ''":
      '! error during formatting: decimal clause can only be used on integers, was given google.protobuf.Duration',
    "'%d'.format([0.5]) == ''":
      '! error during formatting: decimal clause can only be used on integers, was given double',
    "'%f'.format([1]) == ''":
      '! error during formatting: fixed-point clause can only be used on doubles, was given int',
    "'%b'.format(['abc']) == ''":
      '! error during formatting: only integers and bools can be formatted as binary, was given string',
    "'%x'.format([null]) == ''":
      '! error during formatting: only integers, byte buffers, and strings can be formatted as hex, was given null_type',
    "'%a'.format([1]) == ''": '! could not parse formatting clause: unrecognized formatting clause "a"',
    "'a %'.format([]) == ''": '! unexpected end of string',
    "'%.34'.format([1.0]) == ''":
      '! could not parse formatting clause: error while parsing precision: could not find end of precision specifier',
    "'%s %s'.format(['a', 'b', 'c']) == ''":
      '! too many arguments supplied to string.format (expected 2, got 3)',
    // Expressions that do not compile.
    "object.metadata.name.matches('(a')":
      'ERROR: <input>:1:30: invalid matches argument: error parsing regexp: missing closing ): `(a`',
    "duration('1 day') == duration('1h')": 'ERROR: <input>:1:10: invalid duration argument',
    "timestamp('yesterday') > timestamp('2024-01-01T00:00:00Z')":
      'ERROR: <input>:1:11: invalid timestamp argument',
    "[1, 'a'] == ['%s'.format([[1, 'a']])]": "ERROR: <input>:1:5: expected type 'int' but found 'string'",
    'object.all(a.b, true)': 'ERROR: <input>:1:13: argument must be a simple name',
    'isSemver([1, 2, 3])':
      "ERROR: <input>:1:9: found no matching overload for 'isSemver' applied to '(list(int))'",
    "quantity('1').add('1') == quantity('2')":
      "ERROR: <input>:1:18: found no matching overload for 'add' applied to 'kubernetes.Quantity.(string)'",
  };
  for (const [expression, wanted] of Object.entries(fails)) {
    test(expression, () => {
      assert.equal(outcome(expression), wanted);
    });
  }
});

test('checks carry all that was asked', () => {
  checks.length = 0;
  outcome(
    "authorizer.serviceAccount('ci', 'builder').group('apps').resource('deployments').subresource('scale').namespace('shop').name('web').check('patch').allowed()",
  );
  assert.deepEqual(checks, [
    {
      user: {
        username: 'system:serviceaccount:ci:builder',
        groups: ['system:serviceaccounts', 'system:serviceaccounts:ci'],
      },
      verb: 'patch',
      group: 'apps',
      resource: 'deployments',
      subresource: 'scale',
      namespace: 'shop',
      name: 'web',
    },
  ]);
});

test('a regular expression that others take minutes for', () => {
  // By backtracking, each further character doubles the time; 28 take 20 s.
  assert.equal(outcome(`'${'a'.repeat(2_000)}!'.matches('^(a+)+$')`), false);
});
