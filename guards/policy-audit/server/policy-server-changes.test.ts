import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { scaled } from '../../../lib/testing/depth.fixture.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { digestOf } from '../../../lib/oci/digest.ts';
import { ManualClock } from '../../../lib/time/clock.fixture.ts';
import { readCertificates } from '../../../lib/net/certificate-files.ts';
import { modulePath, refusing, review, ServerFixture } from './policy-server.fixture.ts';

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
