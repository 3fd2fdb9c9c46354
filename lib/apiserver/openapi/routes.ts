import { gunzipSync, gzipSync } from 'node:zlib';

import { hashOf, headerOf, taggedAnswer } from '../discovery/documents.ts';
import { groupsOf } from '../discovery/groups.ts';
import type { PlainAnswer, PlainRequest, PlainRoute } from '../http/plain.ts';
import { matches, type MediaRange, parseAccept } from '../render/accept.ts';
import { apiErrors } from '../resources/api-error.ts';
import type { Registry } from '../resources/registry.ts';
import type { Resource } from '../resources/resource.ts';
import type { JsonObject } from '../../json/json.ts';
import { gnosticDocument } from './gnostic.ts';
import { documentPath } from './operations.ts';
import type { Definitions } from './schemas.ts';
import { openApiV2 } from './v2.ts';
import { openApiV3 } from './v3.ts';

/** A document, kept compressed: that takes a tenth of the memory, and most clients accept gzip. */
interface Document {
  readonly hash: string;
  readonly gzip: Buffer;
}

/**
 * The cached document of one version of a group. It is kept until the kinds of this version change.
 */
interface Entry {
  readonly resources: readonly Resource[];
  document: Document | undefined;
}

interface Index {
  readonly generation: number;
  readonly entries: ReadonlyMap<string, Entry>;
  /** The answer of `/openapi/v3`. */
  text: string | undefined;
  readonly v2: Map<V2Form, Document>;
}

type V2Form = 'json' | 'protobuf';

/** client-go requests the older type; the answer to either has the newer one (kube-openapi `pkg/handler/handler.go`). */
const protobufTypes = [
  'com.github.proto-openapi.spec.v2.v1.0+protobuf',
  'com.github.proto-openapi.spec.v2@v1.0+protobuf',
] as const;
const yearMs = 365 * 24 * 3600 * 1000;

/** `info.version` of the documents. */
const release = 'v1.35.0';

/**
 * Serves `/openapi/v3`, a document for each version of a group below it, and `/openapi/v2`.
 *
 * Documents are made on first use, and kept compressed. If the kinds of one version of a group change, only its
 * document, the list of all documents and `/openapi/v2` are made again.
 *
 * The caller checks the method.
 *
 * @throws {ApiError} 406 if the requested form does not exist.
 */
export function openApiRoutes(registry: Registry): PlainRoute {
  let latest: Index | undefined;
  const index = (): Index => {
    if (latest?.generation !== registry.generation) latest = indexOf(registry, latest);
    return latest;
  };
  return (request) => {
    if (!request.path.startsWith('/openapi/')) return undefined;
    const path = request.path.replace(/\/$/, '');
    return answerOf(request, path, index(), registry);
  };
}

function answerOf(
  request: PlainRequest,
  path: string,
  index: Index,
  registry: Registry,
): PlainAnswer | undefined {
  if (path === '/openapi/v2') return v2Answer(request, index, registry);
  if (path === '/openapi/v3') return indexAnswer(request, index, registry);
  const key = path.slice('/openapi/v3/'.length);
  const entry = path.startsWith('/openapi/v3/') ? index.entries.get(key) : undefined;
  return entry === undefined ? undefined : groupAnswer(request, key, documentOf(entry, registry));
}

function indexOf(registry: Registry, before: Index | undefined): Index {
  const entries = new Map<string, Entry>();
  for (const { resources, ...of } of groupsOf(registry).flatMap(({ versions }) => versions)) {
    const path = documentPath(of);
    const known = before?.entries.get(path);
    const same = known !== undefined && isSame(known.resources, resources);
    entries.set(path, same ? known : { resources, document: undefined });
  }
  return { generation: registry.generation, entries, text: undefined, v2: new Map() };
}

function isSame(a: readonly Resource[], b: readonly Resource[]): boolean {
  return a.length === b.length && a.every((resource, index) => resource === b[index]);
}

