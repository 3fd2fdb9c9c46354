/** Reads the body of a request up to a limit, and decodes it by its media type. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { decodeProtobuf } from '../protobuf/decode.ts';
import { type ApiError, apiErrors } from '../resources/api-error.ts';
import type { Resource, Verb } from '../resources/resource.ts';
import {
  type Body,
  customPatchMediaTypes,
  type PatchMediaType,
  patchMediaTypes,
  type ResourceRequest,
} from '../verbs/request.ts';
import { BodyMistake } from '../body/body-mistake.ts';
import { decodeJson } from '../body/json-body.ts';
import type { YamlReader } from '../body/yaml-reader.ts';
import type { Exchange } from './exchange.ts';
import type { ResourceRoute } from './route.ts';
import type { Traffic } from './traffic.ts';

type BodyFormat = 'json' | 'yaml' | 'protobuf';

const formats: Readonly<Record<string, BodyFormat>> = {
  'application/json': 'json',
  'application/yaml': 'yaml',
  'application/vnd.kubernetes.protobuf': 'protobuf',
};

/** The format that the Content-Type names, for requests other than patches; JSON without one. @throws {ApiError} 415 */
export function bodyFormat(contentType: string | undefined, withProtobuf: boolean): BodyFormat {
  const format = contentType === undefined ? 'json' : formats[mediaType(contentType)];
  if (format === undefined || (format === 'protobuf' && !withProtobuf)) throw unsupported(withProtobuf);
  return format;
}

function unsupported(withProtobuf: boolean): ApiError {
  const accepted = Object.keys(formats).filter((type) => withProtobuf || formats[type] !== 'protobuf');
  return apiErrors.unsupportedMediaType('', accepted);
}

/** @throws {ApiError} 415, which names the patch types that this kind supports. */
export function patchFormat(contentType: string | undefined, resource: Resource): PatchMediaType {
  const sent = contentType === undefined ? '' : mediaType(contentType);
  const accepted = resource.isCustom ? customPatchMediaTypes : patchMediaTypes;
  const type = accepted.find((one) => one === sent);
  if (type === undefined) throw apiErrors.unsupportedMediaType('', accepted);
  return type;
}

function mediaType(contentType: string): string {
  const end = contentType.indexOf(';');
  return (end === -1 ? contentType : contentType.slice(0, end)).trim().toLowerCase();
}

/** Whether the request has a body that is not empty. */
export function hasBody(request: IncomingMessage): boolean {
  const { headers } = request;
  const length = headers['content-length'];
  return length === undefined ? headers['transfer-encoding'] !== undefined : length !== '0';
}

/**
 * Reads the whole body, which must not exceed `limitBytes`. On an error, the caller discards the rest.
 *
 * @throws {ApiError} 413 as soon as it exceeds the limit; {@link ClientGoneError} if the connection ends
 * first.
 */
export function readBody(
  request: IncomingMessage,
  response: ServerResponse,
  limitBytes: number,
): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  if (Number(request.headers['content-length'] ?? 0) > limitBytes) {
    reject(tooLarge(limitBytes));
    return promise;
  }
  let first: Buffer | undefined;
  let more: Buffer[] | undefined;
  let length = 0;
  const onData = (chunk: Buffer): void => {
    length += chunk.length;
    if (length > limitBytes) {
      more = first = undefined;
      request.off('data', onData);
      request.resume();
      reject(tooLarge(limitBytes));
    } else if (first === undefined) first = chunk;
    else (more ??= [first]).push(chunk);
  };
  request.on('data', onData);
  request.once('end', () => {
    resolve(more === undefined ? (first ?? Buffer.alloc(0)) : Buffer.concat(more, length));
  });
  // Also follows an answer that was sent before the end of the request; no other event reports that.
  response.once('close', () => {
    if (!request.readableEnded) reject(new ClientGoneError());
  });
  return promise;
}

/** The client has disconnected and gets no answer. */
export class ClientGoneError extends Error {
  override readonly name = 'ClientGoneError';
  constructor() {
    super('the client disconnected before the end of its request');
  }
}

function tooLarge(limitBytes: number): ApiError {
  return apiErrors.tooLarge(`Request entity too large: limit is ${limitBytes}`);
}

/** @throws {ApiError} 400 in the words that the API server uses for this verb */
async function decodeBody(
  bytes: Buffer,
  format: BodyFormat,
  { verb, resource }: ResourceRoute,
  readYaml: (bytes: Buffer) => Promise<Body>,
): Promise<Body> {
  try {
    if (format === 'json') return decodeJson(bytes);
    if (format === 'yaml') return await readYaml(bytes);
    return { value: decodeProtobuf(bytes), duplicates: [] };
  } catch (error) {
    if (error instanceof BodyMistake) {
      throw apiErrors.badRequest(refusal(error.message, bytes, format, verb, resource));
    }
    throw error;
  }
}

/** The wordings are those of apiserver `pkg/endpoints/handlers`: rest.go, patch.go, delete.go. */
function refusal(
  why: string,
  bytes: Buffer,
  format: BodyFormat,
  verb: Verb,
  { kind }: Pick<Resource, 'kind'>,
): string {
  if (verb === 'patch') return `error decoding ${format === 'yaml' ? 'YAML' : 'patch'}: ${why}`;
  const cause = format !== 'json' ? why : `couldn't get version/kind; json parse error: ${why}`;
  if (verb === 'delete' || verb === 'deletecollection') return cause;
  return `the object provided is unrecognized (must be of type ${kind}): ${cause} (${summaryOf(bytes)})`;
}

const summaryBytes = 30;

function summaryOf(bytes: Buffer): string {
  if (bytes.length === 0) return '<empty>';
  const start = bytes.subarray(0, summaryBytes);
  const text = bytes[0] === 0x7b ? start.toString('utf8') : start.toString('hex');
  return bytes.length > summaryBytes ? `${text} ...` : text;
}

type ResourceBody = Pick<ResourceRequest, 'body' | 'patchType'>;

const nothing: ResourceBody = { body: undefined, patchType: undefined };

/** @throws {ApiError} 400, 413, 415; {@link ClientGoneError} */
export async function readResourceBody(
  exchange: Exchange,
  route: ResourceRoute,
  limitBytes: number,
  yaml: YamlReader,
  traffic: Traffic,
): Promise<ResourceBody> {
  const { request, response } = exchange;
  const { verb, resource } = route;
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
  const body = await decodeBody(bytes, format, route, async (text) => {
    const { signal } = exchange;
    try {
      return await yaml.read(text, signal);
    } catch (error) {
      throw signal.aborted ? new ClientGoneError() : error;
    }
  });
  return { body, patchType };
}
