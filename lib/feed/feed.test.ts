import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import * as fc from '../testing/fast-check.fixture.ts';
import { type FeedEvent, type FeedPosition, readFeed } from './feed-client.ts';
import { serveFeed } from './feed-server.ts';
import { LineFeed } from './line-feed.ts';
import { patience, until } from '../testing/until.fixture.ts';

class Directory implements Disposable {
  readonly path = mkdtempSync(join(tmpdir(), 'rampart-feed-'));
  at(name: string): string {
    return join(this.path, name);
  }
  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true });
  }
}

/** Reads until `count` lines are there or known to be missed, or what is kept has been read. */
async function read(
  path: string,
  { count = Infinity, position }: { readonly count?: number; readonly position?: FeedPosition } = {},
): Promise<{ readonly events: FeedEvent[]; readonly lines: string[] }> {
  const events: FeedEvent[] = [];
  const lines: string[] = [];
  let missed = 0;
  for await (const event of readFeed(path, { signal: patience(), position })) {
    events.push(event);
    if (event.kind === 'line') lines.push(event.line);
    if (event.kind === 'missed') missed += event.lines;
    if (lines.length + missed >= count || (count === Infinity && event.kind === 'live')) break;
  }
  return { events, lines };
}

test('a feed keeps the last lines, within both of its limits, and numbers all', () => {
  fc.assert(
    fc.property(
      fc.array(fc.string({ maxLength: 12 }), { maxLength: 60 }),
      fc.integer({ min: 1, max: 8 }),
      fc.integer({ min: 1, max: 40 }),
      (lines, maxLines, maxUnits) => {
        const feed = new LineFeed({ maxLines, maxUnits });
        const heard: [number, string][] = [];
        using _subscription = feed.subscribe((number, line) => void heard.push([number, line]));
        for (const line of lines) feed.push(line);
        assert.deepEqual(
          heard,
          lines.map((line, index) => [index + 1, line]),
        );
        // The longest end of the lines that is within the limits.
        let from = lines.length;
        let units = 0;
        while (from > 0 && lines.length - from < maxLines) {
          units += lines[from - 1]?.length ?? 0;
          if (units > maxUnits) break;
          from--;
        }
        assert.deepEqual(
          [...feed.kept()],
          lines.slice(from).map((line, index) => ({ number: from + index + 1, line })),
        );
        assert.deepEqual([feed.first, feed.last], [from + 1, lines.length]);
      },
    ),
  );
});

test('the last lines of each kind are kept: many of one kind do not push out another', () => {
  const feed = new LineFeed({ maxLines: 2 });
  feed.push('rare', 'b');
  for (let count = 0; count < 10; count++) feed.push(`often ${count}`, 'a');
  assert.deepEqual(feed.kept(), [
    { number: 1, line: 'rare' },
    { number: 10, line: 'often 8' },
    { number: 11, line: 'often 9' },
  ]);
  assert.deepEqual([feed.first, feed.last], [1, 11]);
});

