import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { suite, test } from 'node:test';
import { gzipSync } from 'node:zlib';

import { type Answer, json, pair, status } from './api-server.fixture.ts';
import { isGone, isUnreachable } from './client-errors.ts';
import type { ListStreamOptions } from './list-stream.ts';
import { nodes } from '../object/object.ts';
import { ManualClock } from '../../time/clock.fixture.ts';

/** A list in one piece, then what the test wants. */
const answering =
  (text: string, then: (response: ServerResponse) => void = (response) => void response.end()): Answer =>
  (_, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.write(text);
    then(response);
  };

/** The result of a list: items, metadata, the error, and the request. With a clock, some time passes with each item. */
async function listed(
  answer: Answer,
  options: Partial<ListStreamOptions> = {},
  time?: { readonly clock: ManualClock; readonly itemMs: number },
) {
  await using both = await pair(answer, time);
  const items: string[] = [];
  const take = (item: string): void => {
    items.push(item);
    void time?.clock.advance(time.itemMs);
  };
  const { onItem = take } = options;
  const outcome = await both.client.listItems(nodes, {}, { ...options, onItem }).then(
    (metadata) => ({ metadata, error: undefined }),
    (error: unknown) => ({ metadata: undefined, error }),
  );
  return { ...outcome, items, url: both.server.received[0]?.url };
}

suite('list, item by item', () => {
  test('items, metadata and the query', async () => {
    const text =
      '{"kind":"NodeList","items":[{"a":1}, {"b":"ä"}],"metadata":{"resourceVersion":"7","continue":"x"}}';
    const { items, metadata, url } = await listed(answering(text), {
      limit: 2,
      continue: 'token',
      labelSelector: 'a=b',
      fieldSelector: 'c=d',
    });
    assert.deepEqual(items, ['{"a":1}', '{"b":"ä"}']);
    assert.deepEqual(metadata, { resourceVersion: '7', continue: 'x' });
    assert.equal(url, '/api/v1/nodes?limit=2&continue=token&labelSelector=a%3Db&fieldSelector=c%3Dd');
  });

  test('a server may compress it: it is asked to, and what does not unpack is an error', async () => {
    const text = '{"metadata":{"resourceVersion":"7"},"items":[{"a":1},{"b":2}]}';
    const packed = gzipSync(text);
    const zipped =
      (bytes: Uint8Array): Answer =>
      ({ headers }, response) => {
        assert.equal(headers['accept-encoding'], 'gzip');
        response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' });
        response.end(bytes);
      };
    const { items, metadata } = await listed(zipped(packed));
    assert.deepEqual(items, ['{"a":1}', '{"b":2}']);
    assert.deepEqual(metadata, { resourceVersion: '7' });
    for (const bytes of [packed.subarray(0, -12), Buffer.from('no gzip at all')]) {
      const { error } = await listed(zipped(bytes));
      assert.ok(isUnreachable(error), String(error));
    }
  });

  test('an answer that breaks off: items before it came, then an error', async () => {
    const begin = '{"metadata":{},"items":[1,2,{"a"';
    for (const cut of [
      (response: ServerResponse) => void response.end(),
      (response: ServerResponse) => void setTimeout(() => response.socket?.resetAndDestroy(), 20),
      (response: ServerResponse) => void setTimeout(() => response.destroy(), 20),
    ]) {
      const { items, error } = await listed(answering(begin, cut));
      assert.deepEqual(items, ['1', '2']);
      assert.ok(isUnreachable(error), String(error));
    }
  });

  test('a server that falls silent, or takes for ever', async () => {
    const begin = answering('{"metadata":{},"items":[1,', () => undefined);
    const clock = new ManualClock();
    const idle = await listed(begin, { idleTimeoutMs: 50 }, { clock, itemMs: 50 });
    assert.match(String(idle.error), /list nodes: no data for 50 ms/);
    assert.deepEqual(idle.items, ['1']);
    const silent = await listed(() => undefined, { openTimeoutMs: 50 });
    assert.match(String(silent.error), /list nodes: no response within 50 ms/);
    const trickle = answering('{"items":[', (response) => {
      const timer = setInterval(() => response.write('1,'), 10);
      response.on('close', () => clearInterval(timer));
    });
    const whole = await listed(trickle, { timeoutMs: 100, idleTimeoutMs: 1000 }, { clock, itemMs: 50 });
    assert.match(String(whole.error), /list nodes: not complete within 100 ms/);
    assert.ok(whole.items.length > 1);
  });

  test('answers that are not lists', async () => {
    for (const text of [
      '[]',
      '{"items":[1,]}',
      '{"items":[]}',
      '{"metadata":{}}',
      '',
      '{"metadata":7,"items":[]}',
    ]) {
      const { error } = await listed(answering(text));
      assert.ok(isUnreachable(error), `${text}: ${String(error)}`);
    }
    const page = await listed((_, response) => {
      response.writeHead(200, { 'content-type': 'text/html' });
      response.end('{"metadata":{},"items":[]}');
    });
    assert.match(String(page.error), /text\/html/);
  });

  test('errors: of the API, an item that is too long, of who takes the items', async () => {
    const gone = await listed((_, response) => json(response, 410, status(410, 'Expired', 'too old')));
    assert.ok(isGone(gone.error));
    const long = answering(`{"metadata":{},"items":[1,"${'x'.repeat(100)}"]}`);
    const { error } = await listed(long, { maxItemBytes: 50 });
    assert.equal((error as { code?: string }).code, 'RAMPART_LIMIT');
    const mine = new Error('mine');
    const thrown = await listed(answering('{"metadata":{},"items":[1,2]}'), {
      onItem: () => {
        throw mine;
      },
    });
    assert.equal(thrown.error, mine);
  });

  test('an abort between two items of one piece: the second does not come', async () => {
    const [controller, reason, items] = [new AbortController(), new Error('stop'), [] as string[]];
    const { error } = await listed(answering('{"metadata":{},"items":[1,2]}'), {
      signal: controller.signal,
      onItem: (item) => {
        items.push(item);
        controller.abort(reason);
      },
    });
    assert.equal(error, reason);
    assert.deepEqual(items, ['1']);
  });

  test('the connection is kept for the next call', async () => {
    await using both = await pair(answering('{"metadata":{},"items":[]}'));
    for (let round = 0; round < 3; round++)
      await both.client.listItems(nodes, {}, { onItem: () => undefined });
    assert.equal(both.server.connections(), 1);
  });
});
