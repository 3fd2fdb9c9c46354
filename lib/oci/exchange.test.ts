import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { RequestListener, Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { suite, test } from 'node:test';

import { createServer } from '../net/node-http.ts';
import { Exchange, ExchangeError, type Security } from './exchange.ts';

async function serve(answer: RequestListener): Promise<{ readonly server: Server; readonly port: number }> {
  const server = createServer(answer);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return { server, port: (server.address() as AddressInfo).port };
}

function exchange(): Exchange {
  return new Exchange({ authorities: new Map(), idleTimeoutMs: 5000 });
}

const ask = (client: Exchange, url: string, security: Security = 'verified'): Promise<string> =>
  client
    .ask({ url: new URL(url), security, maxBytes: 100, what: 'a module' })
    .then(({ body }) => Buffer.from(body).toString());

suite('addresses of registries', () => {
  test('addresses that only the machine reaches are refused, whether the port is open, and in any spelling', async () => {
    await using stack = new AsyncDisposableStack();
    const { server, port } = await serve((_, response) => response.end('secret'));
    stack.defer(() => void server.close());
    using client = exchange();
    const hosts = [
      `127.0.0.1:${port}`,
      '127.0.0.1:1',
      '2130706433',
      '[::1]',
      '[::ffff:127.0.0.1]',
      `localhost:${port}`,
    ];
    for (const host of [
      ...hosts,
      '169.254.169.254',
      '[fe80::1]',
      '[64:ff9b::a9fe:a9fe]',
      '100.100.100.200',
    ]) {
      await assert.rejects(ask(client, `https://${host}/v2/`), (error) => {
        assert.ok(error instanceof ExchangeError, host);
        assert.match(error.message, / is (loopback|link-local|a metadata service)/, host);
        return true;
      });
    }
  });

  test('a host that the configuration names is called, and what it redirects to is not', async () => {
    await using stack = new AsyncDisposableStack();
    const inner = await serve((_, response) => response.end('secret'));
    const outer = await serve(({ url }, response) => {
      if (url === '/here') return void response.end('module');
      response.writeHead(307, { location: `http://127.0.0.1:${inner.port}/` }).end();
    });
    for (const { server } of [inner, outer]) stack.defer(() => void server.close());
    using client = exchange();
    const registry = `http://127.0.0.1:${outer.port}`;
    assert.equal(await ask(client, `${registry}/here`, 'plain'), 'module');
    await assert.rejects(ask(client, `${registry}/there`, 'plain'), /127\.0\.0\.1 is loopback/);
  });
});

suite('proxies of registries', () => {
  test('hosts behind the proxy are requested from it, except those that no policy may reach', async () => {
    await using stack = new AsyncDisposableStack();
    const asked: string[] = [];
    const { server, port } = await serve(({ url = '', headers }, response) => {
      asked.push(`GET ${url} ${headers['proxy-authorization'] ?? ''}`);
      response.end('from the proxy');
    });
    stack.defer(() => void server.close());
    server.on('connect', ({ url = '' }: { url?: string }, socket: Duplex) => {
      asked.push(`CONNECT ${url}`);
      socket.end('HTTP/1.1 502 Bad Gateway\r\n\r\n');
    });
    const proxy = `http://a:b@127.0.0.1:${port}`;
    const proxies = { http: proxy, https: proxy, none: 'direct.invalid' };
    using client = new Exchange({ authorities: new Map(), idleTimeoutMs: 5000, proxies });
    assert.equal(await ask(client, 'http://registry.invalid/v2/', 'plain'), 'from the proxy');
    await assert.rejects(ask(client, 'https://registry.invalid/v2/'), {
      message: new RegExp(`^through the proxy 127\\.0\\.0\\.1:${port}: .*502`),
    });
    assert.deepEqual(asked.splice(0), [
      `GET http://registry.invalid/v2/ Basic ${Buffer.from('a:b').toString('base64')}`,
      'CONNECT registry.invalid:443',
    ]);
    await assert.rejects(ask(client, 'http://direct.invalid/', 'plain'), ExchangeError);
    await assert.rejects(ask(client, 'https://169.254.169.254/'), /is link-local/);
    assert.deepEqual(asked, []);
  });
});
