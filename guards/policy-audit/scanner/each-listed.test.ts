import assert from 'node:assert/strict';
import { test } from 'node:test';

import { json, pair, status } from '../../../lib/kube/client/api-server.fixture.ts';
import { configMaps } from '../../../lib/kube/object/object.ts';
import { eachListed } from './each-listed.ts';

const page = (name: string, more: string): object => ({
  ...{ kind: 'ConfigMapList', apiVersion: 'v1', metadata: { resourceVersion: '1', continue: more } },
  items: [{ metadata: { name, namespace: 'shop' } }],
});

test('a list whose token has expired begins again, and misses nothing', async () => {
  const pages = [page('a', 'old'), undefined, page('a', 'new'), page('b', '')];
  await using api = await pair((_, response, count) =>
    pages[count] === undefined
      ? json(response, 410, status(410, 'Expired', 'the provided continue parameter is too old'))
      : json(response, 200, pages[count]),
  );
  const names: string[] = [];
  const { signal } = new AbortController();
  const options = { client: api.client, namespace: 'shop', pageSize: 1, parallel: 1, signal };
  await eachListed(configMaps, options, (object) => {
    names.push(object.metadata.name ?? '');
    return Promise.resolve();
  });
  assert.deepEqual(names, ['a', 'a', 'b']);
  const tokens = api.server.received.map(({ url }) =>
    new URL(url, api.server.url).searchParams.get('continue'),
  );
  assert.deepEqual(tokens, [null, 'old', null, 'new']);
});
