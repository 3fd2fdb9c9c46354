import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempDisposableSync, readFileSync, writeFileSync } from 'node:fs';
import { request, type RequestOptions } from 'node:https';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { suite, test } from 'node:test';
import { connect as connectTls } from 'node:tls';

import {
  issueAuthority,
  issueServerCertificate,
  type KeyAndCertificate,
} from '../../lib/x509/certificate.ts';
import { observe } from '../../lib/cli/process.ts';
import { Health } from '../../lib/telemetry/health.ts';
import { createMetrics, serveMetrics } from '../../lib/telemetry/metrics.ts';

const validity = { now: new Date(), days: 1 };
const authority = issueAuthority('metrics of the test', validity);
const serverCertificate = (): KeyAndCertificate => issueServerCertificate(authority, ['127.0.0.1'], validity);

async function get(
  url: string,
  options: RequestOptions = {},
): Promise<[status: number | undefined, body: string]> {
  const asked = request(url, { ca: authority.cert, agent: false, ...options });
  asked.end();
  const [response] = (await once(asked, 'response')) as [NodeJS.ReadableStream & { statusCode?: number }];
  return [response.statusCode, await text(response)];
}

/** For clients alone, by openssl: certificates for servers are not taken from clients. */
function issueClientCertificate(by: KeyAndCertificate): KeyAndCertificate {
  using directory = mkdtempDisposableSync(join(tmpdir(), 'rampart-client-'));
  const at = (name: string): string => join(directory.path, name);
  writeFileSync(at('ca.crt'), by.cert);
  writeFileSync(at('ca.key'), by.key);
  writeFileSync(at('extensions'), 'extendedKeyUsage=clientAuth');
  const openssl = (...args: string[]): void =>
    void execFileSync('openssl', args, { cwd: directory.path, stdio: 'pipe' });
  openssl(
    ...[
      'req',
      '-new',
      '-newkey',
      'ec',
      '-pkeyopt',
      'ec_paramgen_curve:P-256',
      '-nodes',
      '-subj',
      '/CN=prometheus',
    ],
    ...['-keyout', 'key', '-out', 'request'],
  );
  openssl(
    ...['x509', '-req', '-in', 'request', '-CA', 'ca.crt', '-CAkey', 'ca.key', '-days', '1', '-out', 'crt'],
    ...['-extfile', 'extensions'],
  );
  return { key: readFileSync(at('key'), 'utf8'), cert: readFileSync(at('crt'), 'utf8') };
}

suite('metrics by TLS', { timeout: 120_000 }, () => {
  test('probes are plain HTTP, and metrics are not', async () => {
    const { registry, gauge } = await createMetrics();
    gauge({ name: 'rampart_x', help: 'x' }, () => 7);
    await using server = await serveMetrics({ registry, address: 0, certificates: serverCertificate() });
    assert.match(server.url, /^https:/);
    const plain = server.url.replace('https', 'http');
    for (const path of ['/healthz', '/readyz']) assert.equal((await fetch(plain + path)).status, 200, path);
    const refused = await fetch(`${plain}/metrics`);
    assert.deepEqual(
      [refused.status, await refused.text()],
      [403, 'Metrics are served by TLS: use https.\n'],
    );
    const [status, body] = await get(`${server.url}/metrics`);
    assert.equal(status, 200);
    assert.match(body, /^rampart_x 7$/m);
    // A scraper keeps its connection.
    const socket = connectTls({ host: '127.0.0.1', port: server.port, ca: authority.cert });
    await once(socket, 'secureConnect');
    for (let each = 0; each < 2; each++) {
      socket.write('GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n');
      const [answer] = (await once(socket, 'data')) as [Buffer];
      assert.match(answer.toString(), /^HTTP\/1\.1 200 /);
    }
    const ended = once(socket, 'close');
    await server[Symbol.asyncDispose]();
    await ended;
  });

  test('with an authority of clients, only to whom it has signed', async () => {
    const { registry } = await createMetrics();
    const clients = issueAuthority('clients', validity);
    const certificates = { ...serverCertificate(), ca: [clients.cert] };
    await using server = await serveMetrics({ registry, address: 0, certificates });
    const url = `${server.url}/metrics`;
    assert.equal((await get(url, { ...issueClientCertificate(clients) }))[0], 200);
    await assert.rejects(get(url));
    const stranger = issueClientCertificate(issueAuthority('strangers', validity));
    await assert.rejects(get(url, { ...stranger }));
    assert.equal((await fetch(`${server.url.replace('https', 'http')}/readyz`)).status, 200);
  });

  test('--metrics-tls requires --metrics, and a directory with a certificate and its key', async () => {
    using directory = mkdtempDisposableSync(join(tmpdir(), 'rampart-metrics-'));
    const options = { metrics: '127.0.0.1:0', metricsTls: directory.path };
    await assert.rejects(
      observe({ metricsTls: directory.path }, new Health()),
      /--metrics-tls without --metrics/,
    );
    await assert.rejects(
      observe(options, new Health()),
      /cannot read the certificate of the metrics: ENOENT.*tls\.crt/,
    );
    const { key, cert } = serverCertificate();
    writeFileSync(join(directory.path, 'tls.crt'), cert);
    writeFileSync(join(directory.path, 'tls.key'), serverCertificate().key);
    await assert.rejects(observe(options, new Health()), /not a matching certificate and key/);
    writeFileSync(join(directory.path, 'tls.key'), key);
    await using _served = await observe(options, new Health());
  });

  test('a certificate that is replaced is the one of new connections', async () => {
    const { registry } = await createMetrics();
    const [first, second] = [serverCertificate(), serverCertificate()];
    await using server = await serveMetrics({ registry, address: 0, certificates: first });
    const shown = async (): Promise<string | undefined> => {
      const socket = connectTls({ host: '127.0.0.1', port: server.port, ca: authority.cert });
      await once(socket, 'secureConnect');
      const { serialNumber } = socket.getPeerX509Certificate() ?? {};
      socket.destroy();
      return serialNumber;
    };
    assert.equal(await shown(), new X509Certificate(first.cert).serialNumber);
    server.useCertificates(second);
    assert.equal(await shown(), new X509Certificate(second.cert).serialNumber);
  });

  test('whatever comes first, and nothing, keeps no probe from its answer', async () => {
    const { registry } = await createMetrics();
    await using server = await serveMetrics({ registry, address: 0, certificates: serverCertificate() });
    const sockets = Array.from({ length: 200 }, (_, at) => {
      const socket = connect({ host: '127.0.0.1', port: server.port });
      socket.on('error', () => undefined);
      // Nothing; half a handshake; what is neither.
      if (at % 3 > 0) socket.write(at % 3 === 1 ? Buffer.from([0x16, 3, 1, 2, 0]) : Buffer.from([0, 1]));
      return socket;
    });
    try {
      await Promise.all(sockets.map((socket) => once(socket, 'connect')));
      const probe = `${server.url.replace('https', 'http')}/healthz`;
      for (let each = 0; each < 20; each++) assert.equal((await fetch(probe)).status, 200);
      assert.equal((await get(`${server.url}/metrics`))[0], 200);
    } finally {
      for (const socket of sockets) socket.destroy();
    }
  });
});
