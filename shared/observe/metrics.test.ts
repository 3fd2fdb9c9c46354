import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { connect } from 'node:net';
import { suite, test } from 'node:test';

import { createMetrics, serveMetrics } from './metrics.ts';

suite('createMetrics', () => {
  test('counters and gauges are read at each scrape, with their labels', async () => {
    const { registry, counter, gauge } = await createMetrics();
    let records = 10n;
    counter({ name: 'rampart_sensor_records_total', help: 'Records.' }, () => records);
    const lost = new Map([
      ['full', 2],
      ['busy', 0],
    ]);
    counter({ name: 'rampart_sensor_lost_total', help: 'Lost.', labelNames: ['reason'] }, () =>
      Array.from(lost, ([reason, value]) => ({ labels: { reason }, value })),
    );
    gauge({ name: 'rampart_sensor_targets', help: 'Targets.' }, () => 7);

    const first = await registry.metrics();
    assert.match(first, /^# TYPE rampart_sensor_records_total counter$/m);
    assert.match(first, /^rampart_sensor_records_total 10$/m);
    assert.match(first, /^rampart_sensor_lost_total\{reason="full"\} 2$/m);
    assert.match(first, /^rampart_sensor_lost_total\{reason="busy"\} 0$/m);
    assert.match(first, /^# TYPE rampart_sensor_targets gauge\nrampart_sensor_targets 7$/m);

    records = 12n;
    lost.delete('busy');
    const second = await registry.metrics();
    assert.match(second, /^rampart_sensor_records_total 12$/m);
    assert.doesNotMatch(second, /busy/);
  });

  test('two registries do not know of each other', async () => {
    const [a, b] = [await createMetrics(), await createMetrics()];
    for (const metrics of [a, b]) metrics.gauge({ name: 'rampart_x', help: 'x' }, () => 1);
    assert.equal((await a.registry.getMetricsAsJSON()).length, 1);
  });

  test('a name outside the style is refused', async () => {
    const metrics = await createMetrics();
    for (const name of ['records_total', 'rampart_records', 'rampart_Records_total', 'rampart__x_total']) {
      assert.throws(() => metrics.counter({ name, help: '' }, () => 0), { code: 'RAMPART_INPUT' });
    }
    assert.throws(() => metrics.gauge({ name: 'rampart_x_total', help: '' }, () => 0), {
      code: 'RAMPART_INPUT',
    });
  });

  test('importing the file loads neither prom-client nor an HTTP server', () => {
    const program = `
      await import(${JSON.stringify(import.meta.resolve('./metrics.ts'))});
      const { createRequire } = await import('node:module');
      const loaded = Object.keys(createRequire(${JSON.stringify(import.meta.filename)}).cache);
      console.log(loaded.length, process.moduleLoadList.includes('NativeModule http'));`;
    const args = ['--input-type=module-typescript', '--no-warnings', '-e', program];
    assert.equal(spawnSync(process.execPath, args, { encoding: 'utf8' }).stdout, '0 false\n');
  });
});

suite('serveMetrics', { timeout: 60_000 }, () => {
  test('/metrics, /healthz, and nothing else; GET and HEAD, and nothing else', async () => {
    const { registry, counter } = await createMetrics();
    counter({ name: 'rampart_x_total', help: 'x' }, () => 5);
    await using server = await serveMetrics({ registry, address: 0 });
    assert.equal(server.host, '127.0.0.1');

    const metrics = await fetch(`${server.url}/metrics?format=text`);
    assert.equal(metrics.status, 200);
    assert.match(metrics.headers.get('content-type') ?? '', /^text\/plain; version=0\.0\.4/);
    const body = await metrics.text();
    assert.match(body, /^rampart_x_total 5$/m);

    const head = await fetch(`${server.url}/metrics`, { method: 'HEAD' });
    assert.equal(head.status, 200);
    assert.equal(head.headers.get('content-length'), String(Buffer.byteLength(body)));
    assert.equal(await head.text(), '');

    const healthz = await fetch(`${server.url}/healthz`);
    assert.deepEqual([healthz.status, await healthz.text()], [200, 'ok\n']);
    for (const path of ['/', '/metrics/', '/metrics/../etc/passwd', '/healthz2']) {
      assert.equal((await fetch(server.url + path)).status, 404, path);
    }
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS']) {
      const refused = await fetch(`${server.url}/metrics`, { method });
      assert.deepEqual([refused.status, refused.headers.get('allow')], [405, 'GET, HEAD'], method);
    }
  });

  test('not well is a 503 with the reason; a reading that throws is a 500 with the reason, and no end', async () => {
    const { registry, gauge } = await createMetrics();
    let broken = true;
    gauge({ name: 'rampart_x', help: 'x' }, () => {
      if (broken) throw new Error('map is gone');
      return 1;
    });
    let reason: string | undefined = 'no sensor';
    await using server = await serveMetrics({ registry, address: '127.0.0.1:0', health: () => reason });
    const healthz = await fetch(`${server.url}/healthz`);
    assert.deepEqual([healthz.status, await healthz.text()], [503, 'no sensor\n']);
    const metrics = await fetch(`${server.url}/metrics`);
    assert.deepEqual([metrics.status, await metrics.text()], [500, 'map is gone\n']);
    reason = undefined;
    broken = false;
    assert.equal((await fetch(`${server.url}/healthz`)).status, 200);
    assert.equal((await fetch(`${server.url}/metrics`)).status, 200);
  });

  test('disposing or the signal closes it, open connections too', async () => {
    const { registry } = await createMetrics();
    const stop = new AbortController();
    for (const end of ['dispose', 'signal'] as const) {
      const server = await serveMetrics({ registry, address: 0, signal: stop.signal });
      const idle = connect(server.port, server.host);
      const closed = new Promise((resolve) => idle.once('close', resolve));
      idle.on('error', () => undefined);
      await new Promise((resolve) => idle.once('connect', resolve));
      // A request over it, so that the server is known to have taken the connection.
      idle.write('GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n');
      await new Promise((resolve) => idle.once('data', resolve));
      if (end === 'dispose') await server[Symbol.asyncDispose]();
      else stop.abort();
      await closed;
      await assert.rejects(fetch(`${server.url}/healthz`));
      await server[Symbol.asyncDispose]();
    }
    await assert.rejects(serveMetrics({ registry, address: 0, signal: stop.signal }), { name: 'AbortError' });
  });

  test('addresses: a port is loopback, others are said in full, a taken one is an error that names it', async () => {
    const { registry } = await createMetrics();
    for (const address of [
      '',
      ':9090',
      'localhost',
      '1.2.3.4:',
      '1.2.3.4:70000',
      '::1:80',
      '[::1]',
      'a b:1',
      -1,
      1.5,
      'http://x:1',
    ]) {
      await assert.rejects(serveMetrics({ registry, address }), { code: 'RAMPART_INPUT' }, String(address));
    }
    await using all = await serveMetrics({ registry, address: '0.0.0.0:0' });
    assert.equal(all.host, '0.0.0.0');
    await using first = await serveMetrics({ registry, address: '0' });
    assert.equal(first.host, '127.0.0.1');
    await assert.rejects(
      serveMetrics({ registry, address: first.port }),
      (error: Error & { code?: string }) => {
        assert.equal(error.code, 'RAMPART_SYSTEM');
        assert.match(error.message, new RegExp(`127\\.0\\.0\\.1:${first.port}: .*EADDRINUSE`));
        return true;
      },
    );
  });
});
