import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { suite, test } from 'node:test';

import { LineFeed } from '../../lib/feed/line-feed.ts';
import { request } from '../../lib/net/node-http.ts';
import { aborted } from '../../lib/time/abort.ts';
import type { UiReport } from './report.ts';
import { serveUi, type UiServer } from './ui-server.ts';

const page = new Map([['/', { type: 'text/html; charset=utf-8', content: Buffer.from('the page') }]]);
const report: UiReport = {
  status: null,
  failure: 'a failure',
  who: null,
  pictures: ['network-policy'],
  findings: { isLive: true, note: '', missed: 0, hours: [] },
};

interface Answered {
  readonly status: number | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

type Asked = Readonly<Record<string, string>>;

type Served = Pick<UiServer, 'path' | 'port'>;

/** @param name - Below the path of the page; after a slash: of the port. */
async function open(
  { port, path: top }: Served,
  name: string,
  headers: Asked = {},
  method = 'GET',
): Promise<IncomingMessage> {
  const path = name.startsWith('/') ? name : top + name;
  const asked = request({ host: '127.0.0.1', port, path, method, headers, agent: false });
  asked.end();
  const [response] = (await once(asked, 'response')) as [IncomingMessage];
  return response;
}

async function get(server: Served, name: string, headers: Asked = {}, method = 'GET'): Promise<Answered> {
  const response = await open(server, name, headers, method);
  return { status: response.statusCode, headers: response.headers, text: await text(response) };
}

async function cookieOf(server: UiServer): Promise<string> {
  const Authorization = `Bearer ${new URL(server.link).hash.slice(1)}`;
  const { headers } = await get(server, 'session', { Authorization });
  return (headers['set-cookie']?.[0] ?? '').replace(/;.*/, '');
}

function serve(findings = new LineFeed(), answer = (): UiReport => report): Promise<UiServer> {
  return serveUi({
    ...{ port: 0, page, report: async () => answer(), findings },
    picture: (guard) =>
      guard === 'network-policy' ? Promise.resolve({ picture: null, failure: 'not now' }) : undefined,
  });
}

suite('the server of the page', () => {
  test('the token of the link is exchanged once, for a cookie that scripts and other sites do not have', async () => {
    await using server = await serve();
    assert.match(server.link, /^http:\/\/127\.0\.0\.1:\d+\/[\w-]{22}\/#[\w-]{43}$/);
    const token = { Authorization: `Bearer ${new URL(server.link).hash.slice(1)}` };
    assert.equal((await get(server, 'status.json')).status, 401);
    assert.equal((await get(server, 'findings')).status, 401);
    assert.equal((await get(server, 'pictures/network-policy.json')).status, 401);
    const wrong = await get(server, 'session', { Authorization: 'Bearer wrong' });
    assert.deepEqual([wrong.status, wrong.headers['set-cookie']], [401, undefined]);
    const first = await get(server, 'session', token);
    const [cookie = ''] = first.headers['set-cookie'] ?? [];
    assert.equal(first.status, 204);
    assert.match(cookie, /^rampart-ui=[\w-]{43}; Path=\/[\w-]{22}\/; HttpOnly; SameSite=Strict$/);
    const again = await get(server, 'session', token);
    assert.deepEqual([again.status, again.headers['set-cookie']], [401, undefined]);
    assert.match(again.text, /the link was used before\. Stop rampart ui and start it again/);
    const [pair = ''] = cookie.split(';');
    assert.equal((await get(server, 'status.json', { Cookie: `other=1; ${pair}` })).status, 200);
    assert.equal((await get(server, 'status.json', { Cookie: `${pair}x` })).status, 401);
    await using other = await serve();
    assert.equal((await get(other, 'status.json', { Cookie: pair })).status, 401);
  });

  test('the path is random: who serves another port does not know to where the cookie is sent', async () => {
    await using server = await serve();
    await using other = await serve();
    assert.notEqual(server.path, other.path);
    const Cookie = await cookieOf(server);
    for (const path of [
      '/',
      '/status.json',
      '/session',
      server.path.slice(0, -1),
      `${other.path}status.json`,
    ])
      assert.equal((await get(server, path, { Cookie })).status, 404, path);
    assert.equal((await get(server, 'status.json', { Cookie })).status, 200);
  });

  test('other hosts, other origins and other methods are refused, whatever they ask for', async () => {
    await using server = await serve();
    const { port } = server;
    const Cookie = await cookieOf(server);
    const refused: readonly (readonly [status: number, headers: Asked, method?: string])[] = [
      [403, { Host: 'evil.example' }],
      [403, { Host: `127.0.0.1.evil.example:${port}` }],
      [403, { Host: `evil.example:${port}@127.0.0.1` }],
      [403, { Origin: 'http://evil.example' }],
      [403, { Origin: 'null' }],
      [403, { Origin: `http://127.0.0.1:${port + 1}` }],
      [403, { 'Sec-Fetch-Site': 'cross-site' }],
      [403, { 'Sec-Fetch-Site': 'same-site' }],
      [405, {}, 'POST'],
      [405, {}, 'HEAD'],
      [405, {}, 'OPTIONS'],
    ];
    for (const [status, headers, method] of refused) {
      for (const path of ['', 'session', 'status.json', 'findings', 'no', '/']) {
        const answered = await get(server, path, { Cookie, ...headers }, method);
        assert.equal(answered.status, status, `${method} ${path} ${JSON.stringify(headers)}`);
        assert.equal(answered.headers['access-control-allow-origin'], undefined);
      }
    }
    // By `ssh -L`, from another port.
    for (const Host of ['localhost:1234', '127.0.0.1:7080'])
      assert.equal(
        (await get(server, 'status.json', { Cookie, Host, Origin: `http://${Host}` })).status,
        200,
      );
  });

  test('every answer forbids what is inline or from elsewhere, frames, and caches', async () => {
    await using server = await serve();
    for (const path of ['', 'no', 'status.json', '/']) {
      const { headers } = await get(server, path);
      const policy = String(headers['content-security-policy']);
      assert.match(policy, /^default-src 'none'; script-src 'self';.*frame-ancestors 'none'$/);
      assert.doesNotMatch(policy, /unsafe|http|\*/);
      assert.equal(headers['cache-control'], 'no-store');
      assert.equal(headers['x-content-type-options'], 'nosniff');
    }
    const { text: content, headers } = await get(server, '?theme=dark');
    assert.deepEqual([content, headers['content-type']], ['the page', 'text/html; charset=utf-8']);
    for (const path of ['no', '../package.json', '/', 'page.js/'])
      assert.equal((await get(server, path)).status, 404, path);
  });

  test('a report that says nothing new is not sent again', async () => {
    let now = report;
    await using server = await serve(undefined, () => now);
    const Cookie = await cookieOf(server);
    const { headers, text: body } = await get(server, 'status.json', { Cookie });
    assert.deepEqual(JSON.parse(body), report);
    const tag = { 'If-None-Match': headers.etag ?? '' };
    const same = await get(server, 'status.json', { Cookie, ...tag });
    assert.deepEqual([same.status, same.text], [304, '']);
    now = { ...report, failure: 'another\u202e failure' };
    const changed = await get(server, 'status.json', { Cookie, ...tag });
    assert.equal(changed.status, 200);
    assert.match(changed.text, /another\\u202e failure/);
  });

  test('a picture is answered as a report is; a guard without one has none', async () => {
    await using server = await serve();
    const Cookie = await cookieOf(server);
    const picture = await get(server, 'pictures/network-policy.json', { Cookie });
    assert.deepEqual(JSON.parse(picture.text), { picture: null, failure: 'not now' });
    const tag = { 'If-None-Match': picture.headers.etag ?? '' };
    assert.equal((await get(server, 'pictures/network-policy.json', { Cookie, ...tag })).status, 304);
    for (const path of ['pictures/no.json', 'pictures/', 'pictures/../status.json', 'pictures/a/b.json'])
      assert.equal((await get(server, path, { Cookie })).status, 404, path);
  });

  test('findings: what is kept, then what comes; a browser that comes back gets what it has not had', async () => {
    const feed = new LineFeed();
    feed.push('{"a":1}');
    feed.push('{"a":2}');
    await using server = await serve(feed);
    const Cookie = await cookieOf(server);
    const read = async (headers: Asked, events: number, push?: string): Promise<string> => {
      const stream = await open(server, 'findings', { Cookie, ...headers });
      assert.equal(stream.headers['content-type'], 'text/event-stream');
      let got = '';
      for await (const chunk of stream.setEncoding('utf8') as AsyncIterable<string>) {
        got += chunk;
        if (push !== undefined && got.includes('event: live')) {
          feed.push(push);
          push = undefined;
        }
        if (got.split('\n\n').length > events) break;
      }
      return got;
    };
    const live = 'event: live\ndata: \n\n';
    const first = await read({}, 4, '{"a":3}');
    const [, epoch = ''] = /^id: (\w+)-1\n/.exec(first) ?? [];
    const event = (number: number): string => `id: ${epoch}-${number}\ndata: {"a":${number}}\n\n`;
    const [one, two, three] = [event(1), event(2), event(3)];
    assert.equal(first, `${one}${two}${live}${three}`);
    assert.equal(await read({ 'Last-Event-ID': `${epoch}-2` }, 2), `${three}${live}`);
    // That of a process before, whose numbers mean nothing here.
    const anew = `event: anew\ndata: \n\n${one}${two}${three}${live}`;
    for (const last of ['other-2', 'x', '2', `${epoch}-`])
      assert.equal(await read({ 'Last-Event-ID': last }, 5), anew);
  });

  test('a browser that leaves is no longer read for', async () => {
    const { promise: asked, resolve } = Promise.withResolvers<AbortSignal>();
    await using server = await serveUi({
      ...{ port: 0, page, findings: new LineFeed(), picture: () => undefined },
      async report(signal) {
        resolve(signal);
        await aborted(signal);
        throw signal.reason;
      },
    });
    const path = `${server.path}status.json`;
    const headers = { Cookie: await cookieOf(server) };
    const asking = request({ host: '127.0.0.1', port: server.port, path, headers, agent: false });
    const failed = once(asking, 'error');
    asking.end();
    const signal = await asked;
    assert.equal(signal.aborted, false);
    asking.destroy(new Error('closed'));
    await failed;
    await aborted(signal);
  });
});
