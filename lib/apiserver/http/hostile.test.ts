/**
 * Input that no client sends: the answer is a Status or the end of the connection, and the server continues.
 */
import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { test } from 'node:test';

import { assertReached, scaled } from '../../testing/depth.fixture.ts';
import * as fc from '../../testing/fast-check.fixture.ts';
import type { HttpServer } from './server.ts';
import { serveThings, token } from './server.fixture.ts';

const authorization = `Authorization: Bearer ${token}\r\n`;
const body = '{"kind":"Pod","metadata":{"name":"x","labels":{"a":"b"}},"spec":[1,2.5,true,null,"é"]}';
const post =
  `POST /api/v1/namespaces/a/pods?fieldManager=x HTTP/1.1\r\nHost: x\r\n${authorization}` +
  `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
const chunked =
  `PATCH /api/v1/namespaces/a/pods/x HTTP/1.1\r\nHost: x\r\n${authorization}Content-Type: application/merge-patch+json\r\n` +
  'Transfer-Encoding: chunked\r\n\r\n5\r\n{"a":\r\n2;x=y\r\n1}\r\n0\r\nTrailer: t\r\n\r\n';
const get = `GET /apis/example.com/v1/namespaces/a/widgets/x?watch=1&a=%26 HTTP/1.1\r\nHost: x\r\nAccept: application/json;as=Table;v=v1;g=meta.k8s.io\r\n${authorization}\r\n`;

/** All that comes back after a client has sent bytes and its end. */
async function exchange(server: HttpServer, bytes: string | Buffer): Promise<string> {
  assert.ok('port' in server.address);
  const { promise, resolve } = Promise.withResolvers<void>();
  const socket: Socket = connect({ ...server.address, allowHalfOpen: true });
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => void chunks.push(chunk));
  socket.on('error', () => undefined);
  socket.once('close', () => resolve());
  socket.once('end', () => socket.end());
  socket.end(bytes);
  await promise;
  return Buffer.concat(chunks).toString('latin1');
}

interface Answer {
  readonly code: number;
  readonly body: string;
}

/** Splits what came back; fails where it is no HTTP. */
function answersOf(text: string): readonly Answer[] {
  const answers: Answer[] = [];
  let rest = text;
  while (rest !== '') {
    const head = /^HTTP\/1\.1 (\d{3}) [\w -]+\r\n((?:[\w-]+: [^\r\n]*\r\n)*)\r\n/.exec(rest);
    assert.ok(head !== null, `no HTTP: ${JSON.stringify(rest.slice(0, 200))}`);
    const code = Number(head[1]);
    const length = /^content-length: (\d+)/im.exec(head[2] ?? '')?.[1];
    rest = rest.slice(head[0].length);
    if (code === 100) continue;
    assert.ok(length !== undefined, head[0]);
    const answer = { code, body: rest.slice(0, Number(length)) };
    answers.push(answer);
    // An answer to HEAD has a length and no body.
    rest = rest.startsWith('HTTP/1.1 ') ? rest : rest.slice(Number(length));
  }
  return answers;
}

/** @returns how many answers there were. */
function assertStatuses(text: string): number {
  const answers = answersOf(text);
  for (const answer of answers) {
    assert.notEqual(answer.code, 500, answer.body);
    if (answer.code < 400 || answer.body.startsWith('HTTP/') || answer.body === '') continue;
    const status = JSON.parse(answer.body) as { kind: string; code: number };
    assert.deepEqual([status.kind, status.code], ['Status', answer.code]);
  }
  return answers.length;
}

async function assertAlive(server: HttpServer): Promise<void> {
  const [answer] = answersOf(
    await exchange(server, 'GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'),
  );
  assert.equal(answer?.code, 200);
  while (server.traffic.inFlight.mutating + server.traffic.inFlight.readonly > 0) {
    await new Promise((next) => void setImmediate(next));
  }
}

const strict = { limits: { headersTimeoutMs: 2_000, requestTimeoutMs: 2_000 } };

test('valid requests are understood in the raw form used here', async () => {
  await using server = await serveThings(undefined, strict);
  const answers = answersOf(await exchange(server, `${post}${chunked}${get}`));
  assert.deepEqual(
    answers.map(({ code }) => code),
    [201, 200, 200],
  );
});

test('known tricks', async () => {
  await using server = await serveThings(undefined, strict);
  const line = (target: string, method = 'GET'): string =>
    `${method} ${target} HTTP/1.1\r\nHost: x\r\n${authorization}Connection: close\r\n\r\n`;
  const inA = '/api/v1/namespaces/a/pods';
  const withHeaders = (headers: string, more = ''): string =>
    `POST ${inA} HTTP/1.1\r\nHost: x\r\n${authorization}${headers}\r\n\r\n${more}`;
  const cases: readonly (readonly [string, string | Buffer, number | undefined])[] = [
    ['nothing', '', undefined],
    ['no HTTP', 'hello\r\n\r\n', 400],
    ['TLS to a plain port', Buffer.from([0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0]), 400],
    ['HTTP/2 preface', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
    ['HTTP/0.9', 'GET /api\r\n\r\n', 400],
    ['no host', `GET ${inA} HTTP/1.1\r\n${authorization}\r\n`, 400],
    ['headers too long', line(`${inA}?${'x'.repeat(70_000)}`), 431],
    ['one header too long', withHeaders(`X: ${'x'.repeat(70_000)}`), 431],
    ['a NUL in the path', line(`${inA}/a\0b`), 400],
    ['an escaped NUL', line(`${inA}/a%00b`), 404],
    ['dots', line('/api/v1/namespaces/../../etc/passwd'), 404],
    ['escaped dots', line(`${inA}/%2e%2e`), 404],
    ['an overlong name', line(`${inA}/${'a'.repeat(10_000)}`), 404],
    ['overlong UTF-8', line(`${inA}/%c0%af`), 400],
    ['a whole URL', line(`http://other${inA}`), 200],
    ['a foreign scheme', line(`ftp://other${inA}`), 400],
    ['an asterisk', line('*', 'OPTIONS'), 400],
    ['CONNECT', line('x:1', 'CONNECT'), undefined],
    ['an unknown method', line(inA, 'BREW'), 400],
    ['a rare method', line(inA, 'PROPFIND'), 405],
    ['TRACE', line(inA, 'TRACE'), 405],
    ['an upgrade', withHeaders('Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 2', '{}'), 201],
    ['two lengths', withHeaders('Content-Length: 2\r\nContent-Length: 3', '{} '), 400],
    [
      'a length and chunks',
      withHeaders('Content-Length: 2\r\nTransfer-Encoding: chunked', '2\r\n{}\r\n0\r\n\r\n'),
      400,
    ],
    ['a negative length', withHeaders('Content-Length: -1', '{}'), 400],
    ['a huge length', withHeaders('Content-Length: 99999999999999999999', '{}'), 400],
    ['a large length', withHeaders('Content-Length: 999999999999', '{}'), 413],
    ['a chunk of no size', withHeaders('Transfer-Encoding: chunked', 'zz\r\n{}\r\n'), 400],
    ['a chunk too large to be', withHeaders('Transfer-Encoding: chunked', 'ffffffffffffffffff\r\n{}'), 400],
    [
      'a long chunk extension',
      withHeaders('Transfer-Encoding: chunked', `2;${'x'.repeat(20_000)}\r\n{}\r\n0\r\n\r\n`),
      413,
    ],
    ['another transfer coding', withHeaders('Transfer-Encoding: gzip', '{}'), 400],
    ['an obsolete fold', withHeaders('X: a\r\n b\r\nContent-Length: 2', '{}'), 400],
    ['a bare line feed', `GET ${inA} HTTP/1.1\nHost: x\n${authorization}\n`, 400],
    ['a space before the colon', withHeaders('X : a', ''), 400],
    ['an unknown expectation', withHeaders('Expect: wonders\r\nContent-Length: 2', '{}'), 417],
    ['a body that ends early', withHeaders('Content-Length: 10', '{'), undefined],
    ['a chunk that ends early', withHeaders('Transfer-Encoding: chunked', 'a\r\n{'), undefined],
    ['two tokens', withHeaders(`${authorization}Content-Length: 2`, '{}'), 201],
  ];
  for (const [name, bytes, expected] of cases) {
    const text = await exchange(server, bytes);
    assertStatuses(text);
    const [answer] = answersOf(text);
    // Where nothing is expected a refusal is as good.
    if (expected === undefined) assert.ok(answer === undefined || answer.code >= 400, `${name}: ${text}`);
    else assert.equal(answer?.code, expected, `${name}: ${text.slice(0, 300)}`);
  }
  await assertAlive(server);
});

