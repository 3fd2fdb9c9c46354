import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type ClientHttp2Session, connect as connectHttp2 } from 'node:http2';
import { connect } from 'node:net';
import { suite, test } from 'node:test';

import { Code, ConnectError } from '@connectrpc/connect';

import { descriptorsOf } from '../protobuf/descriptors.fixture.ts';
import { MessageCodec } from '../protobuf/message-codec.ts';
import { TemporaryDirectory } from '../testing/temporary-directory.fixture.ts';
import { GrpcClient } from './client.ts';
import { GrpcServer } from './server.ts';
import { GrpcError, grpcStatus } from './status.ts';
import { unixClient } from './unix-client.fixture.ts';

const messages = { Text: { text: [1, 'string'] } } as const;
const methods = {
  Echo: { service: 'test.v1.Test', input: 'Text', output: 'Text' },
  Other: { service: 'test.v1.Test', input: 'Text', output: 'Text' },
} as const;
const codec = new MessageCodec(messages, 'test');
const descriptors = descriptorsOf(messages, methods);

const echo = (bytes: Buffer): Buffer => {
  const { text } = codec.decode('Text', bytes);
  if (text === 'refused') throw new GrpcError(grpcStatus.ALREADY_EXISTS, 'it is there: 100 % \u00e4');
  if (text === 'fault') throw new TypeError('a fault');
  return codec.encode('Text', { text });
};

/** The error of a call. */
async function failure(call: Promise<unknown>): Promise<ConnectError> {
  const error = await call.then(
    () => assert.fail('it succeeded'),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof ConnectError, String(error));
  return error;
}

suite('server of gRPC', () => {
  test('answers messages of any length, many at a time, to a client that is not ours', async () => {
    using directory = new TemporaryDirectory();
    using server = new GrpcServer({ '/test.v1.Test/Echo': echo });
    await server.listen(directory.at('socket'));
    const call = unixClient(directory.at('socket'));
    const texts = [
      '',
      'short',
      'x'.repeat(1_000_000),
      ...Array.from({ length: 50 }, (_, at) => `text ${at}`),
    ];
    const answers = await Promise.all(texts.map((text) => call(descriptors.method('Echo'), { text })));
    assert.deepEqual(
      answers.map(({ text }) => text),
      texts,
    );
  });

  test('an error has its status and message; an unknown method, a fault and a message that is too long are errors', async () => {
    using directory = new TemporaryDirectory();
    using server = new GrpcServer({ '/test.v1.Test/Echo': echo });
    await server.listen(directory.at('socket'));
    const call = unixClient(directory.at('socket'));
    const refused = await failure(call(descriptors.method('Echo'), { text: 'refused' }));
    assert.deepEqual([refused.code, refused.rawMessage], [Code.AlreadyExists, 'it is there: 100 % \u00e4']);
    const fault = await failure(call(descriptors.method('Echo'), { text: 'fault' }));
    assert.deepEqual([fault.code, fault.rawMessage], [Code.Internal, 'a fault']);
    const unknown = await failure(call(descriptors.method('Other'), { text: '' }));
    assert.equal(unknown.code, Code.Unimplemented);
    const long = await failure(call(descriptors.method('Echo'), { text: 'x'.repeat(5 * 1024 * 1024) }));
    assert.equal(long.code, Code.Internal);
    assert.equal((await call(descriptors.method('Echo'), { text: 'still there' }))['text'], 'still there');
  });

  test('a client that ends in the middle of a request does no harm; calls end with the server', async () => {
    using directory = new TemporaryDirectory();
    using server = new GrpcServer({ '/test.v1.Test/Echo': echo });
    await server.listen(directory.at('socket'));
    const session: ClientHttp2Session = connectHttp2('http://localhost', {
      createConnection: () => connect(directory.at('socket')),
    });
    const stream = session.request({
      ':method': 'POST',
      ':path': '/test.v1.Test/Echo',
      'content-type': 'application/grpc',
    });
    stream.on('error', () => undefined);
    stream.write(Buffer.from([0, 0, 0, 0, 9, 1]));
    await once(session, 'connect');
    session.destroy();
    using client = new GrpcClient(directory.at('socket'));
    const options = { signal: undefined, timeoutMs: undefined };
    const message = codec.encode('Text', { text: 'ours' });
    for await (const answer of client.call('/test.v1.Test/Echo', message, options))
      assert.deepEqual(answer, message);
    server[Symbol.dispose]();
    await assert.rejects(async () => {
      for await (const _ of client.call('/test.v1.Test/Echo', message, options)) assert.fail('it answered');
    }, GrpcError);
  });

  test('a path where it cannot listen is an error', async () => {
    using directory = new TemporaryDirectory();
    using server = new GrpcServer({});
    await assert.rejects(server.listen(directory.at('absent/socket')), { syscall: 'listen' });
  });
});
