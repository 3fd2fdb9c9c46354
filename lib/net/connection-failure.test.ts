import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:https';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';

import { createServer } from './node-http.ts';
import { describeConnectionFailure } from './connection-failure.ts';

test('a server that answers without TLS', async () => {
  const server = createServer((_, response) => response.end());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const [error] = (await once(request({ host: '127.0.0.1', port }).end(), 'error')) as [Error];
  server.closeAllConnections();
  server.close();
  assert.equal(describeConnectionFailure(error), 'it answers without TLS');
});