test('requests with bytes changed, cut out, repeated or put in', async () => {
  const errors: unknown[] = [];
  let answered = 0;
  const log = {
    error: (fields: unknown) => void errors.push(fields),
    warn: () => undefined,
    debug: () => undefined,
  };
  await using server = await serveThings(undefined, { ...strict, log: log as never });
  const edit = fc.record({
    at: fc.double({ min: 0, max: 1, noNaN: true }),
    length: fc.nat({ max: 12 }),
    kind: fc.constantFrom('cut', 'repeat', 'put', 'flip'),
    text: fc.constantFrom(
      '\r\n',
      '\0',
      '{',
      '"',
      '%',
      '..',
      '/',
      ' ',
      ':',
      '\u00ff',
      '[',
      '-1',
      '9'.repeat(20),
      '\\',
      '&x ',
    ),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(post, chunked, get),
      fc.array(edit, { minLength: 1, maxLength: 4 }),
      async (request, edits) => {
        let bytes = Buffer.from(request);
        for (const { at, length, kind, text } of edits) {
          const start = Math.floor(at * bytes.length);
          const piece = bytes.subarray(start, start + length);
          const middle = {
            cut: [],
            repeat: [piece, piece],
            put: [Buffer.from(text, 'latin1'), piece],
            flip: [piece.map((byte) => byte ^ 0x15)],
          };
          bytes = Buffer.concat([bytes.subarray(0, start), ...middle[kind], bytes.subarray(start + length)]);
        }
        answered += Math.min(1, assertStatuses(await exchange(server, bytes)));
      },
    ),
    { numRuns: 1000 },
  );
  assert.deepEqual(errors, []);
  assertReached(answered > scaled(500), `${answered} answered`);
  await assertAlive(server);
});

