import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';

import { request as send } from '../../net/node-http.ts';
import { apiErrors } from '../resources/api-error.ts';
import { Item } from '../resources/item.ts';
import type { ResourceAnswer, ResourceRequest, WatchEvent } from '../verbs/request.ts';
import type { HttpServer } from './server.ts';
import { pods, serveThings, token } from './server.fixture.ts';

const path = '/api/v1/namespaces/a/pods?watch=true';

async function open(server: HttpServer): Promise<IncomingMessage> {
  const request = send({
    ...server.address,
    path,
    agent: false,
    headers: { authorization: `Bearer ${token}` },
  });
  request.on('error', () => undefined);
  request.end();
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  return response;
}

function event(number: number, size = 0): WatchEvent {
  const object = { kind: 'Pod', metadata: { name: `${number}` }, text: 'x'.repeat(size) };
  return { type: 'ADDED', item: Item.ofObject(pods, object) };
}

function watchOf(
  events: (request: ResourceRequest) => AsyncIterable<readonly WatchEvent[]>,
): (request: ResourceRequest) => ResourceAnswer {
  return (request) => ({ kind: 'watch', watch: { resource: pods, events: events(request) } });
}

function aborted({ signal }: ResourceRequest): Promise<unknown> {
  return signal.aborted ? Promise.resolve() : once(signal, 'abort');
}

test('headers come at once, events as lines, and the end is an end', async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  await using server = await serveThings(
    watchOf(async function* () {
      await promise;
      yield [event(1), event(2)];
      yield [{ type: 'BOOKMARK', version: 9n, initialEventsEnd: false }];
    }),
  );
  const response = await open(server);
  assert.equal(response.statusCode, 200);
  assert.equal(response.headers['content-type'], 'application/json');
  assert.equal(response.headers['transfer-encoding'], 'chunked');
  resolve();
  const lines = (await text(response)).split('\n');
  assert.equal(lines.pop(), '');
  assert.deepEqual(
    lines.map((line) => (JSON.parse(line) as { type: string }).type),
    ['ADDED', 'ADDED', 'BOOKMARK'],
  );
  assert.equal(response.complete, true);
  assert.equal(server.traffic.watchEvents, 3);
});

test('errors become the last event, their insides do not', async () => {
  const errors: readonly Error[] = [apiErrors.expired('too old resource version'), new Error('secret')];
  let next = 0;
  await using server = await serveThings(
    // eslint-disable-next-line require-yield -- it never gets to
    watchOf(async function* () {
      throw errors[next++] as Error;
    }),
  );
  const expired = JSON.parse(await text(await open(server))) as { type: string; object: { code: number } };
  assert.deepEqual([expired.type, expired.object.code], ['ERROR', 410]);
  const internal = await text(await open(server));
  assert.match(internal, /"code":500/);
  assert.doesNotMatch(internal, /secret/);
});

test('a client that takes nothing stops the watch from being asked, and loses nothing', async () => {
  const total = 20_000;
  const size = 10_000;
  let asked = 0;
  await using server = await serveThings(
    watchOf(async function* () {
      while (asked < total) {
        yield [event(asked++, size)];
        // Others get their turn, as with a real store.
        if (asked % 50 === 0) await new Promise((next) => void setImmediate(next));
      }
    }),
  );
  const response = await open(server);
  response.pause();
  while (server.traffic.watchStalls === 0) await new Promise((next) => void setImmediate(next));
  // The buffers of both sockets hold all that follows.
  let before: number;
  do {
    before = asked;
    await new Promise((next) => void setTimeout(next, 100));
  } while (asked > before);
  assert.ok(asked * size < 40_000_000, `${asked} events were asked for while nobody read`);
  const lines = createInterface({ input: response });
  let seen = 0;
  for await (const line of lines) {
    assert.ok(
      line.startsWith(`{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"${seen}"}`),
      `${seen}`,
    );
    seen++;
  }
  assert.equal(seen, total);
  assert.equal(server.traffic.watchers, 0);
});

test('a client that takes nothing for too long is given up', async () => {
  const over = Promise.withResolvers<void>();
  await using server = await serveThings(
    watchOf(async function* () {
      try {
        for (let number = 0; ; number++) yield [event(number, 100_000)];
      } finally {
        over.resolve();
      }
    }),
    { limits: { stallMs: 50 } },
  );
  const response = await open(server);
  response.on('error', () => undefined);
  response.pause();
  await over.promise;
  while (server.traffic.watchers > 0) await new Promise((next) => void setImmediate(next));
  response.destroy();
});

test('a client that goes ends its watch', async () => {
  const over: string[] = [];
  await using server = await serveThings(
    watchOf(async function* (request) {
      yield [event(1)];
      await aborted(request);
      over.push('aborted');
    }),
  );
  const response = await open(server);
  response.on('error', () => undefined);
  await once(response, 'data');
  response.destroy();
  while (server.traffic.watchers > 0) await new Promise((next) => void setImmediate(next));
  assert.deepEqual(over, ['aborted']);
});

test('a server that stops ends its watches as if their time were up', async () => {
  const server = await serveThings(
    watchOf(async function* (request) {
      yield [event(1)];
      await aborted(request);
    }),
  );
  const responses = await Promise.all([open(server), open(server)]);
  const texts = responses.map((response) => text(response));
  await server[Symbol.asyncDispose]();
  for (const one of await Promise.all(texts)) assert.match(one, /^\{"type":"ADDED".*\}\n$/);
  for (const { complete } of responses) assert.equal(complete, true);
});

test('the text of an event is made once for all watches', async () => {
  const shared = [event(1)];
  const { promise, resolve } = Promise.withResolvers<void>();
  let reads = 0;
  const { item } = shared[0] as { item: Item };
  Object.defineProperty(item, 'text', {
    get: () => {
      reads++;
      return '{}';
    },
  });
  await using server = await serveThings(
    watchOf(async function* () {
      await promise;
      yield shared;
    }),
  );
  const responses = await Promise.all(Array.from({ length: 100 }, () => open(server)));
  resolve();
  for (const response of responses) assert.equal(await text(response), '{"type":"ADDED","object":{}}\n');
  assert.equal(reads, 1);
});
