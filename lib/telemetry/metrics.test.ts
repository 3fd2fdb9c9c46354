import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { suite, test } from 'node:test';

import { Health } from './health.ts';
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

    const first = registry.metrics();
    assert.match(first, /^# TYPE rampart_sensor_records_total counter$/m);
    assert.match(first, /^rampart_sensor_records_total 10$/m);
    assert.match(first, /^rampart_sensor_lost_total\{reason="full"\} 2$/m);
    assert.match(first, /^rampart_sensor_lost_total\{reason="busy"\} 0$/m);
    assert.match(first, /^# TYPE rampart_sensor_targets gauge\nrampart_sensor_targets 7$/m);

    records = 12n;
    lost.delete('busy');
    const second = registry.metrics();
    assert.match(second, /^rampart_sensor_records_total 12$/m);
    assert.doesNotMatch(second, /busy/);
  });

  test('a histogram is what Prometheus reads as one', async () => {
    const { registry, histogram } = await createMetrics();
    const reading = { bounds: [0.01, 0.5], counts: [3, 0, 2], sum: 7.25 };
    histogram({ name: 'rampart_x_seconds', help: 'How long.' }, () => reading);
    const text = (): string => registry.metrics();
    assert.equal(
      text(),
      '# HELP rampart_x_seconds How long.\n# TYPE rampart_x_seconds histogram\n' +
        'rampart_x_seconds_bucket{le="0.01"} 3\nrampart_x_seconds_bucket{le="0.5"} 3\n' +
        'rampart_x_seconds_bucket{le="+Inf"} 5\nrampart_x_seconds_sum 7.25\nrampart_x_seconds_count 5\n',
    );
    reading.counts[1] = 1;
    assert.match(text(), /le="0.5"} 4\n.*le="\+Inf"} 6\n/);
    assert.throws(() => histogram({ name: 'rampart_x_seconds', help: '' }, () => reading));
    assert.throws(() => histogram({ name: 'rampart_x_total', help: '' }, () => reading), {
      code: 'RAMPART_INPUT',
    });
  });

  test('a histogram with labels is one metric, with a bucket for each set of them', async () => {
    const { registry, histogram } = await createMetrics();
    const definition = { name: 'rampart_x_seconds', help: 'How long.', labelNames: ['verb'] };
    histogram(definition, () => [
      { labels: { verb: 'get' }, bounds: [1], counts: [1, 1], sum: 3 },
      { labels: { verb: 'list' }, bounds: [1], counts: [0, 0], sum: 0 },
    ]);
    assert.equal(
      registry.metrics(),
      '# HELP rampart_x_seconds How long.\n# TYPE rampart_x_seconds histogram\n' +
        'rampart_x_seconds_bucket{verb="get",le="1"} 1\nrampart_x_seconds_bucket{verb="get",le="+Inf"} 2\n' +
        'rampart_x_seconds_sum{verb="get"} 3\nrampart_x_seconds_count{verb="get"} 2\n' +
        'rampart_x_seconds_bucket{verb="list",le="1"} 0\nrampart_x_seconds_bucket{verb="list",le="+Inf"} 0\n' +
        'rampart_x_seconds_sum{verb="list"} 0\nrampart_x_seconds_count{verb="list"} 0\n',
    );
  });

  test('two registries do not know of each other', async () => {
    const [a, b] = [await createMetrics(), await createMetrics()];
    for (const metrics of [a, b]) metrics.gauge({ name: 'rampart_x', help: 'x' }, () => 1);
    assert.equal(a.registry.metrics(), '# HELP rampart_x x\n# TYPE rampart_x gauge\nrampart_x 1\n');
  });

  test('a name outside the style is refused', async () => {
    const metrics = await createMetrics();
    for (const name of [
      'records_total',
      'records',
      'rampart_records',
      'rampart_Records_total',
      'rampart__x_total',
    ]) {
      assert.throws(() => metrics.counter({ name, help: '' }, () => 0), { code: 'RAMPART_INPUT' });
    }
    assert.throws(() => metrics.gauge({ name: 'rampart_x_total', help: '' }, () => 0), {
      code: 'RAMPART_INPUT',
    });
  });

  test('importing the file loads no HTTP server, and fetch is never loaded', () => {
    const program = `
      const loaded = (name) => process.moduleLoadList.includes('NativeModule ' + name);
      const { createMetrics, serveMetrics } = await import(${JSON.stringify(import.meta.resolve('./metrics.ts'))});
      const before = loaded('http');
      const server = await serveMetrics({ registry: (await createMetrics()).registry, address: 0 });
      console.log(before, loaded('http'), loaded('internal/deps/undici/undici'));
      await server[Symbol.asyncDispose]();`;
    const args = ['--input-type=module-typescript', '--no-warnings', '-e', program];
    assert.equal(spawnSync(process.execPath, args, { encoding: 'utf8' }).stdout, 'false true false\n');
  });
});