suite('a feed on a unix socket', () => {
  test('a returning reader misses lines that are no longer kept, a new one does not; both get the description of the feed', async () => {
    using directory = new Directory();
    const feed = new LineFeed({ maxLines: 2 });
    const path = directory.at('s');
    feed.push('rare', 'b');
    for (let count = 0; count < 4; count++) feed.push(`often ${count}`, 'a');
    await using _server = await serveFeed(feed, path, { about: () => ({ lines: feed.last }) });
    const { events } = await read(path);
    const [begin, ...rest] = events;
    assert.ok(begin?.kind === 'begin');
    const [fourth, fifth] = [
      { kind: 'line', number: 4, line: 'often 2' },
      { kind: 'line', number: 5, line: 'often 3' },
    ];
    const about = { kind: 'about', about: { lines: 5 } };
    assert.deepEqual(rest, [
      about,
      { kind: 'line', number: 1, line: 'rare' },
      fourth,
      fifth,
      { kind: 'live' },
    ]);
    const again = await read(path, { position: { id: begin.id, number: 1 } });
    assert.deepEqual(again.events.slice(1), [
      about,
      { kind: 'missed', lines: 2 },
      fourth,
      fifth,
      { kind: 'live' },
    ]);
  });

  test('kept lines, then new ones; only the owner may open the socket; it is removed at the end', async () => {
    using directory = new Directory();
    const feed = new LineFeed({ maxLines: 2 });
    for (const line of ['one', 'two', 'drei €', ' 4 5']) feed.push(line);
    const path = directory.at('sub/alerts.sock');
    {
      await using server = await serveFeed(feed, path);
      assert.equal(statSync(path).mode & 0o777, 0o600);
      assert.equal(statSync(directory.at('sub')).mode & 0o777, 0o700);
      const { events } = await read(path);
      assert.deepEqual(events.slice(1), [
        { kind: 'line', number: 3, line: 'drei €' },
        { kind: 'line', number: 4, line: ' 4 5' },
        { kind: 'live' },
      ]);
      await until(() => server.readers === 0);
      const later = read(path, { count: 3 });
      await until(() => server.readers > 0);
      feed.push('#six');
      assert.deepEqual((await later).lines, ['drei €', ' 4 5', '#six']);
    }
    assert.equal(statSync(path, { throwIfNoEntry: false }), undefined);
  });

  test('who comes back goes on where it was, and learns what is gone', async () => {
    using directory = new Directory();
    const feed = new LineFeed({ maxLines: 3 });
    const path = directory.at('s');
    feed.push('1');
    await using _server = await serveFeed(feed, path);
    const [begin] = (await read(path)).events;
    assert.ok(begin?.kind === 'begin' && begin.isOther);
    const position = { id: begin.id, number: 1 };
    feed.push('2');
    assert.deepEqual((await read(path, { position })).events, [
      { kind: 'begin', id: begin.id, isOther: false },
      { kind: 'line', number: 2, line: '2' },
      { kind: 'live' },
    ]);
    for (const line of ['3', '4', '5', '6']) feed.push(line);
    assert.deepEqual((await read(path, { position })).events.slice(1, 3), [
      { kind: 'missed', lines: 2 },
      { kind: 'line', number: 4, line: '4' },
    ]);
    // The numbers of another feed say nothing.
    const other = await read(path, { position: { id: 'another', number: 1 } });
    assert.deepEqual(other.events[0], { kind: 'begin', id: begin.id, isOther: true });
    assert.deepEqual(other.lines, ['4', '5', '6']);
  });

  test('a stopped reader does not delay others; its missed lines are counted exactly', async () => {
    using directory = new Directory();
    const feed = new LineFeed({ maxLines: 5 });
    const path = directory.at('s');
    await using server = await serveFeed(feed, path, { readerBytes: 200_000 });
    const signal = AbortSignal.timeout(60_000);
    const stopped = readFeed(path, { signal });
    await stopped.next();
    await until(() => server.readers === 1);
    const quick = read(path, { count: 20_000 });
    await until(() => server.readers === 2);
    const line = 'x'.repeat(500);
    for (let sent = 0; sent < 20_000; sent += 100) {
      for (let more = 0; more < 100; more++) feed.push(line);
      await new Promise((resolve) => setImmediate(resolve));
    }
    const all = await quick;
    const missedByQuick = all.events.reduce(
      (sum, event) => sum + (event.kind === 'missed' ? event.lines : 0),
      0,
    );
    assert.equal(missedByQuick + all.lines.length, 20_000);
    let [got, missed] = [0, 0];
    while (got + missed < 20_000) {
      const { value, done } = await stopped.next();
      assert.ok(!done && value !== undefined);
      if (value.kind === 'line') got++;
      if (value.kind === 'missed') missed += value.lines;
    }
    assert.equal(got + missed, 20_000);
    assert.ok(missed > 10_000, `missed ${missed}`);
    await stopped.return();
  });

  test('no more readers than agreed; one that goes makes room', async () => {
    using directory = new Directory();
    const path = directory.at('s');
    await using server = await serveFeed(new LineFeed(), path, { maxReaders: 1 });
    const first = readFeed(path, { signal: patience() });
    await first.next();
    await assert.rejects(read(path), {
      code: 'RAMPART_LIMIT',
      message: /1 process(es)? (is|are) already reading it/,
    });
    await first.return();
    await until(() => server.readers === 0);
    assert.deepEqual((await read(path)).lines, []);
  });

  test('the socket of a killed process is taken over; one that is served, or a file, is not', async () => {
    using directory = new Directory();
    const path = directory.at('s');
    const child = spawn(
      process.execPath,
      ['-e', 'require("net").createServer().listen(process.argv[1], () => console.log("ok"))', path],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    );
    await once(child.stdout, 'data');
    await assert.rejects(serveFeed(new LineFeed(), path), {
      code: 'RAMPART_IN_USE',
      message: /another process/,
    });
    child.kill('SIGKILL');
    await once(child, 'close');
    await assert.rejects(read(path), { code: 'RAMPART_NOT_FOUND', message: /has ended/ });
    {
      await using _server = await serveFeed(new LineFeed(), path);
      assert.deepEqual((await read(path)).lines, []);
    }
    await assert.rejects(read(path), { code: 'RAMPART_NOT_FOUND', message: /the socket does not exist/ });
    writeFileSync(path, 'mine');
    await assert.rejects(serveFeed(new LineFeed(), path), {
      code: 'RAMPART_IN_USE',
      message: /something else/,
    });
    await assert.rejects(serveFeed(new LineFeed(), join(path, 'below')), { code: 'RAMPART_SYSTEM' });
  });

  test('a path longer than the kernel takes works too', async () => {
    using directory = new Directory();
    const path = directory.at(`${'a'.repeat(100)}/${'b'.repeat(100)}/alerts.sock`);
    const feed = new LineFeed();
    feed.push('far');
    {
      await using _server = await serveFeed(feed, path);
      assert.deepEqual((await read(path)).lines, ['far']);
    }
    assert.equal(statSync(path, { throwIfNoEntry: false }), undefined);
    await assert.rejects(serveFeed(feed, directory.at('c'.repeat(120))), { code: 'RAMPART_INPUT' });
  });

  test('a socket that is not a feed is reported as such', async () => {
    using directory = new Directory();
    const path = directory.at('s');
    const { createServer } = await import('node:net');
    const server = createServer((socket: Socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')).listen(
      path,
    );
    await once(server, 'listening');
    await assert.rejects(read(path), { code: 'RAMPART_DECODE' });
    server.close();
  });

  test('a reader that sends, or breaks off, does no harm', async () => {
    using directory = new Directory();
    const path = directory.at('s');
    const feed = new LineFeed();
    await using server = await serveFeed(feed, path);
    const socket = connect(path);
    await once(socket, 'connect');
    socket.write('x'.repeat(100_000));
    feed.push('1');
    socket.on('error', () => undefined);
    // With unread bytes in it: the other end gets ECONNRESET.
    socket.destroy();
    await until(() => server.readers === 0);
    assert.deepEqual((await read(path)).lines, ['1']);
  });
});
