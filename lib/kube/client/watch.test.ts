import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { suite, test } from 'node:test';

import { ManualClock } from '../../time/clock.fixture.ts';
import { type Answer, json, pair, status } from './api-server.fixture.ts';
import { isGone, isNotFound, isUnreachable, KubeError } from './client-errors.ts';
import { nodes } from '../object/object.ts';
import type { WatchEvent } from './watch.ts';

const event = (type: string, name: string): string =>
  `${JSON.stringify({ type, object: { metadata: { name, resourceVersion: '1' } } })}\n`;

/** Begins a watch, then does what the test wants. */
const watching =
  (then: (response: ServerResponse) => void): Answer =>
  (_, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.flushHeaders();
    then(response);
  };

async function collect(
  events: AsyncIterable<WatchEvent>,
  onEvent: () => void = () => undefined,
): Promise<{ names: string[]; error: unknown }> {
  const names: string[] = [];
  try {
    for await (const { type, object } of events) {
      names.push(`${type} ${object.metadata.name}`);
      onEvent();
    }
  } catch (error) {
    return { names, error };
  }
  return { names, error: undefined };
}

suite('watch', () => {
  test('events until the server ends it; what it asks for', async () => {
    await using both = await pair(
      watching((response) => {
        response.write(event('ADDED', 'a') + event('MODIFIED', 'a'));
        response.end(`${event('DELETED', 'a')}\n${event('BOOKMARK', '')}`);
      }),
    );
    const options = {
      resourceVersion: '5',
      allowWatchBookmarks: true,
      timeoutSeconds: 300,
      labelSelector: 'a=b',
    };
    const { names, error } = await collect(both.client.watch(nodes, {}, options));
    assert.deepEqual([names, error], [['ADDED a', 'MODIFIED a', 'DELETED a', 'BOOKMARK '], undefined]);
    assert.equal(
      both.server.received[0]?.url,
      '/api/v1/nodes?watch=true&resourceVersion=5&allowWatchBookmarks=true&labelSelector=a%3Db&timeoutSeconds=300',
    );
  });

  test('characters of several bytes, cut anywhere', async () => {
    const name = 'ä€𝄞';
    const bytes = Buffer.from(event('ADDED', name) + event('ADDED', name));
    await using both = await pair(
      watching((response) => {
        void (async () => {
          for (const byte of bytes) {
            response.write(Buffer.from([byte]));
            await new Promise((resolve) => setImmediate(resolve));
          }
          response.end();
        })();
      }),
    );
    assert.deepEqual(await collect(both.client.watch(nodes)), {
      names: [`ADDED ${name}`, `ADDED ${name}`],
      error: undefined,
    });
  });

  test('yields the lines as received, including errors', async () => {
    const line = '{"type":"ERROR","object":{}}';
    await using both = await pair(watching((response) => response.end(`${line}\n`)));
    const lines: string[] = [];
    for await (const one of both.client.watchLines(nodes)) lines.push(one);
    assert.deepEqual(lines, [line]);
  });

  test('refused: the error of the answer', async () => {
    await using both = await pair((_, response) => json(response, 404, status(404, 'NotFound', 'no')));
    assert.ok(isNotFound((await collect(both.client.watch(nodes))).error));
  });

  test('an ERROR event is thrown', async () => {
    const gone = `${JSON.stringify({ type: 'ERROR', object: status(410, 'Expired', 'too old') })}\n`;
    await using both = await pair(watching((response) => response.end(event('ADDED', 'a') + gone)));
    const { names, error } = await collect(both.client.watch(nodes));
    assert.deepEqual(names, ['ADDED a']);
    assert.ok(isGone(error) && error.reason === 'Expired');
    await using bare = await pair(watching((response) => response.end('{"type":"ERROR"}\n')));
    const { error: unknown } = await collect(bare.client.watch(nodes));
    assert.ok(unknown instanceof KubeError && unknown.status === 500);
  });

  test('invalid events', async () => {
    for (const line of [
      'nonsense',
      'null',
      '7',
      '{}',
      '{"type":"ADDED"}',
      '{"type":"ADDED","object":{}}',
      '[]',
    ]) {
      await using both = await pair(watching((response) => response.end(`${line}\n`)));
      assert.ok(isUnreachable((await collect(both.client.watch(nodes))).error), line);
    }
  });

  test('reset, or ended, in the middle of a line: what was complete came, then an error', async () => {
    for (const cut of [
      (response: ServerResponse) => response.end(),
      (response: ServerResponse) => void setTimeout(() => response.socket?.resetAndDestroy(), 20),
      (response: ServerResponse) => void setTimeout(() => response.destroy(), 20),
    ]) {
      await using both = await pair(
        watching((response) => {
          response.write(`${event('ADDED', 'a')}{"type":"ADD`);
          cut(response);
        }),
      );
      const { names, error } = await collect(both.client.watch(nodes));
      assert.deepEqual(names, ['ADDED a']);
      assert.ok(isUnreachable(error), String(error));
    }
  });

  test('an event over the limit', async () => {
    await using both = await pair(
      watching((response) => response.end(event('ADDED', 'a') + event('ADDED', 'x'.repeat(1000)))),
    );
    const { names, error } = await collect(both.client.watch(nodes, {}, { maxEventBytes: 500 }));
    assert.deepEqual(names, ['ADDED a']);
    assert.equal((error as { code?: string }).code, 'RAMPART_LIMIT');
  });

  test('a server that sends nothing: not even a head, or no more events', async () => {
    await using silent = await pair(() => undefined);
    const opening = await collect(silent.client.watch(nodes, {}, { openTimeoutMs: 50 }));
    assert.match(String(opening.error), /watch nodes: no response within 50 ms/);
    const clock = new ManualClock();
    await using both = await pair(
      watching((response) => void response.write(event('ADDED', 'a'))),
      { clock },
    );
    const events = both.client.watch(nodes, {}, { idleTimeoutMs: 50 });
    const { names, error } = await collect(events, () => void clock.advance(50));
    assert.deepEqual(names, ['ADDED a']);
    assert.ok(isUnreachable(error));
    assert.match(String(error), /watch nodes: no data for 50 ms/);
  });

  test('how long the reader takes does not count as silence', async () => {
    const clock = new ManualClock();
    await using both = await pair(
      watching((response) => {
        response.write(event('ADDED', 'a'));
        setTimeout(() => response.end(event('ADDED', 'b')), 50);
      }),
      { clock },
    );
    const names: unknown[] = [];
    for await (const { object } of both.client.watch(nodes, {}, { idleTimeoutMs: 1000 })) {
      names.push(object.metadata.name);
      await clock.advance(100_000);
    }
    assert.deepEqual(names, ['a', 'b']);
    assert.equal(clock.timers, 0);
  });

  test('leaving the loop, and an abort, end the connection', async () => {
    const closed: Promise<unknown>[] = [];
    await using both = await pair(
      watching((response) => {
        closed.push(once(response, 'close'));
        response.write(event('ADDED', 'a'));
      }),
    );
    for await (const { type } of both.client.watch(nodes)) {
      assert.equal(type, 'ADDED');
      break;
    }
    await closed[0];
    const controller = new AbortController();
    const reason = new Error('stop');
    const names: unknown[] = [];
    await assert.rejects(async () => {
      for await (const { object } of both.client.watch(nodes, {}, { signal: controller.signal })) {
        names.push(object.metadata.name);
        setTimeout(() => controller.abort(reason), 20);
      }
    }, reason);
    assert.deepEqual(names, ['a']);
    await closed[1];
  });

  test('aborted between two events of one chunk, the second does not come', async () => {
    await using both = await pair(
      watching((response) => void response.write(event('ADDED', 'a') + event('ADDED', 'b'))),
    );
    const controller = new AbortController();
    const names: unknown[] = [];
    await assert.rejects(
      async () => {
        for await (const { object } of both.client.watch(nodes, {}, { signal: controller.signal })) {
          names.push(object.metadata.name);
          controller.abort();
        }
      },
      { name: 'AbortError' },
    );
    assert.deepEqual(names, ['a']);
  });
});
