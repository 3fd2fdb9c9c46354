/** Writing an answer: headers, whole texts, and texts that come in pieces. */
import type { ServerResponse } from 'node:http';
import { constants, createGzip } from 'node:zlib';
import type { Exchange } from './exchange.ts';
import { warningHeaders } from './warnings.ts';
import type { TextStream } from '../verbs/request.ts';
import type { Traffic } from './traffic.ts';

/** Shorter answers are not compressed (apiserver `responsewriters/writers.go`). */
export const compressFromUnits = 128 * 1024;

/** `headers` are alternating names and values, which node takes unchanged. */
export function writeHead(exchange: Exchange, code: number, headers: string[]): void {
  headers.push('Audit-Id', exchange.auditId, 'Cache-Control', 'no-cache, private');
  if (exchange.warnings.length > 0) {
    for (const value of warningHeaders(exchange.warnings)) {
      // The headers of a watch are sent without a body: see withWarnings.
      headers.push('Warning', exchange.isLong ? value.replaceAll(/[^ -~]+/g, '?') : value);
    }
  }
  exchange.response.writeHead(code, headers);
}

/** node joins headers with a first text in UTF-8, which spoils warnings beyond ASCII; not with a Buffer. */
function withWarnings({ warnings }: Exchange, text: string | Uint8Array): string | Uint8Array {
  return warnings.length > 0 && typeof text === 'string' ? Buffer.from(text) : text;
}

/** A whole answer. @returns the length of its body in bytes. */
export function sendWhole(
  exchange: Exchange,
  code: number,
  contentType: string,
  body: string | Uint8Array,
  more: readonly string[] = [],
): number {
  const sizeBytes = typeof body === 'string' ? Buffer.byteLength(body) : body.byteLength;
  // A 304 is about a body that the client has, and its headers take the place of those that came with it: RFC 9111, 4.3.4.
  const about = code === 304 ? [] : ['Content-Type', contentType, 'Content-Length', String(sizeBytes)];
  writeHead(exchange, code, [...about, ...more]);
  const { response } = exchange;
  if (typeof body !== 'string') response.end(body);
  // All characters are one byte: latin1 is quicker to write.
  else if (sizeBytes === body.length) response.end(body, 'latin1');
  else response.end(withWarnings(exchange, body));
  return sizeBytes;
}

/**
 * An answer in pieces, each made when the client has taken enough of those before it. A single short piece is sent
 * as a whole.
 *
 * @param compress whether the client takes gzip, and should get it.
 * @returns the length of the body, uncompressed, in UTF-16 units for what was not sent whole.
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

/** Waits until more can be written. `false`: the client has gone. */
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
 * Ends when the text does or the client has gone.
 *
 * @throws what reading the text throws; the answer has begun then.
 */
export async function streamText(
  exchange: Exchange,
  { contentType, chunks }: TextStream,
  traffic: Traffic,
): Promise<void> {
  const { response } = exchange;
  writeHead(exchange, 200, ['Content-Type', contentType]);
  // A follower has to know that it has begun, which may be long before the first data.
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
