/** Documents that clients may cache: each has an entity tag, and a client that has it already gets `304 Not Modified`. */
import { createHash } from 'node:crypto';

import type { PlainAnswer, PlainRequest } from '../http/plain.ts';

/** A hash in upper-case hexadecimal, as in Kubernetes' entity tags and the `hash` of OpenAPI paths. */
export function hashOf(content: string | Uint8Array): string {
  return createHash('sha256').update(content).digest('hex').toUpperCase();
}

/** The answer with a document, in the form that the Accept header requests; 304 for a client that already has it. */
export function taggedAnswer(
  request: PlainRequest,
  hash: string,
  headers: Readonly<Record<string, string>>,
  body: () => string | Uint8Array,
): PlainAnswer {
  const tagged = { ...headers, etag: `"${hash}"`, vary: 'Accept' };
  if (!hasTag(headerOf(request, 'if-none-match'), hash)) return { code: 200, headers: tagged, body: body() };
  const { 'content-type': _type, 'content-encoding': _encoding, ...rest } = tagged as Record<string, string>;
  return { code: 304, headers: rest, body: '' };
}

export function headerOf(request: PlainRequest, name: string): string | undefined {
  const value = request.headers[name];
  return typeof value === 'string' || value === undefined ? value : value.join(', ');
}

/** Whether If-None-Match contains the tag; it is compared weakly (RFC 9110, section 13.1.2). */
function hasTag(header: string | undefined, hash: string): boolean {
  if (header === undefined) return false;
  return header
    .split(',')
    .some((tag) => tag.trim() === '*' || tag.trim().replace(/^W\//, '') === `"${hash}"`);
}
