/** Writes answers: headers, whole texts, and texts in pieces. */
import type { ServerResponse } from 'node:http';
import { constants, createGzip } from 'node:zlib';
import type { Exchange } from './exchange.ts';
import { warningHeaders } from './warnings.ts';
import type { TextStream } from '../verbs/request.ts';
import type { Traffic } from './traffic.ts';

/** Shorter answers are not compressed (apiserver `responsewriters/writers.go`). */
export const compressFromUnits = 128 * 1024;

/** @param headers alternating names and values, which Node.js sends unchanged. */
export function writeHead(exchange: Exchange, code: number, headers: string[]): void {
  headers.push('Audit-Id', exchange.auditId, 'Cache-Control', 'no-cache, private');
  if (exchange.warnings.length > 0) {
    for (const value of warningHeaders(exchange.warnings)) {
      // The headers of a watch are sent before its body, so they may only contain ASCII: see withWarnings.
      headers.push('Warning', exchange.isLong ? value.replaceAll(/[^ -~]+/g, '?') : value);
    }
  }
  exchange.response.writeHead(code, headers);
}

/** Node.js encodes the headers and a first string as one UTF-8 text, which corrupts non-ASCII warnings; a Buffer is sent apart. */
function withWarnings({ warnings }: Exchange, text: string | Uint8Array): string | Uint8Array {
  return warnings.length > 0 && typeof text === 'string' ? Buffer.from(text) : text;
}

/** Sends a whole answer. @returns the length of its body in bytes. */
export function sendWhole(
  exchange: Exchange,
  code: number,
  contentType: string,
  body: string | Uint8Array,
  more: readonly string[] = [],
): number {
  const sizeBytes = typeof body === 'string' ? Buffer.byteLength(body) : body.byteLength;
  // The headers of a 304 replace those of the answer that the client has cached (RFC 9111, 4.3.4), so they must not describe an empty body.
  const about = code === 304 ? [] : ['Content-Type', contentType, 'Content-Length', String(sizeBytes)];
  writeHead(exchange, code, [...about, ...more]);
  const { response } = exchange;
  if (typeof body !== 'string') response.end(body);
  // Each character is one byte: latin1 is faster to write.
  else if (sizeBytes === body.length) response.end(body, 'latin1');
  else response.end(withWarnings(exchange, body));
  return sizeBytes;
}

/**
 * Sends an answer in pieces, each made when the client has read enough of the previous ones. A single short piece is
 * sent as a whole.
 *
 * @param compress whether to send gzip.
 * @returns the uncompressed length of the body: in bytes if it was sent whole, otherwise in UTF-16 units.
 */
export async function sendPieces(
  exchange: Exchange,
  code: number,
  contentType: string,
  pieces: Iterable<string | Uint8Array>,
  compress: boolean,
): Promise<number> {
  const iterator = pieces[Symbol.iterator]();
  const first = iterator.next();
  const second = first.done === true ? first : iterator.next();
  if (second.done === true) {
    const text = first.done === true ? '' : first.value;
    if (!compress || text.length < compressFromUnits) return sendWhole(exchange, code, contentType, text);
  }
  const { response } = exchange;
  const headers = ['Content-Type', contentType];
  if (compress) headers.push('Content-Encoding', 'gzip', 'Vary', 'Accept-Encoding');
  writeHead(exchange, code, headers);
  const gzip = compress ? createGzip({ level: constants.Z_BEST_SPEED }) : undefined;
  gzip?.pipe(response);
  response.once('close', () => gzip?.destroy());
  const out = gzip ?? response;

  let length = 0;
  for (let next = first; next.done !== true; next = next === first ? second : iterator.next()) {
    length += next.value.length;
    if (out.write(withWarnings(exchange, next.value))) continue;
    if (!(await drained(out, response))) {
      iterator.return?.();
      return length;
    }
  }
  out.end();
  return length;
}

/** Waits until more can be written. `false` if the client has disconnected. */
export function drained(out: NodeJS.WritableStream, response: ServerResponse): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  if (response.destroyed) return Promise.resolve(false);
  const onDrain = (): void => {
    response.off('close', onClose);
    resolve(true);
  };
  const onClose = (): void => {
    out.off('drain', onDrain);
    resolve(false);
  };
  out.once('drain', onDrain);
  response.once('close', onClose);
  return promise;
}

/**
 * Sends a text as it is produced. Resolves when it ends or the client has disconnected.
 *
 * @throws what reading the text throws, after the answer has begun.
 */
export async function streamText(
  exchange: Exchange,
  { contentType, chunks }: TextStream,
  traffic: Traffic,
): Promise<void> {
  const { response } = exchange;
  writeHead(exchange, 200, ['Content-Type', contentType]);
  // A client that follows has to learn that the answer has begun, which may be long before the first data.
  response.flushHeaders();
  for await (const chunk of chunks) {
    if (response.destroyed) return;
    traffic.sentBytes += chunk.length;
    if (chunk.length === 0 || response.write(chunk)) continue;
    exchange.stalledSinceMs = performance.now();
    if (!(await drained(response, response))) return;
    exchange.stalledSinceMs = undefined;
  }
  response.end();
}
