import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { ServerHttp2Session, ServerHttp2Stream } from 'node:http2';
import { suite, test } from 'node:test';

import { until } from '../../testing/until.fixture.ts';
import { ManualClock } from '../../time/clock.fixture.ts';
import { type Credential, type Credentials } from '../access/credentials.ts';
import { nodes } from '../object/object.ts';
import { json, serve } from './api-server.fixture.ts';
import { KubeClient } from './client.ts';
import { isUnreachable } from './client-errors.ts';
import { accessTo, certificates, reset, serveHttp2, silenceable } from './http2-server.fixture.ts';

const node = { metadata: { name: 'n' } };
const line = (name: string, more = {}): string =>
  `${JSON.stringify({ type: 'ADDED', object: { metadata: { name }, ...more } })}\n`;

/** The names that a watch reports, and how it ends. */
function watching(client: KubeClient, signal?: AbortSignal) {
  const names: string[] = [];
  const ended = (async (): Promise<unknown> => {
    try {
      for await (const { object } of client.watch(nodes, {}, { signal }))
        names.push(object.metadata.name ?? '');
    } catch (error) {
      return error;
    }
    return undefined;
  })();
  return { names, ended };
}

suite('client over HTTP/2', () => {
  process.on('warning', (warning) => assert.notEqual(warning.name, 'MaxListenersExceededWarning'));

  test('all watches and requests share one connection', async () => {
    await using server = await serveHttp2();
    using client = new KubeClient(server.access);
    const watches = Array.from({ length: 50 }, () => watching(client));
    await until(() => server.watches.size === 50);
    await Promise.all(Array.from({ length: 20 }, () => client.get(nodes, { name: 'n' })));
    await client.create(nodes, { metadata: { name: 'n', annotations: { a: 'x'.repeat(500_000) } } });
    for (const stream of server.watches) stream.end(line('a'));
    for (const { names, ended } of watches) assert.deepEqual([await ended, names], [undefined, ['a']]);
    assert.equal(server.sessions.length, 1);
  });

  test('opens another connection when the server accepts no more streams, so no request waits', async () => {
    await using server = await serveHttp2({ maxStreams: 3 });
    using client = new KubeClient(server.access);
    for (let index = 0; index < 4; index++) void watching(client);
    await until(() => server.watches.size === 4);
    await client.get(nodes, { name: 'n' });
    assert.equal(server.sessions.length, 2);
  });

  test('after GOAWAY the watches go on, and new requests take a new connection', async () => {
    await using server = await serveHttp2();
    using client = new KubeClient(server.access);
    const before = watching(client);
    const [stream] = await until('a watch', () => server.watches.size > 0 && [...server.watches]);
    const [session] = server.sessions as [ServerHttp2Session];
    // In two steps, as Go's server does it: first without a limit, then with the last stream it has seen.
    session.goaway(0, 2 ** 31 - 1);
    session.goaway(0, stream?.id);
    const closed = once(session, 'close');
    await until('another connection', async () => {
      await client.get(nodes, { name: 'n' });
      return server.sessions.length === 2;
    });
    stream?.end(line('late'));
    assert.deepEqual([await before.ended, before.names], [undefined, ['late']]);
    await closed;
    assert.equal(server.sessions.length, 2);
  });

  test('requests that the server has not processed are sent again, including creates', async () => {
    const refuse = (stream: ServerHttp2Stream, times: number, count: number): boolean => {
      if (count >= times) return false;
      stream.close(7);
      return true;
    };
    await using server = await serveHttp2({ answer: (stream, _, count) => refuse(stream, 1, count) });
    using client = new KubeClient(server.access);
    assert.equal((await client.create(nodes, node)).metadata.name, 'n');
    assert.equal(server.requests.length, 2);

    await using never = await serveHttp2({ answer: (stream) => refuse(stream, Infinity, 0) });
    using other = new KubeClient(never.access);
    await assert.rejects(other.create(nodes, node), isUnreachable);
    assert.equal(never.requests.length, 4);
  });

  test('a GOAWAY with an error: a create above its last stream is sent again, one below is not', async () => {
    for (const seen of [false, true]) {
      const answer = (stream: ServerHttp2Stream, _: unknown, count: number): boolean => {
        if (count !== 1) return false;
        stream.session?.goaway(11, seen ? stream.id : (stream.id as number) - 2);
        return true;
      };
      await using server = await serveHttp2({ answer });
      using client = new KubeClient(server.access);
      await client.get(nodes, { name: 'n' });
      if (seen) await assert.rejects(client.create(nodes, node), isUnreachable);
      else assert.equal((await client.create(nodes, node)).metadata.name, 'n');
      assert.equal(server.requests.length, seen ? 2 : 3);
    }
  });

  test('a connection that breaks ends its watches; a get is sent again, an update is not', async () => {
    const answer = (
      stream: ServerHttp2Stream,
      headers: { readonly ':path'?: string | undefined },
    ): boolean => {
      if (!headers[':path']?.endsWith('/broken') || server.sessions.length > 1) return false;
      stream.session?.destroy();
      return true;
    };
    await using server = await serveHttp2({ answer });
    using client = new KubeClient(server.access);
    const watches = [watching(client), watching(client)];
    await until(() => server.watches.size === 2);
    await client.get(nodes, { name: 'n' });
    assert.equal((await client.get(nodes, { name: 'broken' })).metadata.name, 'n');
    for (const { ended } of watches) {
      const error = await ended;
      assert.ok(isUnreachable(error), String(error));
      assert.match((error as Error).message, /the response was interrupted/);
    }
    assert.equal(server.sessions.length, 2);

    await using other = await serveHttp2({
      answer: (stream, headers) => {
        if (headers[':method'] !== 'PUT') return false;
        stream.session?.destroy();
        return true;
      },
    });
    using updating = new KubeClient(other.access);
    await updating.get(nodes, { name: 'n' });
    await assert.rejects(updating.update(nodes, node), /no response from 127.0.0.1:\d+: /);
    assert.equal(other.requests.length, 2);
  });

  test('an answer that is cut off is an error, though Node.js ends its stream in order', async () => {
    const answer = (stream: ServerHttp2Stream): boolean => {
      stream.respond({ ':status': 200, 'content-type': 'application/json' });
      stream.write('{"metadata":{}}', () => reset(stream, 8));
      return true;
    };
    await using server = await serveHttp2({ answer });
    using client = new KubeClient(server.access);
    await assert.rejects(client.get(nodes, { name: 'n' }), /the response was interrupted/);
  });

  test('a peer that is silent is found by a ping; one that answers is kept', async () => {
    await using server = await serveHttp2();
    await using proxy = await silenceable(server.port);
    const clock = new ManualClock();
    using client = new KubeClient(accessTo(proxy.port), { clock });
    const { ended } = watching(client);
    await until(() => server.watches.size === 1);
    // Its answer comes after the head of the watch.
    await client.get(nodes, { name: 'n' });
    const [session] = server.sessions as [ServerHttp2Session];
    const pinged = once(session, 'ping');
    await clock.advance(30_000);
    await pinged;
    // The answer of a request comes after that of the ping.
    await client.get(nodes, { name: 'n' });
    await clock.advance(15_000);
    proxy.silence();
    await clock.advance(29_999);
    assert.equal(await Promise.race([ended, Promise.resolve('runs')]), 'runs');
    await clock.advance(1);
    const error = await ended;
    assert.ok(isUnreachable(error), String(error));
    assert.match((error as Error).message, /no answer to a ping within 15000 ms/);
    await client.get(nodes, { name: 'n' });
    assert.equal(proxy.connections(), 2);
  });

  test('after a request without an answer the next takes a new connection; watches stay on the old one', async () => {
    await using server = await serveHttp2();
    await using proxy = await silenceable(server.port);
    const clock = new ManualClock();
    using client = new KubeClient(accessTo(proxy.port), { clock });
    const { ended } = watching(client);
    await until(() => server.watches.size === 1);
    await client.get(nodes, { name: 'n' });
    proxy.silence();
    await clock.advance(1);
    const lost = client.get(nodes, { name: 'n' }, { timeoutMs: 10_000 });
    // Sent only once the previous step has been awaited.
    await new Promise(setImmediate);
    await Promise.all([assert.rejects(lost, /no response within 10000 ms/), clock.advance(10_000)]);
    await client.get(nodes, { name: 'n' });
    assert.equal(proxy.connections(), 2);
    assert.equal(await Promise.race([ended, Promise.resolve('runs')]), 'runs');
    // Pings decide of the old one.
    await clock.advance(35_000);
    assert.match(((await ended) as Error).message, /no answer to a ping/);
  });

  test('aborted during the handshake, before the head, while it is read', async () => {
    const reason = new Error('stop');
    await using server = await serveHttp2({ answer: (_, headers) => headers[':path']?.endsWith('/never') });
    await using silent = await silenceable(server.port, 1);
    using client = new KubeClient(server.access);
    const controllers = Array.from({ length: 3 }, () => new AbortController());
    const [handshake, head, body] = controllers as [AbortController, AbortController, AbortController];

    using early = new KubeClient(accessTo(silent.port));
    const first = early.get(nodes, { name: 'n' }, { signal: handshake.signal });
    await until(() => silent.connections() === 1);
    handshake.abort(reason);
    await assert.rejects(first, reason);
    await early.get(nodes, { name: 'n' });
    assert.equal(silent.connections(), 2);

    const waiting = client.get(nodes, { name: 'never' }, { signal: head.signal });
    await until(() => server.requests.some(({ request }) => request.endsWith('/never')));
    const { ended } = watching(client, body.signal);
    await until(() => server.watches.size === 1);
    server.codes.length = 0;
    head.abort(reason);
    body.abort(reason);
    await assert.rejects(waiting, reason);
    assert.equal(await ended, reason);
    await until(() => server.codes.length === 2);
    assert.deepEqual(server.codes, [8, 8]);
    // The connection outlives them.
    await client.get(nodes, { name: 'n' });
    assert.equal(server.sessions.length, 2);
  });

  test('a new client certificate: a new connection; the old one ends with its watches', async () => {
    await using server = await serveHttp2();
    let credential: Credential = { secrets: [] };
    const credentials: Credentials = { current: async () => credential, invalidate: () => undefined };
    using client = new KubeClient({ ...server.access, credentials });
    const who = async (): Promise<string | undefined> =>
      (await client.get(nodes, { name: 'n' })).metadata.name;
    const { ended } = watching(client);
    await until(() => server.watches.size === 1);
    assert.equal(await who(), 'n');
    credential = { secrets: [], certificate: { cert: certificates.clientCert, key: certificates.clientKey } };
    assert.deepEqual([await who(), await who()], ['alice', 'alice']);
    assert.equal(server.sessions.length, 2);
    const closed = once(server.sessions[0] as ServerHttp2Session, 'close');
    for (const stream of server.watches) stream.end();
    assert.equal(await ended, undefined);
    await closed;
  });

  test('a slow reader does not hold up the others', async () => {
    await using server = await serveHttp2();
    using client = new KubeClient(server.access);
    const slow = client.watch(nodes, {});
    const slowFirst = slow.next();
    await until(() => server.watches.size === 1);
    const [stream] = [...server.watches] as [ServerHttp2Stream];
    // More than the windows of the stream and of the connection together.
    const text = line('slow', { text: 'x'.repeat(1024) });
    stream.write(text.repeat(8000));
    await slowFirst;
    const { names } = watching(client);
    await until(() => server.watches.size === 2);
    const other = [...server.watches][1] as ServerHttp2Stream;
    for (let count = 0; count < 10; count++) other.write(line('quick', { text: 'y'.repeat(1024 * 1024) }));
    await until(() => names.length === 10);
    // The slow one's server still has most of it, and it comes when it is read.
    assert.ok(stream.writableLength > 0);
    let read = 1;
    while (read < 8000 && !(await slow.next()).done) read++;
    assert.equal(read, 8000);
    await slow.return();
  });

  test('unused connections are closed when it is asked for; one in use goes on', async () => {
    await using server = await serveHttp2();
    using client = new KubeClient(server.access);
    await client.get(nodes, { name: 'n' });
    client.closeUnusedConnections();
    const { names } = watching(client);
    await until(() => server.watches.size === 1);
    client.closeUnusedConnections();
    await client.get(nodes, { name: 'n' });
    for (const stream of server.watches) stream.write(line('a'));
    await until(() => names.length === 1);
    assert.equal(server.sessions.length, 2);
  });

  test('a process with an unused connection ends by itself', async () => {
    await using server = await serveHttp2();
    const script = `
      import { KubeClient } from ${JSON.stringify(new URL('client.ts', import.meta.url).href)};
      import { anonymous } from ${JSON.stringify(new URL('../access/credentials.ts', import.meta.url).href)};
      const server = new URL('https://127.0.0.1:${server.port}');
      const client = new KubeClient({ server, insecure: true, credentials: anonymous, namespace: 'default' });
      await client.getPath('/api/v1/nodes/n');`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    assert.deepEqual(await once(child, 'exit'), [0, null]);
    assert.equal(server.requests.length, 1);
  });

  test('a server that chooses HTTP/1.1: the handshake serves the first request, and is the only one', async () => {
    const { serverKey: key, serverCert: cert } = certificates;
    await using server = await serve((_, response) => json(response, 200, node), { key, cert });
    using client = new KubeClient(accessTo(server.port));
    await Promise.all([1, 2, 3].map(() => client.get(nodes, { name: 'n' })));
    assert.equal(server.connections(), 3);
    client.closeUnusedConnections();
    using sequential = new KubeClient(accessTo(server.port));
    for (let count = 0; count < 3; count++) await sequential.get(nodes, { name: 'n' });
    assert.equal(server.connections(), 4);
  });
});
