/** Messages in a stream of HTTP/2: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md */
import type { Readable } from 'node:stream';

import { GrpcError, grpcStatus } from './status.ts';

/** A flag and the length come before each message. */
const PREFIX_BYTES = 5;

/** A message, with its prefix. */
export function framed(message: Uint8Array): Buffer {
  const prefix = Buffer.alloc(PREFIX_BYTES);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}

/** The messages of a stream. @throws {GrpcError} for one that is compressed, too long or incomplete */
export async function* messagesOf(stream: Readable, maxBytes: number): AsyncGenerator<Buffer, void, void> {
  let chunks: Buffer[] = [];
  let haveBytes = 0;
  let needBytes = PREFIX_BYTES;
  // A server still answers on a stream from which it no longer reads.
  const received = stream.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>;
  for await (const chunk of received) {
    chunks.push(chunk);
    haveBytes += chunk.length;
    // Chunks are joined only once a frame is complete: a long answer comes in many chunks.
    while (haveBytes >= needBytes) {
      const bytes = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
      chunks = [bytes];
      const lengthBytes = bytes.readUInt32BE(1);
      if (bytes[0] !== 0 || lengthBytes > maxBytes) {
        const why = bytes[0] === 0 ? `of ${lengthBytes} bytes` : 'that is compressed';
        throw new GrpcError(grpcStatus.INTERNAL, `there is a message ${why}`);
      }
      needBytes = PREFIX_BYTES + lengthBytes;
      if (haveBytes < needBytes) break;
      yield bytes.subarray(PREFIX_BYTES, needBytes);
      chunks = [bytes.subarray(needBytes)];
      haveBytes -= needBytes;
      needBytes = PREFIX_BYTES;
    }
  }
  if (haveBytes > 0) throw new GrpcError(grpcStatus.UNAVAILABLE, 'it ends in the middle of a message');
}