test('bodies of any bytes, in each of the forms', async () => {
  await using server = await serveThings(undefined, strict);
  const forms = [
    ['POST', 'pods', 'application/json'],
    ['POST', 'pods', 'application/yaml'],
    ['PATCH', 'pods/x', 'application/json-patch+json'],
    ['PATCH', 'pods/x', 'application/apply-patch+yaml'],
    ['DELETE', 'pods/x', 'application/json'],
  ] as const;
  const pieces = fc.constantFrom(
    '{',
    '}',
    '[',
    ']',
    '"',
    ':',
    ',',
    'a',
    '1',
    '&a ',
    '*a',
    '\n',
    '- ',
    '\u0000',
    'é',
    '\\u',
    '\\ud800',
    '9'.repeat(30),
    'e999',
  );
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...forms),
      fc.oneof(
        fc.array(pieces, { maxLength: 30 }).map((list) => Buffer.from(list.join(''))),
        fc.uint8Array({ maxLength: 60 }).map((list) => Buffer.from(list)),
      ),
      async ([method, path, type], bytes) => {
        const head =
          `${method} /api/v1/namespaces/a/${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${authorization}` +
          `Content-Type: ${type}\r\nContent-Length: ${bytes.length}\r\n\r\n`;
        const text = await exchange(server, Buffer.concat([Buffer.from(head), bytes]));
        assertStatuses(text);
        assert.equal(answersOf(text).length, 1);
      },
    ),
    { numRuns: 500 },
  );
  await assertAlive(server);
});
