/** The body of a request, as a verb receives it. */
import type { Body, PatchMediaType } from '../verbs/request.ts';
import { bodyFormat, decodeBody, hasBody, patchFormat, readBody } from './body.ts';
import type { Exchange } from './exchange.ts';
import type { ResourceRoute } from './route.ts';
import type { Traffic } from './traffic.ts';

interface ResourceBody {
  readonly body: Body | undefined;
  readonly patchType: PatchMediaType | undefined;
}

const nothing: ResourceBody = { body: undefined, patchType: undefined };

/** @throws {ApiError} 400, 413, 415; {@link ClientGoneError} */
export async function readResourceBody(
  { request, response }: Pick<Exchange, 'request' | 'response'>,
  { verb, resource }: ResourceRoute,
  limitBytes: number,
  traffic: Traffic,
): Promise<ResourceBody> {
  if (verb === 'get' || verb === 'list' || verb === 'watch') return nothing;
  const isDeletion = verb === 'delete' || verb === 'deletecollection';
  // DeleteOptions may be left out.
  if (isDeletion && !hasBody(request)) return nothing;
  const contentType = request.headers['content-type'];
  const patchType = verb === 'patch' ? patchFormat(contentType, resource) : undefined;
  const format =
    patchType === undefined
      ? // Custom resources have no protobuf; their deletions do.
        bodyFormat(contentType, isDeletion || !resource.isCustom)
      : patchType === 'application/apply-patch+yaml'
        ? 'yaml'
        : 'json';
  const bytes = hasBody(request) ? await readBody(request, response, limitBytes) : Buffer.alloc(0);
  traffic.receivedBytes += bytes.length;
  if (isDeletion && bytes.length === 0) return nothing;
  return { body: decodeBody(bytes, format, verb, resource), patchType };
}
