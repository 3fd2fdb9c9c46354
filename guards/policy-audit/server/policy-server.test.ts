import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { deepTest, scaled } from '../../../lib/testing/depth.fixture.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { digestOf } from '../../../lib/oci/digest.ts';
import { ManualClock } from '../../../lib/time/clock.fixture.ts';
import { podNamed } from '../engine/requests.fixture.ts';
import { readCertificates } from '../../../lib/net/certificate-files.ts';
import { modulePath, review, ServerFixture } from './policy-server.fixture.ts';

const refusing = (name: string, more: object = {}): object => ({
  module: 'registry://registry.example/policies/cel-policy:v1',
  settings: {
    validations: [{ expression: `object.metadata.name != '${name}'`, message: `${name} is denied` }],
  },
  ...more,
});

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
});

suite('changes while a policy server runs', () => {
  test('no request sees neither the old nor the new policies', async () => {
    const version = (number: number): object => ({
      a: refusing('root', { message: `version ${number}` }),
      [`only-${number}`]: refusing('x'),
    });
    await using server = await ServerFixture.start(version(0));
    const over = new AbortController();
    const seen = new Set<string>();
    const asking = Promise.all(
      Array.from({ length: 4 }, async () => {
        while (!over.signal.aborted) {
          const { status, body } = await server.post('/validate/a', review({}, 'root'));
          assert.equal(status, 200, JSON.stringify(body));
          seen.add(body.response?.status?.message ?? '');
        }
      }),
    );
    const versions = scaled(20, 3);
    // The next must not come before the first request was answered.
    await until('version 0', () => seen.has('version 0'));
    for (let number = 1; number <= versions; number++) {
      server.writePolicies(version(number));
      await until(`version ${number}`, () => seen.has(`version ${number}`));
      assert.equal((await server.post(`/validate/only-${number - 1}`, review())).status, 404);
      assert.equal((await server.post(`/validate/only-${number}`, review())).status, 200);
    }
    over.abort();
    await asking;
    assert.deepEqual(
      [...seen].toSorted(),
      Array.from({ length: versions + 1 }, (_, at) => `version ${at}`).toSorted(),
    );
  });

  test('a request that is under way is answered by what was there when it came', async () => {
    const slow = { module: modulePath('unruly.wapc'), settings: { do: 'spin' }, timeoutEvalSeconds: 1 };
    await using server = await ServerFixture.start({ slow });
    // With a connection that is there already: the one after needs its own, and so comes later.
    await server.post('/validate/none', review());
    const first = server.post('/validate/slow', review());
    await server.post('/validate/none', review());
    server.writePolicies({ slow: refusing('root') });
    await until(async () => {
      const { body } = await server.post('/validate/slow', review({}, 'root'));
      return body.response?.status?.message === 'root is denied';
    });
    const { body } = await first;
    assert.equal(body.response?.status?.code, 500);
    assert.match(body.response?.status?.message ?? '', /internal server error/);
  });

  test('policies that cannot be served are not taken, and those before stay', async () => {
    await using server = await ServerFixture.start({ a: refusing('root') });
    for (const broken of [
      'a: [',
      'a: {module: 1}',
      { a: { module: modulePath('none.wapc') } },
      { a: { module: modulePath('labels.wapc'), settings: {} }, b: refusing('x') },
    ]) {
      server.writePolicies(broken);
      server.writePolicies(broken);
      const { body } = await server.post('/validate/a', review({}, 'root'));
      assert.equal(body.response?.status?.message, 'root is denied');
    }
    server.writePolicies({ b: refusing('root') });
    await until(async () => (await server.post('/validate/b', review())).status === 200);
    assert.equal((await server.post('/validate/a', review())).status, 404);
  });

  test('a policy that cannot be served ends the start, or refuses every request with continue-on-errors', async () => {
    const broken = {
      good: refusing('root'),
      settings: { module: modulePath('labels.wapc'), settings: {} },
      missing: { module: modulePath('none.wapc') },
    };
    await assert.rejects(ServerFixture.start(broken), (error: unknown) => {
      assert.ok(error instanceof RampartError);
      assert.equal(error.code, errorCodes.INPUT);
      assert.match(error.message, /policy (settings|missing): .*--continue-on-errors/s);
      return true;
    });
    await using server = await ServerFixture.start(broken, { continueOnErrors: true });
    assert.equal((await server.post('/validate/good', review())).body.response?.allowed, true);
    const { body } = await server.post('/validate/settings', review());
    assert.deepEqual(body.response?.status, {
      message: 'Policy settings are invalid: settings need a list named required',
      code: 500,
    });
    assert.match(
      (await server.post('/validate/missing', review())).body.response?.status?.message ?? '',
      /none\.wapc/,
    );
    assert.match(server.metrics.registry.metrics(), /policy_name="settings",initialization_error="true"\} 1/);
  });

  test('the previous version of a policy that cannot run is served, with continue-on-errors', async () => {
    await using server = await ServerFixture.start({ a: refusing('root') }, { continueOnErrors: true });
    server.writePolicies({ a: { module: modulePath('none.wapc') }, b: refusing('x') });
    await until(async () => (await server.post('/validate/b', review())).status === 200);
    const { body } = await server.post('/validate/a', review({}, 'root'));
    assert.equal(body.response?.status?.message, 'root is denied');
  });

  test('a namespaced policy may not use a file', async () => {
    const module = modulePath('denied.wapc');
    const served = {
      'namespaced-shop-a': { module, settings: { denied: ['root'] } },
      'namespaced-group-shop-b': { expression: 'a()', message: 'no', policies: { a: { module } } },
    };
    await using server = await ServerFixture.start(served, { continueOnErrors: true });
    for (const id of Object.keys(served)) {
      const { body } = await server.post(`/validate/${id}`, review());
      assert.match(body.response?.status?.message ?? '', /namespaced policies may not read files/);
    }
  });

  test('a certificate that is replaced is the one of new connections; half of one is waited out', async () => {
    await using server = await ServerFixture.start({ a: refusing('root') });
    const old = await server.serial();
    server.writeCertificate('127.0.0.1', 'localhost');
    const next = await until(async () => {
      const serial = await server.serial();
      return serial !== old && serial;
    });
    const [certFile, keyFile] = [join(server.directory, 'tls.crt'), join(server.directory, 'tls.key')];
    for (const [file, half] of [
      [certFile, '-----BEGIN CERTIFICATE-----\n'],
      [certFile, ''],
      [keyFile, ''],
    ] as const) {
      writeFileSync(file, half);
      await assert.rejects(
        readCertificates({ of: 'the policy server', certFile, keyFile, clientCaFiles: [] }),
        {
          code: errorCodes.INPUT,
        },
      );
      for (let index = 0; index < 5; index++) assert.equal(await server.serial(), next);
    }
    server.writeCertificate('127.0.0.1');
    await until(async () => (await server.serial()) !== next);
  });

  test('while a registry is away it is not ready, and answers for its other policies', async () => {
    let isAway = true;
    const served = {
      near: refusing('root'),
      far: { module: 'registry://away.example/labels:v1', settings: { required: ['app'] } },
    };
    await using server = await ServerFixture.start(served, {
      continueOnErrors: true,
      modules: {
        fetch: async () => {
          if (isAway) throw new RampartError(errorCodes.API_UNREACHABLE, { what: 'the registry is away' });
          const bytes = readFileSync(fileURLToPath(modulePath('labels.wapc')));
          return { bytes, digest: digestOf(bytes) };
        },
      },
    });
    const unready = await fetch(server.readinessUrl);
    assert.equal(unready.status, 503);
    assert.match(await unready.text(), /out of reach: far/);
    assert.equal((await server.post('/validate/near', review())).body.response?.allowed, true);
    isAway = false;
    server.writePolicies({ ...served, other: refusing('x') });
    await until(async () => (await fetch(server.readinessUrl)).status === 200);
  });

  test('while it ends, it is not ready, and answers until its clients have gone elsewhere', async () => {
    const clock = new ManualClock();
    await using server = await ServerFixture.start({ a: refusing('root') }, { clock, lingerMs: 5000 });
    const ended = server.stop();
    assert.equal((await fetch(server.readinessUrl)).status, 503);
    for (let index = 0; index < 2; index++)
      assert.equal((await server.post('/validate/a', review())).body.response?.allowed, true);
    await clock.advance(5000);
    await ended;
    await assert.rejects(server.post('/validate/a', review()), /ECONNREFUSED|ECONNRESET|hang up/);
  });

  test('it ends on request, after answering pending reviews', async () => {
    await using server = await ServerFixture.start({
      slow: { module: modulePath('unruly.wapc'), settings: { do: 'spin' }, timeoutEvalSeconds: 1 },
    });
    await server.post('/validate/none', review());
    const last = server.post('/validate/slow', review());
    await server.post('/validate/none', review());
    await server.stop();
    assert.equal((await last).body.response?.status?.code, 500);
    await assert.rejects(server.post('/validate/slow', review()), /ECONNREFUSED|ECONNRESET|hang up/);
  });
});
