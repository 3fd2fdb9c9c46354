import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { EvaluationError, type HostCalls, type JsonObject } from '../evaluator.ts';
import { podNamed, requestFor } from '../requests.fixture.ts';
import { clusterOf, type ClusterReader } from './cluster.ts';
import { evaluate, kubernetes, validations } from './evaluate.fixture.ts';
import { openCelEvaluator } from './open.ts';

suite('requests of expressions to the cluster', () => {
  const objects: Readonly<Record<string, JsonObject>> = {
    'Namespace//shop': { metadata: { name: 'shop', labels: { team: 'a' } } },
    'ConfigMap/shop/limits': { data: { most: '3' } },
  };
  const limitMaps = [{ data: { most: '3' } }, { data: { most: '0' } }];
  /** Answers at once, or later. */
  const cluster = (wait: <T>(value: T) => T | Promise<T>): ClusterReader => ({
    get: ({ kind, namespace = '', name }) => wait(objects[`${kind}/${namespace}/${name}`]),
    list: () => wait({ items: limitMaps }),
  });
  const paramKind = { apiVersion: 'v1', kind: 'ConfigMap' };
  const ref = (more: JsonObject): JsonObject => ({ parameterNotFoundAction: 'Deny', ...more });

  for (const [how, wait] of [
    ['at once', <T>(value: T): T => value],
    ['later', <T>(value: T): Promise<T> => Promise.resolve(value)],
  ] as const) {
    for (const dialect of ['cel-policy', 'validating-admission-policy'] as const) {
      test(`the namespace of the object (${how}, ${dialect})`, async () => {
        const settings = validations("namespaceObject.metadata.labels.team == 'a'");
        const verdict = await evaluate(settings, undefined, { dialect, cluster: cluster(wait) });
        assert.deepEqual(verdict, {
          allowed: true,
          asked: [{ apiVersion: 'v1', kind: 'Namespace', name: 'shop' }],
        });
      });
    }

    test(`parameters by name (${how})`, async () => {
      const settings = {
        ...validations('size(object.spec.containers) < int(params.data.most)'),
        paramKind,
        paramRef: ref({ name: 'limits' }),
      };
      const { allowed, asked } = await evaluate(settings, undefined, { cluster: cluster(wait) });
      assert.equal(allowed, true);
      assert.deepEqual(asked, [{ apiVersion: 'v1', kind: 'ConfigMap', namespace: 'shop', name: 'limits' }]);
    });

    test(`each of the parameters that a selector finds (${how})`, async () => {
      const settings = {
        validations: [
          {
            expression: 'size(object.spec.containers) <= int(params.data.most)',
            messageExpression: "'at most ' + params.data.most",
          },
        ],
        paramKind,
        paramRef: ref({ selector: { matchLabels: { for: 'pods' } } }),
      };
      const { message } = await evaluate(settings, undefined, { cluster: cluster(wait) });
      assert.equal(message, 'at most 0');
    });
  }

  test('parameters that are not there', async () => {
    const settings = (action: string): JsonObject => ({
      ...validations('false'),
      paramKind,
      paramRef: ref({ name: 'nothing', parameterNotFoundAction: action }),
    });
    const options = { cluster: cluster((value) => value) };
    assert.equal((await evaluate(settings('Allow'), undefined, options)).allowed, true);
    const denied = await evaluate(settings('Deny'), undefined, options);
    assert.deepEqual(
      [denied.allowed, denied.code, denied.message],
      [false, 400, 'failed to get params for performing policy evaluation: no parameters found'],
    );
  });

  test('other objects, by kw.k8s', async () => {
    const limits = "kw.k8s.apiVersion('v1').kind('ConfigMap')";
    const variables = [{ name: 'limits', expression: `${limits}.namespace('shop').get('limits').data` }];
    const settings = {
      variables,
      ...validations(
        "variables.limits.most == '3' && variables.limits == {'most': '3'}",
        `${limits}.labelSelector('for=pods').list().items.size() == 2`,
      ),
    };
    const later = { cluster: cluster((value) => Promise.resolve(value)) };
    assert.deepEqual(await evaluate(settings, undefined, later), {
      allowed: true,
      asked: [
        { apiVersion: 'v1', kind: 'ConfigMap', name: 'limits', namespace: 'shop' },
        { apiVersion: 'v1', kind: 'ConfigMap' },
      ],
    });
    await assert.rejects(evaluate(settings), /the policy has no access to the cluster/);
    await assert.rejects(
      evaluate(validations(`${limits}.namespace('shop').get('nothing') == null`), undefined, later),
      /cannot get Kubernetes resource: there is no ConfigMap nothing in namespace shop/,
    );
  });

  test('the namespace of the object, without a cluster', async () => {
    await assert.rejects(
      evaluate(validations('namespaceObject != null')),
      (error) => error instanceof EvaluationError && error.why === 'expression',
    );
  });

  test('a policy that asks without end is stopped', async () => {
    const settings = {
      variables: [
        { name: 'l', expression: JSON.stringify(Array.from({ length: 300 }, (_, index) => index)) },
      ],
      ...validations(
        "variables.l.all(n, kw.k8s.apiVersion('v1').kind('ConfigMap').namespace(string(n)).list().items.size() > 0)",
      ),
    };
    await assert.rejects(
      evaluate(settings, undefined, { cluster: cluster((value) => value) }),
      /the policy makes more than 256 requests to the cluster/,
    );
  });

  test('whether the user may do something', async () => {
    const settings = validations(
      "authorizer.group('').resource('secrets').namespace(request.namespace).check('get').allowed()",
      "authorizer.requestResource.check('create').allowed()",
      "authorizer.serviceAccount('shop', 'web').path('/metrics').check('get').errored()",
    );
    const seen: string[] = [];
    const { allowed } = await evaluate(settings, undefined, {
      ...kubernetes,
      access: async ({ user, verb, resource, path, namespace, name }) => {
        seen.push([user.username, verb, path ?? `${namespace}/${resource}/${name ?? ''}`].join(' '));
        if (path !== undefined) throw new Error('no answer');
        return { allowed: true };
      },
    });
    assert.equal(allowed, true);
    assert.deepEqual(seen, [
      'alice get shop/secrets/',
      'alice create shop/pods/web',
      'system:serviceaccount:shop:web get /metrics',
    ]);
    const { message } = await evaluate(settings, undefined, kubernetes);
    assert.match(message ?? '', /^failed expression: authorizer\.group/);
  });

  test('a cluster that does not answer ends with the deadline', async () => {
    const silent: ClusterReader = { get: () => new Promise(() => {}), list: () => ({ items: [] }) };
    await using policy = openCelEvaluator(validations('namespaceObject != null'), { cluster: silent });
    await assert.rejects(
      policy.evaluate(requestFor(podNamed('web')), { deadlineMs: 20 }),
      (error) => error instanceof EvaluationError && error.why === 'deadline',
    );
  });
});

