import assert from 'node:assert/strict';
import { test } from 'node:test';

import { errorCodes, RampartError } from '../../errors/errors.ts';
import { json, pair, status } from '../client/api-server.fixture.ts';
import { isNotFound } from '../client/client-errors.ts';
import { established } from './established.ts';

const name = 'things.example.com';
const path = `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${name}`;

function definition(...conditions: readonly object[]): object {
  const apiVersion = 'apiextensions.k8s.io/v1';
  return { apiVersion, kind: 'CustomResourceDefinition', metadata: { name }, status: { conditions } };
}
const no = { type: 'Established', status: 'False', message: 'the names are taken' };

test('it is asked until the server says so', async () => {
  await using one = await pair((_, response, count) => {
    if (count === 0) json(response, 200, { ...definition(), status: undefined });
    else json(response, 200, definition(count < 3 ? no : { ...no, status: 'True' }));
  });
  const { signal } = new AbortController();
  await established(one.client, name, { timeoutMs: 30_000, signal });
  assert.deepEqual(
    one.server.received.map(({ method, url }) => `${method} ${url}`),
    Array.from({ length: 4 }, () => `GET ${path}`),
  );
});

test('a timeout is reported with the reason of the server', async () => {
  await using one = await pair((_, response) => json(response, 200, definition(no)));
  const { signal } = new AbortController();
  await assert.rejects(
    established(one.client, name, { timeoutMs: 40, signal }),
    (error) =>
      error instanceof RampartError &&
      error.code === errorCodes.API &&
      /things\.example\.com is not established.*Established is False: the names are taken/.test(
        error.message,
      ),
  );
});

test('a definition that is not there is not waited for, and the signal ends the waiting', async () => {
  const stop = new AbortController();
  await using none = await pair((_, response) => json(response, 404, status(404, 'NotFound', 'not found')));
  await assert.rejects(
    established(none.client, name, { timeoutMs: 30_000, signal: stop.signal }),
    isNotFound,
  );
  await using one = await pair((_, response, count) => {
    if (count === 1) stop.abort(new Error('enough'));
    json(response, 200, definition(no));
  });
  await assert.rejects(established(one.client, name, { timeoutMs: 30_000, signal: stop.signal }), /enough/);
});