suite('serveMetrics', { timeout: 300_000 }, () => {
  test('/metrics, /healthz, /readyz, and nothing else; GET and HEAD, and nothing else', async () => {
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
    const readyz = await fetch(`${server.url}/readyz`);
    assert.deepEqual([readyz.status, await readyz.text()], [200, 'ready\n']);
    for (const path of ['/', '/metrics/', '/metrics/../etc/passwd', '/healthz2']) {
      assert.equal((await fetch(server.url + path)).status, 404, path);
    }
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS']) {
      const refused = await fetch(`${server.url}/metrics`, { method });
      assert.deepEqual([refused.status, refused.headers.get('allow')], [405, 'GET, HEAD'], method);
    }
  });

  test('metrics are at other paths too, if wanted', async () => {
    const { registry, gauge } = await createMetrics();
    gauge({ name: 'rampart_x', help: 'x' }, () => 1);
    await using server = await serveMetrics({ registry, address: 0, paths: ['/metrics-x'] });
    const [usual, other] = await Promise.all(
      ['/metrics', '/metrics-x'].map(async (path) => (await fetch(server.url + path)).text()),
    );
    assert.equal(other, usual);
    assert.equal((await fetch(`${server.url}/metrics-y`)).status, 404);
  });

  test('not well is a 503 with the reason; a reading that throws is a 500 with the reason, and no end', async () => {
    const { registry, gauge } = await createMetrics();
    let broken = true;
    gauge({ name: 'rampart_x', help: 'x' }, () => {
      if (broken) throw new Error('map is gone');
      return 1;
    });
    let reason: string | undefined = 'no sensor';
    const health = new Health();
    health.alive('sensor', () => reason);
    await using server = await serveMetrics({ registry, address: '127.0.0.1:0', health });
    const healthz = await fetch(`${server.url}/healthz`);
    assert.deepEqual([healthz.status, await healthz.text()], [503, '[-] sensor: no sensor\nnot alive\n']);
    assert.equal((await fetch(`${server.url}/readyz`)).status, 200);
    using part = health.ready('pods', () => 'not listed yet');
    const readyz = await fetch(`${server.url}/readyz`);
    assert.deepEqual([readyz.status, await readyz.text()], [503, '[-] pods: not listed yet\nnot ready\n']);
    part[Symbol.dispose]();
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

  for (const [from, attacker] of [
    ['another address of the same host', '127.0.0.2'],
    ['the address of the prober', '127.0.0.1'],
  ] as const) {
    test(`hundreds of slow connections from ${from} do not keep probes from their answer`, async () => {
      const { registry } = await createMetrics();
      await using server = await serveMetrics({ registry, address: 0 });
      const slow = Array.from({ length: 200 }, () =>
        connect({ host: server.host, port: server.port, localAddress: attacker }, function (this: Socket) {
          this.write('GET /healthz HTTP/1.1\r\nhost: x\r\nx: ');
        }).on('error', () => undefined),
      );
      try {
        await Promise.all(slow.map((socket) => once(socket, 'connect')));
        for (let probe = 0; probe < 20; probe++) {
          const { status } = await fetch(`${server.url}/healthz`, { headers: { connection: 'close' } });
          assert.equal(status, 200);
        }
      } finally {
        for (const socket of slow) socket.destroy();
      }
    });
  }

  test('a port alone means loopback, other addresses are complete, and an error names an address in use', async () => {
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