test('host calls are asked as the SDKs of policies ask', async () => {
  const calls: unknown[] = [];
  const hostCalls: HostCalls = {
    call: async ({ binding, namespace, operation }, payload) => {
      calls.push([`${binding} ${namespace} ${operation}`, JSON.parse(Buffer.from(payload).toString())]);
      if (operation === 'get_resource') return Buffer.from('{"metadata":{"labels":{"team":"a"}}}');
      throw new Error('not granted');
    },
  };
  const options = { cluster: clusterOf(hostCalls) };
  const namespace = validations("namespaceObject.metadata.labels.team == 'a'");
  assert.equal((await evaluate(namespace, undefined, options)).allowed, true);
  const list = "kw.k8s.apiVersion('v1').kind('Pod').namespace('a').fieldSelector('b=c').list().items == []";
  await assert.rejects(evaluate(validations(list), undefined, options), /not granted/);
  assert.deepEqual(calls, [
    [
      'kubewarden kubernetes get_resource',
      { api_version: 'v1', kind: 'Namespace', name: 'shop', disable_cache: false },
    ],
    [
      'kubewarden kubernetes list_resources_by_namespace',
      { api_version: 'v1', kind: 'Pod', namespace: 'a', field_selector: 'b=c' },
    ],
  ]);
});
