import assert from 'node:assert/strict';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { type AddressInfo, connect } from 'node:net';
import type { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import { suite, test } from 'node:test';

import { json, makeCertificates, serve, temporaryDirectory, type TestServer } from './api-server.fixture.ts';
import { createServer } from '../../net/node-http.ts';
import { KubeClient } from './client.ts';
import { isUnreachable } from './client-errors.ts';
import type { ClusterAccess } from '../access/cluster-access.ts';
import { type Credential, type Credentials, StoredCredentials } from '../access/credentials.ts';
import { nodes } from '../object/object.ts';

const directory = temporaryDirectory();
const certificates = makeCertificates(directory.path);
const other = temporaryDirectory();
const strangers = makeCertificates(other.path);
for (const { path } of [directory, other]) rmSync(path, { recursive: true });

/** Answers with who the client is by its certificate. */
function secureServer(): Promise<TestServer> {
  return serve(
    (_, response) => {
      const { subject } = (response.req.socket as TLSSocket).getPeerCertificate();
      json(response, 200, { who: (subject as { CN?: string } | undefined)?.CN ?? 'nobody' });
    },
    {
      key: certificates.serverKey,
      cert: certificates.serverCert,
      ca: certificates.ca,
      requestCert: true,
      rejectUnauthorized: false,
    },
  );
}

async function whoAmI(server: TestServer, access: Partial<ClusterAccess>): Promise<unknown> {
  using client = new KubeClient({ ...server.access, ...access });
  return ((await client.get(nodes, { name: 'n' })) as unknown as { who: unknown }).who;
}

suite('client over TLS', () => {
  test('a server with a certificate of the given authority', async () => {
    await using server = await secureServer();
    assert.equal(await whoAmI(server, { ca: certificates.ca }), 'nobody');
  });

  test('a server of another authority, or of another name, gets nothing', async () => {
    await using server = await secureServer();
    const credentials = new StoredCredentials({ token: { value: 'hunter2' } });
    const refused: readonly (readonly [Partial<ClusterAccess>, RegExp])[] = [
      [{}, /from an authority that is not trusted here/],
      [{ ca: strangers.ca }, /is the configured authority that of this server\?/],
      [{ ca: certificates.ca, serverName: 'else.test' }, /altnames/],
    ];
    for (const [access, why] of refused) {
      await assert.rejects(whoAmI(server, { ...access, credentials }), (error: Error) => {
        assert.ok(isUnreachable(error), error.message);
        assert.match(error.message, why);
        assert.doesNotMatch(error.message, /Node\.js|--use-/);
        return true;
      });
    }
    assert.equal(server.received.length, 0);
    await assert.rejects(whoAmI(server, { ca: 'no certificate' }), /is not a certificate in PEM form/);
  });

  test('the name that its certificate has, given apart; any certificate, where that is wanted', async () => {
    await using server = await secureServer();
    assert.equal(await whoAmI(server, { ca: certificates.ca, serverName: 'api.test' }), 'nobody');
    assert.equal(await whoAmI(server, { insecure: true }), 'nobody');
  });

  test('through a proxy', async () => {
    await using server = await secureServer();
    const asked: string[] = [];
    const proxy = createServer();
    proxy.on('connect', ({ url = '' }: { url?: string }, socket: Duplex) => {
      asked.push(url);
      const onward = connect(Number(url.split(':')[1]), '127.0.0.1', () => {
        socket.write('HTTP/1.1 200 OK\r\n\r\n');
        socket.pipe(onward).pipe(socket);
      });
      onward.on('error', () => socket.destroy());
    });
    await once(proxy.listen(0, '127.0.0.1'), 'listening');
    try {
      const url = new URL(`http://127.0.0.1:${(proxy.address() as AddressInfo).port}`);
      assert.equal(await whoAmI(server, { ca: certificates.ca, proxy: url }), 'nobody');
      assert.deepEqual(asked, [server.access.server.host]);
    } finally {
      proxy.close();
    }
  });

  test('a client certificate', async () => {
    await using server = await secureServer();
    const certificate = { cert: { value: certificates.clientCert }, key: { value: certificates.clientKey } };
    const credentials = new StoredCredentials({ certificate });
    assert.equal(await whoAmI(server, { ca: certificates.ca, credentials }), 'alice');
  });

  test('a client certificate that comes later, by a new connection; the old one is not used again', async () => {
    await using server = await secureServer();
    let credential: Credential = { secrets: [] };
    const credentials: Credentials = { current: async () => credential, invalidate: () => undefined };
    using client = new KubeClient({ ...server.access, ca: certificates.ca, credentials });
    const who = async (): Promise<unknown> =>
      ((await client.get(nodes, { name: 'n' })) as unknown as { who: unknown }).who;
    assert.deepEqual([await who(), await who()], ['nobody', 'nobody']);
    credential = { secrets: [], certificate: { cert: certificates.clientCert, key: certificates.clientKey } };
    assert.deepEqual([await who(), await who()], ['alice', 'alice']);
    assert.equal(server.connections(), 2);
  });

  test('invalid certificates are refused without showing them', async () => {
    await using server = await secureServer();
    const certificate = { cert: { value: 'hunter2' }, key: { value: 'hunter2' } };
    for (const access of [
      { ca: 'hunter2', credentials: new StoredCredentials({ certificate }) },
      { ca: certificates.ca, credentials: new StoredCredentials({ certificate }) },
    ]) {
      await assert.rejects(whoAmI(server, access), (error: Error & { code?: string }) => {
        assert.equal(error.code, 'RAMPART_INPUT');
        assert.doesNotMatch(`${error.message}${error.stack}`, /hunter2/);
        return true;
      });
    }
  });
});