function indexAnswer(request: PlainRequest, index: Index, registry: Registry): PlainAnswer {
  if (index.text === undefined) {
    const paths: Record<string, object> = {};
    for (const path of [...index.entries.keys()].sort()) {
      const entry = index.entries.get(path);
      if (entry === undefined) continue;
      paths[path] = { serverRelativeURL: hashedPath(path, documentOf(entry, registry).hash) };
    }
    index.text = JSON.stringify({ paths });
  }
  const { text } = index;
  return taggedAnswer(request, hashOf(text), { 'content-type': 'application/json' }, () => text);
}

/** Clients cache a document with its hash in the path forever (KEP-2896); an old hash is redirected to the new one. */
function groupAnswer(request: PlainRequest, key: string, document: Document): PlainAnswer {
  if (
    !parseAccept(headerOf(request, 'accept') ?? '*/*').some((range) => matches(range, 'application', 'json'))
  ) {
    throw apiErrors.notAcceptable(['application/json']);
  }
  const asked = request.query.get('hash') ?? '';
  if (asked === '') return documentAnswer(request, document, 'application/json', {});
  if (asked !== document.hash) {
    return { code: 301, headers: { location: hashedPath(key, document.hash), vary: 'Accept' }, body: '' };
  }
  return documentAnswer(request, document, 'application/json', {
    'cache-control': 'public, immutable',
    expires: new Date(Date.now() + yearMs).toUTCString(),
  });
}

function hashedPath(key: string, hash: string): string {
  return `/openapi/v3/${key}?hash=${hash}`;
}

function v2Answer(request: PlainRequest, index: Index, registry: Registry): PlainAnswer {
  const form = v2FormOf(headerOf(request, 'accept'));
  if (form === undefined) {
    throw apiErrors.notAcceptable(['application/json', `application/${protobufTypes[0]}`]);
  }
  let document = index.v2.get(form);
  if (document === undefined) {
    const json = openApiV2(registry.all, definitionsOf(registry), release);
    const content = form === 'json' ? JSON.stringify(json) : gnosticDocument(json);
    index.v2.set(form, (document = compressed(content)));
  }
  const contentType = `application/${form === 'json' ? 'json' : protobufTypes[0]}`;
  return documentAnswer(request, document, contentType, {});
}

function v2FormOf(accept: string | undefined): V2Form | undefined {
  const isProtobuf = ({ type, subtype }: MediaRange): boolean =>
    type === 'application' && protobufTypes.some((one) => one === subtype);
  for (const range of parseAccept(accept ?? '*/*')) {
    if (matches(range, 'application', 'json')) return 'json';
    if (isProtobuf(range)) return 'protobuf';
  }
  return undefined;
}

function documentOf(entry: Entry, registry: Registry): Document {
  entry.document ??= compressed(
    JSON.stringify(openApiV3(entry.resources, definitionsOf(registry), release) satisfies JsonObject),
  );
  return entry.document;
}

function compressed(content: string | Uint8Array): Document {
  return { hash: hashOf(content), gzip: gzipSync(content, { level: 5 }) };
}

/** Schemas of the built-in kinds, to which custom kinds may refer too. */
function definitionsOf(registry: Registry): Definitions {
  return registry.all.find(({ isCustom }) => !isCustom)?.openApi.definitions ?? new Map();
}

function documentAnswer(
  request: PlainRequest,
  { hash, gzip }: Document,
  contentType: string,
  headers: Readonly<Record<string, string>>,
): PlainAnswer {
  const plain = !acceptsGzip(headerOf(request, 'accept-encoding'));
  const more = plain ? {} : { 'content-encoding': 'gzip' };
  const answer = taggedAnswer(request, hash, { 'content-type': contentType, ...headers, ...more }, () =>
    plain ? gunzipSync(gzip) : gzip,
  );
  return { ...answer, headers: { ...answer.headers, vary: 'Accept, Accept-Encoding' } };
}

function acceptsGzip(header: string | undefined): boolean {
  return (header ?? '').split(',').some((coding) => {
    const [name = '', ...parameters] = coding.split(';').map((part) => part.trim().toLowerCase());
    return (
      (name === 'gzip' || name === '*') && !parameters.some((parameter) => /^q=0(?:\.0*)?$/.test(parameter))
    );
  });
}
