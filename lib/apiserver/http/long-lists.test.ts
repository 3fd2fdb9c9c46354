import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';

import { request as send } from '../../net/node-http.ts';
import { Item } from '../resources/item.ts';
import type { ResourceAnswer, ResourceRequest } from '../verbs/request.ts';
import { call, inA } from './call.fixture.ts';
import { pods, serveThings, token } from './server.fixture.ts';

const longList = (request: ResourceRequest): ResourceAnswer => {
  const items = Array.from({ length: 3000 }, (_, at) =>
    Item.ofObject(pods, { kind: 'Pod', metadata: { name: `${at}` }, text: 'ü'.repeat(200) }),
  );
  if (request.verb === 'get') {
    return { kind: 'item', code: 200, item: Item.ofObject(pods, { text: 'ü'.repeat(200_000) }) };
  }
  return { kind: 'list', list: { resource: pods, items, version: 7n, continue: 'next', remaining: 5 } };
};

test('lists come in pieces, whole, compressed for who wants it', async () => {
  await using server = await serveThings(longList, { compress: true });
  const plain = await call(server, inA);
  assert.equal(plain.headers['content-length'], undefined);
  assert.equal((plain.json['items'] as readonly unknown[]).length, 3000);
  for (const path of [inA, `${inA}/x`]) {
    const [whole, zipped, refused] = await Promise.all(
      [{}, { 'accept-encoding': 'br, gzip' }, { 'accept-encoding': 'gzip;q=0' }].map((headers) =>
        call(server, path, { headers }),
      ),
    );
    assert.equal(zipped?.headers['content-encoding'], 'gzip');
    assert.deepEqual(gunzipSync(zipped?.body ?? ''), whole?.body);
    assert.equal(refused?.headers['content-encoding'], undefined);
  }
});

test('a list stops when its client disconnects', async () => {
  let left = 0;
  let endless = 0;
  const { renderer } = await import('../render/renderer.ts');
  await using server = await serveThings(longList, {
    renderer: {
      ...renderer,
      *renderList() {
        try {
          for (;;) {
            endless++;
            yield 'x'.repeat(100_000);
          }
        } finally {
          left++;
        }
      },
    },
  });
  const { promise, resolve } = Promise.withResolvers<void>();
  const request = send(
    { ...server.address, path: inA, headers: { authorization: `Bearer ${token}` } },
    (response) => {
      response.once('data', () => request.destroy());
      response.once('close', resolve);
      response.on('error', () => undefined);
    },
  );
  request.on('error', () => undefined);
  request.end();
  await promise;
  while (server.traffic.inFlight.readonly > 0) await new Promise((next) => void setTimeout(next, 5));
  assert.equal(left, 1);
  // The client took none of what the sockets do not hold.
  assert.ok(endless < 1000, `${endless}`);
});
