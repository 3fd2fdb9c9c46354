import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { type Answer, json, pair, serve, status } from './api-server.fixture.ts';
import { KubeClient } from './client.ts';
import {
  isAlreadyExists,
  isConflict,
  isForbidden,
  isGone,
  isNotFound,
  isTooManyRequests,
  isUnreachable,
  KubeError,
} from './client-errors.ts';
import type { Credentials } from '../access/credentials.ts';
import { leases, nodes } from '../object/object.ts';

const lease = { namespace: 'kube-system', name: 'rampart' };
const echo: Answer = ({ method }, response) => json(response, 200, { method });

suite('client: errors', () => {
  const predicates = {
    isNotFound,
    isAlreadyExists,
    isConflict,
    isGone,
    isForbidden,
    isTooManyRequests,
  };
  const cases: readonly (readonly [number, string, keyof typeof predicates])[] = [
    [404, 'NotFound', 'isNotFound'],
    [409, 'AlreadyExists', 'isAlreadyExists'],
    [409, 'Conflict', 'isConflict'],
    [410, 'Gone', 'isGone'],
    [410, 'Expired', 'isGone'],
    [403, 'Forbidden', 'isForbidden'],
  ];
  for (const [code, reason, predicate] of cases) {
    test(`${code} ${reason}`, async () => {
      const details = { causes: [{ field: 'spec', message: 'm' }] };
      await using both = await pair((_, response) =>
        json(response, code, status(code, reason, 'sorry', { details })),
      );
      await assert.rejects(both.client.get(leases, lease), (error) => {
        assert.ok(error instanceof KubeError);
        assert.deepEqual(
          [error.code, error.status, error.reason, error.details],
          ['RAMPART_API', code, reason, details],
        );
        assert.equal(error.message, `cannot get leases kube-system/rampart: sorry (${code} ${reason})`);
        const holds = Object.entries(predicates).filter(([, is]) => is(error));
        assert.deepEqual(
          holds.map(([name]) => name),
          [predicate],
        );
        return true;
      });
    });
  }

  test('an answer that is not a Status is described by its code and the beginning of its text', async () => {
    await using both = await pair((_, response) => {
      response.writeHead(502, { 'content-type': 'text/html' });
      response.end(`<h1>Bad\u001b[2J gateway</h1>${'x'.repeat(1000)}`);
    });
    await assert.rejects(both.client.get(leases, lease), (error) => {
      assert.ok(error instanceof KubeError);
      assert.deepEqual([error.status, error.reason], [502, 'Unknown']);
      assert.match(error.message, /the response is "<h1>Bad\\x1b\[2J gateway<\/h1>x+" \(502/);
      assert.ok(error.message.length < 350);
      return true;
    });
  });

  test('a redirect is an error', async () => {
    await using both = await pair((_, response) => response.writeHead(302, { location: '/elsewhere' }).end());
    await assert.rejects(both.client.get(leases, lease), /the response is empty \(302 Unknown\)/);
    assert.equal(both.server.received.length, 1);
  });

  test('a success that is not JSON', async () => {
    await using both = await pair(({ url }, response) => {
      response.writeHead(200, { 'content-type': url.endsWith('a') ? 'text/html' : 'application/json' });
      response.end('<html>');
    });
    await assert.rejects(both.client.get(nodes, { name: 'a' }), /is text\/html; expected application\/json/);
    await assert.rejects(both.client.get(nodes, { name: 'b' }), /the response is not JSON/);
  });

  test('an answer over the limit', async () => {
    await using both = await pair((_, response) => json(response, 200, { a: 'x'.repeat(2000) }), {
      maxAnswerBytes: 1000,
    });
    await assert.rejects(both.client.list(nodes), { code: 'RAMPART_LIMIT' });
  });

  test('nothing listens at the address', async () => {
    const server = await serve(echo);
    await server[Symbol.asyncDispose]();
    using client = new KubeClient(server.access);
    await assert.rejects(client.get(nodes, { name: 'n' }), (error: Error) => {
      assert.ok(isUnreachable(error));
      assert.match(error.message, /cannot get nodes n: no response from 127\.0\.0\.1:\d+: .*ECONNREFUSED/);
      return true;
    });
  });

  test('a client that was disposed', async () => {
    await using server = await serve(echo);
    const client = new KubeClient(server.access);
    client[Symbol.dispose]();
    await assert.rejects(client.get(nodes, { name: 'n' }), { code: 'RAMPART_DISPOSED' });
  });
});

suite('client: credentials', () => {
  /** Gives the tokens one after the other, a new one only after a refusal. */
  function tokens(...list: string[]): Credentials {
    const credentials = list.map((token) => ({ authorization: `Bearer ${token}`, secrets: [token] }));
    return {
      current: async () => credentials[0] as (typeof credentials)[0],
      invalidate: (used) => {
        if (used === credentials[0] && credentials.length > 1) credentials.shift();
      },
    };
  }
  const onlyNew: Answer = ({ headers, method }, response) =>
    headers.authorization === 'Bearer new'
      ? json(response, 200, { method })
      : json(response, 401, status(401, 'Unauthorized', `who is ${headers.authorization}?`));

  test('refused, they are renewed once and the request sent again, a create too', async () => {
    await using both = await pair(onlyNew, { credentials: tokens('old', 'new') });
    assert.deepEqual(await both.client.create(nodes, { metadata: { name: 'n' } }), { method: 'POST' });
    assert.equal(both.server.received.length, 2);
    await both.client.get(nodes, { name: 'n' });
    assert.equal(both.server.received.length, 3);
  });

  test('refused again, or without others, it is an error, and the token is not in it', async () => {
    for (const [list, requests] of [
      [['hunter2', 'hunter3', 'new'], 2],
      [['hunter2'], 1],
    ] as const) {
      await using both = await pair(onlyNew, { credentials: tokens(...list) });
      await assert.rejects(both.client.get(nodes, { name: 'n' }), (error: Error) => {
        assert.ok(error instanceof KubeError && error.status === 401);
        assert.match(error.message, /who is Bearer \[redacted\]\?/);
        assert.doesNotMatch(`${JSON.stringify(error)}${error.stack}`, /hunter/);
        return true;
      });
      assert.equal(both.server.received.length, requests);
    }
  });

  test('a token is not sent unencrypted but on this machine', async () => {
    await using server = await serve(echo);
    const credentials = tokens('abc');
    using local = new KubeClient({ ...server.access, credentials });
    await local.get(nodes, { name: 'n' });
    using remote = new KubeClient({ ...server.access, server: new URL('http://192.0.2.1'), credentials });
    await assert.rejects(remote.get(nodes, { name: 'n' }), { code: 'RAMPART_INPUT' });
  });
});
