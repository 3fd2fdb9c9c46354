// Which versions a reflector takes, from bookmarks, events and lists.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { until } from '../../testing/until.fixture.ts';
import { type Answer, json, serve, status } from '../client/api-server.fixture.ts';
import { IndexedCache } from './indexed-cache.ts';
import { pods } from '../object/object.ts';
import { clientOf, limit, pod, reflect } from './reflector.fixture.ts';

/** A server whose watches are lines by script; the list is empty, of version 100. */
function scripted(scripts: readonly (readonly [type: string, version: number, name?: string][])[]): Answer {
  let watched = 0;
  return ({ url }, response) => {
    if (!url.includes('watch=true')) {
      return json(response, 200, { kind: 'PodList', metadata: { resourceVersion: '100' }, items: [] });
    }
    response.writeHead(200, { 'content-type': 'application/json' });
    response.flushHeaders();
    const script = scripts[watched++];
    if (script === undefined) return;
    for (const [type, version, name] of script) {
      const object = name
        ? pod(name, { resourceVersion: `${version}` })
        : { metadata: { resourceVersion: `${version}` } };
      response.write(`${JSON.stringify({ type, object })}\n`);
    }
    response.end();
  };
}

async function versionsAsked(
  ...scripts: Parameters<typeof scripted>[0]
): Promise<{ from: string[]; cache: string[] }> {
  await using server = await serve(scripted(scripts));
  using client = clientOf(server.url);
  await using reflector = reflect(client);
  const asked = (): string[] =>
    server.received.flatMap(({ url }) => /watch=true&resourceVersion=(\d+)/.exec(url)?.[1] ?? []);
  await until(() => asked().length > scripts.length);
  const { cache } = reflector;
  return { from: asked(), cache: [...cache.keys()].map((key) => `${key} ${cache.versionOf(key)}`) };
}

suite('reflector: versions', limit, () => {
  test('bookmarks move the place on, old and repeated ones do not move it back', async () => {
    const { from } = await versionsAsked(
      [['BOOKMARK', 150]],
      [['BOOKMARK', 150], ['BOOKMARK', 160], ['BOOKMARK', 120], ['BOOKMARK', 160]],
      [['ADDED', 170, 'a'], ['BOOKMARK', 99]],
    ); // prettier-ignore
    assert.deepEqual(from, ['100', '150', '160', '170']);
  });

  test('a bookmark that comes too early swallows no event', async () => {
    const { from, cache } = await versionsAsked([
      ['ADDED', 110, 'a'], ['BOOKMARK', 200], ['MODIFIED', 150, 'a'], ['ADDED', 160, 'b'], ['DELETED', 170, 'b'],
    ]); // prettier-ignore
    assert.deepEqual(from, ['100', '200']);
    assert.deepEqual(cache, ['n/a 150']);
  });

  test('events that come again do nothing, also those of what is gone', async () => {
    const { from, cache } = await versionsAsked([
      ['ADDED', 110, 'a'], ['MODIFIED', 120, 'a'], ['ADDED', 110, 'a'], ['ADDED', 130, 'b'], ['DELETED', 140, 'b'],
      ['ADDED', 130, 'b'], ['ADDED', 90, 'old'],
    ]); // prettier-ignore
    assert.deepEqual(from, ['100', '140']);
    assert.deepEqual(cache, ['n/a 120']);
  });

  test('an old list that lacks what an event or a list that broke off has brought is not taken', async () => {
    const item = JSON.stringify(pod('a', { resourceVersion: '150' }));
    const old = '{"metadata":{"resourceVersion":"120"},"items":[]}';
    const whole = `{"metadata":{"resourceVersion":"200"},"items":[${item}]}`;
    for (const answers of [
      // By an event of the watch between the first two lists; by the second list.
      ['{"metadata":{"resourceVersion":"100"},"items":[]}', old, old, whole],
      [`{"metadata":{"resourceVersion":"160"},"items":[${item},`, old, whole],
    ]) {
      await using server = await serve(({ url }, response) => {
        response.writeHead(200, { 'content-type': 'application/json' });
        response.flushHeaders();
        if (!url.includes('watch=true')) return void response.end(answers.shift());
        if (answers.length === 0) return;
        response.write(`{"type":"ADDED","object":${item}}\n`);
        response.end(`${JSON.stringify({ type: 'ERROR', object: status(410, 'Expired', 'too old') })}\n`);
      });
      using client = clientOf(server.url);
      const cache = new IndexedCache({ type: pods });
      const changes: string[] = [];
      cache.subscribe(({ type, key }) => changes.push(`${type} ${key}`));
      await using reflector = reflect(client, { cache });
      await until(() => answers.length === 0 && reflector.stats().watches > 0);
      assert.deepEqual(changes, ['added n/a']);
      assert.ok((reflector.stats().errors['stale'] ?? 0) > 0);
    }
  });

  test('an answer that the version is too new asks for a list', async () => {
    let listed = 0;
    await using server = await serve(({ url }, response) => {
      if (!url.includes('watch=true')) {
        return json(response, 200, { metadata: { resourceVersion: `${100 + listed++}` }, items: null });
      }
      const details = {
        causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
      };
      if (listed === 1) return json(response, 504, status(504, 'Timeout', 'Too large', { details }));
      response.writeHead(200, { 'content-type': 'application/json' });
      response.flushHeaders();
    });
    using client = clientOf(server.url);
    await using reflector = reflect(client);
    await until(() => reflector.stats().watches === 2);
    assert.equal(listed, 2);
  });
});
