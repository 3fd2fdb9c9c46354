import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { messageOf } from '../errors/errors.ts';
import { createLogger } from '../telemetry/log.ts';
import { openRegistry } from './open-registry.ts';
import { RegistryFixture } from './registry.fixture.ts';
import type { Registry } from './registry.ts';
import { forTenant } from './tenant-error.ts';

/** How a port treats a connection. */
const ports: Readonly<Record<string, (socket: Socket) => void>> = {
  'answers nothing': () => undefined,
  'hangs up': (socket) => void socket.destroy(),
  resets: (socket) => void socket.resetAndDestroy(),
  'speaks another protocol': (socket) => void socket.write('220 mail.example ESMTP\r\n'),
  'ends in the middle': (socket) => void socket.end('HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{'),
};

suite('the error of a failed fetch for the user who chose the host', () => {
  const open = async (
    stack: AsyncDisposableStack,
    options: Partial<Parameters<typeof openRegistry>[0]>,
  ): Promise<Registry> => {
    const cacheDirectory = mkdtempSync(join(tmpdir(), 'rampart-tenant-'));
    stack.defer(() => rmSync(cacheDirectory, { recursive: true, force: true }));
    const logger = createLogger({ level: 'silent' });
    return stack.use(await openRegistry({ cacheDirectory, logger, ...options }));
  };
  const failure = async (registry: Registry, host: string): Promise<[reported: string, known: string]> => {
    const error: unknown = await registry.pull(`${host}/a:v1`).then(
      () => assert.fail('it was fetched'),
      (reason: unknown) => reason,
    );
    return [messageOf(forTenant(error)), messageOf(error)];
  };

  test('however a connection fails, it reads the same; the log gets why', async () => {
    await using stack = new AsyncDisposableStack();
    const hosts: string[] = [];
    for (const answer of Object.values(ports)) {
      const server = createServer((socket) => {
        socket.on('error', () => undefined);
        answer(socket);
      });
      await once(server.listen(0, '127.0.0.1'), 'listening');
      hosts.push(`127.0.0.1:${(server.address() as AddressInfo).port}`);
      stack.defer(() => void server.close());
    }
    const closed = hosts.length;
    hosts.push('127.0.0.1:1');
    const registry = await open(stack, { insecureSources: hosts, idleTimeoutMs: 100 });
    const failures = await Promise.all(hosts.map((host) => failure(registry, host)));
    const reported = failures.map(([text], index) => text.replace(hosts[index] ?? '', 'HOST'));
    assert.deepEqual(new Set(reported).size, 1, reported.join('\n'));
    assert.match(
      reported[0] ?? '',
      /^cannot fetch from HOST: there is no connection to it, or .*log has the reason$/,
    );
    assert.match(failures[closed]?.[1] ?? '', /nothing listens there/);
    assert.notEqual(failures[0]?.[1].replace(hosts[0] ?? '', ''), failures[closed]?.[1]);
  });

  test('errors that the user can fix are shown', async () => {
    await using stack = new AsyncDisposableStack();
    const secure = stack.use(await RegistryFixture.start({ tls: true }));
    const other = stack.use(await RegistryFixture.start({ tls: true }));
    const authorities = { [secure.host]: [other.authority] };
    const registry = await open(stack, { authorities });
    const texts = {
      [secure.host]: /its certificate is self-signed and not trusted here/,
      '127.0.0.1:1': /127\.0\.0\.1 is loopback/,
    };
    for (const [host, text] of Object.entries(texts)) {
      const [reported, known] = await failure(registry, host);
      assert.match(reported, text);
      assert.equal(reported, known);
    }
  });
});
