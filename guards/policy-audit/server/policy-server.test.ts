import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, suite, test } from 'node:test';

import { deepTest, scaled } from '../../../lib/testing/depth.fixture.ts';
import { podNamed } from '../engine/requests.fixture.ts';
import { modulePath, refusing, review, ServerFixture } from './policy-server.fixture.ts';

/** Limits of time hold for the check of settings too, which has to succeed on a busy machine. */
const policies = {
  'clusterwide-root': refusing('root'),
  'namespaced-shop-root': refusing('root', { message: 'no roots in the shop' }),
  'clusterwide-watched': refusing('root', { policyMode: 'monitor' }),
  'clusterwide-labels': { module: modulePath('labels.wapc'), settings: { required: ['team'] } },
  'clusterwide-owner': { module: modulePath('owner.wapc'), allowedToMutate: true },
  'clusterwide-owner-not': { module: modulePath('owner.wapc') },
  'clusterwide-owner-watched': {
    module: modulePath('owner.wapc'),
    allowedToMutate: true,
    policyMode: 'monitor',
  },
  'clusterwide-unruly': {
    module: modulePath('unruly.wapc'),
    settings: { do: 'trap' },
    timeoutEvalSeconds: 1,
  },
  'clusterwide-spin': {
    module: modulePath('unruly.wasi'),
    settings: { do: 'spin' },
    timeoutEvalSeconds: 1,
  },
  'clusterwide-spin-watched': {
    module: modulePath('unruly.wapc'),
    settings: { do: 'spin' },
    timeoutEvalSeconds: 1,
    policyMode: 'monitor',
  },
  'clusterwide-gatekeeper': { module: modulePath('denied.gatekeeper'), settings: { denied: ['root'] } },
  'clusterwide-group-gatekeeper': {
    policies: { one: { module: modulePath('denied.gatekeeper'), settings: { denied: ['root'] } } },
    expression: 'one()',
    message: 'no',
  },
  'clusterwide-group-both': {
    policies: {
      root: refusing('root'),
      labels: { module: modulePath('labels.wapc'), settings: { required: ['team'] } },
    },
    expression: 'root() && labels()',
    message: 'the group refused it',
  },
};

