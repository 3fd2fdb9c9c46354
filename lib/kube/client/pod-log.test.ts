import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { suite, test } from 'node:test';

import { createServer } from '../../net/node-http.ts';
import * as fc from '../../testing/fast-check.fixture.ts';
import { KubeClient } from './client.ts';
import { isForbidden, isUnreachable } from './client-errors.ts';
import { anonymous } from '../access/credentials.ts';
import type { PodLogOptions } from './pod-log.ts';
import { patience } from '../../testing/until.fixture.ts';

const target = { namespace: 'shop', name: 'web-0' };

/** Reads the log from a server with this answer, to its end or to a number of lines. */
async function linesOf(
  answer: (response: ServerResponse, request: IncomingMessage) => void,
  options: PodLogOptions = {},
  max = Infinity,
): Promise<string[]> {
  const server = createServer((request, response) => answer(response, request)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  try {
    const { port } = server.address() as AddressInfo;
    using client = new KubeClient({
      server: new URL(`http://127.0.0.1:${port}`),
      credentials: anonymous,
      namespace: 'default',
    });
    const lines: string[] = [];
    for await (const line of client.podLog(target, { signal: patience(), ...options })) {
      lines.push(line);
      if (lines.length >= max) break;
    }
    return lines;
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

suite('the log of a pod', () => {
  test('asks for what is said, and for nothing else', async () => {
    const asked: (string | undefined)[] = [];
    const answer = (response: ServerResponse, { url }: IncomingMessage): void => {
      asked.push(url);
      response.end();
    };
    await linesOf(answer);
    await linesOf(answer, {
      container: 'web',
      follow: true,
      sinceTime: '2026-11-21T10:00:00Z',
      tailLines: 5,
      timestamps: true,
    });
    const path = '/api/v1/namespaces/shop/pods/web-0/log';
    assert.deepEqual(asked, [
      path,
      `${path}?container=web&follow=true&sinceTime=2026-11-21T10%3A00%3A00Z&tailLines=5&timestamps=true`,
    ]);
  });

  test('lines are whole, wherever the network cuts them; the last one needs no newline', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.string({ unit: 'grapheme' }).map((text) => text.replaceAll('\n', '')),
          { minLength: 1, maxLength: 8 },
        ),
        fc.array(fc.nat(200), { maxLength: 6 }),
        fc.boolean(),
        async (lines, cuts, isEnded) => {
          const bytes = Buffer.from(lines.join('\n') + (isEnded ? '\n' : ''));
          const got = await linesOf((response) => {
            let from = 0;
            for (const end of [...cuts.toSorted((a, b) => a - b), bytes.length]) {
              if (end <= from || end > bytes.length) continue;
              response.write(bytes.subarray(from, end));
              from = end;
            }
            response.end();
          });
          const last = lines.at(-1) ?? '';
          assert.deepEqual(got, !isEnded && last === '' ? lines.slice(0, -1) : lines);
        },
      ),
      { numRuns: 30 },
    );
  });

  test('invalid UTF-8 is replaced, and a line that is too long is omitted', async () => {
    const lines = await linesOf((response) => {
      response.write(Buffer.from([0x61, 0xff, 0x62, 0x0a]));
      response.write(`${'x'.repeat(1024 * 1024 + 1)}\n${'y'.repeat(1024 * 1024)}\n`);
      response.end('end\n');
    });
    assert.deepEqual(
      lines.map((line) => (line.length > 10 ? `${line.slice(0, 1)} ${line.length}` : line)),
      ['a\ufffdb', 'y 1048576', 'end'],
    );
  });

  test('followed: each line as it comes; leaving the loop ends the request', async () => {
    const { promise: closed, resolve } = Promise.withResolvers<void>();
    const lines = await linesOf(
      (response) => {
        response.write('one\ntw');
        setTimeout(() => response.write('o\n'), 20);
        response.on('close', resolve);
      },
      { follow: true },
      2,
    );
    assert.deepEqual(lines, ['one', 'two']);
    await closed;
  });

  test('errors are those of all calls', async () => {
    await assert.rejects(
      linesOf((response) => response.writeHead(403).end()),
      isForbidden,
    );
    await assert.rejects(
      linesOf((response) => response.write('half', () => response.destroy())),
      isUnreachable,
    );
    await assert.rejects(
      linesOf(() => undefined, { timeoutMs: 50, follow: true }),
      isUnreachable,
    );
    const reason = new Error('enough');
    const stop = new AbortController();
    await assert.rejects(
      linesOf((response) => response.write('one\n', () => stop.abort(reason)), {
        follow: true,
        signal: stop.signal,
      }),
      reason,
    );
  });
});