suite('a policy server, by HTTPS', () => {
  let server: ServerFixture;
  before(
    async () => void (server = await ServerFixture.start(policies, { acceptedNamespace: 'kubewarden' })),
  );
  after(() => server[Symbol.asyncDispose]());

  test('allowed and refused requests, with the uid of the request', async () => {
    const allowed = await server.post('/validate/clusterwide-root', review());
    assert.deepEqual(allowed, {
      status: 200,
      body: {
        apiVersion: 'admission.k8s.io/v1',
        kind: 'AdmissionReview',
        response: { uid: '9a4b1c3e-0000-4000-8000-000000000001', allowed: true },
      },
    });
    const { body } = await server.post('/validate/clusterwide-root', review({}, 'root'));
    assert.equal(body.response?.allowed, false);
    assert.equal(body.response?.status?.message, 'root is denied');
  });

  test('a message of its own, with that of the policy as a cause; /audit has the one of the policy', async () => {
    const { body } = await server.post('/validate/namespaced-shop-root', review({}, 'root'));
    assert.equal(body.response?.status?.message, 'no roots in the shop');
    assert.deepEqual(body.response?.status?.details, { causes: [{ message: 'root is denied' }] });
    const audited = await server.post('/audit/namespaced-shop-root', review({}, 'root'));
    assert.equal(audited.body.response?.status?.message, 'root is denied');
  });

  test('a monitoring policy allows everything, and its audits have the verdict', async () => {
    const { body } = await server.post('/validate/clusterwide-watched', review({}, 'root'));
    assert.deepEqual(body.response, { uid: '9a4b1c3e-0000-4000-8000-000000000001', allowed: true });
    const audited = await server.post('/audit/clusterwide-watched', review({}, 'root'));
    assert.equal(audited.body.response?.allowed, false);
  });

  test('a policy of WebAssembly, with its code and its annotations', async () => {
    const { body } = await server.post('/validate/clusterwide-labels', review());
    assert.equal(body.response?.status?.message, 'label team is missing');
    assert.equal(body.response?.status?.code, 422);
    assert.deepEqual(body.response?.auditAnnotations, { missing: 'team' });
    const good = podNamed('web');
    const labelled = review({ object: { ...good, metadata: { name: 'web', labels: { team: 'a' } } } });
    const allowed = await server.post('/validate/clusterwide-labels', labelled);
    assert.deepEqual([allowed.body.response?.allowed, allowed.body.response?.warnings], [true, ['team']]);
  });

  test('a mutation is a JSON patch where it is allowed, a refusal where it is not, nothing where it monitors', async () => {
    const { body } = await server.post('/validate/clusterwide-owner', review());
    assert.equal(body.response?.patchType, 'JSONPatch');
    assert.deepEqual(JSON.parse(Buffer.from(body.response?.patch ?? '', 'base64').toString()), [
      { op: 'add', path: '/metadata/labels/owner', value: 'alice' },
    ]);
    const not = await server.post('/validate/clusterwide-owner-not', review());
    assert.equal(not.body.response?.allowed, false);
    assert.equal(not.body.response?.patch, undefined);
    assert.match(not.body.response?.status?.message ?? '', /configured to not allow mutations/);
    const watched = await server.post('/validate/clusterwide-owner-watched', review());
    assert.deepEqual(watched.body.response, { uid: '9a4b1c3e-0000-4000-8000-000000000001', allowed: true });
    const audited = await server.post('/audit/clusterwide-owner-not', review());
    assert.deepEqual([audited.body.response?.allowed, audited.body.response?.patchType], [true, 'JSONPatch']);
  });

  test('a group, with its causes', async () => {
    const { body } = await server.post('/validate/clusterwide-group-both', review());
    assert.equal(body.response?.status?.message, 'the group refused it');
    assert.deepEqual(body.response?.status?.details, {
      causes: [{ field: 'spec.policies.labels', message: 'label team is missing' }],
    });
  });

  test('a policy that traps or spins is refused with code 500, also beside others; monitored, it lets through', async () => {
    const [trapped, spun, watched, other] = await Promise.all([
      server.post('/validate/clusterwide-unruly', review()),
      server.post('/validate/clusterwide-spin', review()),
      server.post('/validate/clusterwide-spin-watched', review()),
      server.post('/validate/clusterwide-root', review()),
    ]);
    for (const { status, body } of [trapped, spun]) {
      assert.equal(status, 200);
      assert.equal(body.response?.allowed, false);
      assert.equal(body.response?.status?.code, 500);
      assert.match(body.response?.status?.message ?? '', /^internal server error: ./);
    }
    assert.equal(watched.body.response?.allowed, true);
    assert.equal(other.body.response?.allowed, true);
  });

  test('raw reviews are answered without a version', async () => {
    const { status, body } = await server.post('/validate_raw/clusterwide-root', {
      request: { uid: 'u', object: { metadata: { name: 'root' } } },
    });
    assert.equal(status, 200);
    assert.deepEqual(Object.keys(body), ['response']);
    assert.equal(body.response?.allowed, false);
  });

  test('the namespace of the server itself is let through', async () => {
    const own = review({ namespace: 'kubewarden' }, 'root');
    assert.equal((await server.post('/validate/clusterwide-root', own)).body.response?.allowed, true);
  });

  const wrong: readonly (readonly [string, string, object | string, number])[] = [
    ['an unknown policy', '/validate/clusterwide-none', review(), 404],
    ['an unknown policy, audited', '/audit/clusterwide-none', review(), 404],
    ['an unknown path', '/evaluate/clusterwide-root', review(), 404],
    ['a path behind a policy', '/validate/clusterwide-root/x', review(), 404],
    ['an ID that cannot be decoded', '/validate/%ff', review(), 404],
    ['an empty object', '/validate/clusterwide-root', {}, 422],
    ['an empty raw object', '/validate_raw/clusterwide-root', {}, 422],
    ['a request that is a list', '/audit/clusterwide-root', { request: [] }, 422],
    [
      'a request without a kind',
      '/validate/clusterwide-root',
      { request: { uid: 'u', operation: 'CREATE' } },
      422,
    ],
    ['another operation', '/validate/clusterwide-root', review({ operation: 'PATCH' as 'CREATE' }), 422],
    [
      'an object that is none',
      '/validate/clusterwide-root',
      review({ object: [] as unknown as object as Record<string, unknown> }),
      422,
    ],
    ['no JSON', '/validate/clusterwide-root', '{"request":', 400],
    ['too much', '/validate/clusterwide-root', JSON.stringify({ x: 'x'.repeat(17 << 20) }), 413],
  ];
  for (const [what, path, body, status] of wrong) {
    test(`${what} is answered with ${status}`, async () => {
      // A body that is too large is not read to its end: the connection may be closed while it is still being
      // sent.
      const answer = await server.post(path, body).catch((error: NodeJS.ErrnoException) => error);
      if (answer instanceof Error)
        assert.deepEqual([status, /EPIPE|ECONNRESET/.test(String(answer.code))], [413, true]);
      else assert.equal(answer.status, status);
    });
  }

  test('Gatekeeper answers no raw request, as upstream', async () => {
    const request = { uid: 'u', object: { metadata: { name: 'web' } } };
    for (const [name, message] of [
      ['gatekeeper', 'internal server error: Gatekeeper does not support raw validation requests'],
      ['group-gatekeeper', /the group has no verdict: .*Gatekeeper does not support raw validation requests/],
    ] as const) {
      const { status, body } = await server.post(`/validate_raw/clusterwide-${name}`, { request });
      assert.deepEqual([status, body.response?.allowed, body.response?.status?.code], [200, false, 500]);
      assert.match(body.response?.status?.message ?? '', new RegExp(message));
      const asReview = await server.post(`/validate/clusterwide-${name}`, review());
      assert.equal(asReview.body.response?.allowed, true);
    }
  });

  test('readiness, with and without TLS; nothing else without', async () => {
    assert.equal((await server.ask('GET', '/readiness')).status, 200);
    assert.equal((await fetch(server.readinessUrl)).status, 200);
    const other = await fetch(server.readinessUrl.replace('readiness', 'validate/clusterwide-root'), {
      method: 'POST',
    });
    assert.equal(other.status, 404);
    assert.equal((await server.ask('GET', '/validate/clusterwide-root')).status, 405);
  });

  test('metrics, as upstream names them', async () => {
    await server.post('/validate/clusterwide-watched', review({}, 'root'));
    const line = server.metrics.registry
      .metrics()
      .split('\n')
      .find((each) =>
        each.startsWith('kubewarden_policy_evaluations_total{policy_name="clusterwide-watched"'),
      );
    for (const label of [
      'policy_mode="monitor"',
      'resource_kind="Pod"',
      'resource_namespace="shop"',
      'resource_request_operation="CREATE"',
      'accepted="false"',
      'mutated="false"',
      'request_origin="validate"',
    ]) {
      assert.ok(line?.includes(label), `${label} in ${line}`);
    }
    assert.match(
      server.metrics.registry.metrics(),
      /kubewarden_policy_evaluation_latency_milliseconds_bucket\{policy_name="clusterwide-root".*le="\+Inf"\} \d/,
    );
  });

  deepTest('bodies that do not end are refused beyond their bytes, and others are answered', async () => {
    const { connect } = await import('node:tls');
    const { host, port } = server.address;
    const head = 'POST /validate/clusterwide-root HTTP/1.1\r\nHost: x\r\nContent-Length: 16000000\r\n\r\n';
    const sockets = Array.from({ length: 16 }, () => connect({ host, port, rejectUnauthorized: false }));
    try {
      const answers = sockets.map(async (socket) => {
        socket.on('error', () => undefined).write(head + ' '.repeat(3 << 20));
        const [chunk] = (await once(socket, 'data')) as [Buffer];
        return chunk.toString();
      });
      // 48 MiB, of which 32 MiB have room.
      for (const answer of await Promise.all(answers.slice(0, 5))) {
        assert.match(answer, /^HTTP\/1\.1 503 [^]*\r\nretry-after: 1\r\n/i);
      }
      assert.equal((await server.post('/validate/clusterwide-root', review())).status, 200);
    } finally {
      for (const socket of sockets) socket.destroy();
    }
  });

  test('whoever goes away in the middle leaves nothing behind', async () => {
    const { connect } = await import('node:tls');
    const { host, port } = server.address;
    for (let index = 0; index < scaled(50); index++) {
      const socket = connect({ host, port, rejectUnauthorized: false });
      await once(socket, 'secureConnect');
      socket.write(
        'POST /validate/clusterwide-root HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"request"',
      );
      socket.destroy();
    }
    assert.equal((await server.post('/validate/clusterwide-root', review())).status, 200);
  });

  test('a namespaced policy may not use a file', async () => {
    const module = modulePath('denied.wapc');
    const served = {
      'namespaced-shop-a': { module, settings: { denied: ['root'] } },
      'namespaced-group-shop-b': { expression: 'a()', message: 'no', policies: { a: { module } } },
    };
    await using own = await ServerFixture.start(served, { continueOnErrors: true });
    for (const id of Object.keys(served)) {
      const { body } = await own.post(`/validate/${id}`, review());
      assert.match(body.response?.status?.message ?? '', /namespaced policies may not read files/);
    }
  });
});
