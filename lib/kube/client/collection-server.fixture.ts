/**
 * A small API server: one collection with its history, over real HTTP. Lists in pages of one version, watches from a
 * version, bookmarks, 410 after compaction, restarts; as the API's documentation has them.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

import { createServer } from '../../net/node-http.ts';
import { json, status } from './api-server.fixture.ts';
import { type KubeObject, objectKey } from '../object/object.ts';

/** An object in one state; a deletion has the last one, with the version of the deletion. */
export interface Revision {
  readonly version: number;
  readonly key: string;
  readonly object: KubeObject;
  readonly text: string;
  readonly deleted: boolean;
  readonly previous: Revision | undefined;
}

interface Watcher {
  readonly response: ServerResponse;
  readonly matches: (object: KubeObject) => boolean;
  /** Versions up to this one do not concern it. */
  readonly from: number;
}

interface CollectionServerOptions {
  /** Bookmarks come this often. Default: one minute. */
  readonly bookmarkMs?: number;
  /** Lists begin with their metadata, or end with it. Default: begin. */
  readonly metadataLast?: boolean;
  /** Ignores `limit`, as a server with a cache of its own may. */
  readonly ignoreLimit?: boolean;
  readonly firstVersion?: number;
}

/** Use {@link startCollectionServer}. */
export class CollectionServer implements AsyncDisposable {
  readonly #options: CollectionServerOptions;
  readonly #latest = new Map<string, Revision>();
  readonly #history: Revision[] = [];
  readonly #watchers = new Set<Watcher>();
  readonly #bookmarks: NodeJS.Timeout;
  #sorted: string[] | undefined;
  #version: number;
  #compacted: number;
  #server: Server | undefined;
  #port = 0;

  constructor(options: CollectionServerOptions) {
    this.#options = options;
    this.#version = options.firstVersion ?? 1;
    this.#compacted = this.#version;
    this.#bookmarks = setInterval(() => this.bookmark(), options.bookmarkMs ?? 60_000);
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  get version(): number {
    return this.#version;
  }

  get watchers(): number {
    return this.#watchers.size;
  }

  /** The current state: versions by key. */
  state(matches: (object: KubeObject) => boolean = () => true): Map<string, string> {
    const live = [...this.#latest.values()].filter(({ deleted, object }) => !deleted && matches(object));
    return new Map(live.map(({ key, version }) => [key, String(version)]));
  }

  async listen(): Promise<void> {
    const server = createServer((request, response) => this.#answer(request, response));
    await new Promise<void>((resolve) => server.listen(this.#port, '127.0.0.1', resolve));
    this.#port = (server.address() as AddressInfo).port;
    this.#server = server;
  }

  /** All connections break, and none is taken until `listen`. */
  async stop(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    for (const { response } of this.#watchers) response.destroy();
    this.#watchers.clear();
    server?.closeAllConnections();
    await new Promise((resolve) => (server ? server.close(resolve) : resolve(undefined)));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#bookmarks);
    await this.stop();
  }

  /** Creates an object, or replaces it. */
  put(object: KubeObject): string {
    return this.#write(object, false);
  }

  /** Deletes an object, where it is there. */
  delete(key: string): void {
    const revision = this.#latest.get(key);
    if (revision !== undefined && !revision.deleted) this.#write(revision.object, true);
  }

  /** Forgets the history: watches and pages of versions before this one get 410. */
  compact(): void {
    this.#compacted = this.#version;
    this.#history.length = 0;
    for (const [key, revision] of this.#latest) {
      if (revision.deleted) this.#latest.delete(key);
      else if (revision.previous) this.#latest.set(key, { ...revision, previous: undefined });
    }
    this.#sorted = undefined;
  }

  /** As if put back from an old backup: nothing is there, and versions begin again. Watches go on and hear nothing. */
  rollBack(version: number): void {
    this.#latest.clear();
    this.#history.length = 0;
    this.#sorted = undefined;
    this.#version = version;
    this.#compacted = version;
  }

  bookmark(): void {
    const object = { kind: 'Pod', apiVersion: 'v1', metadata: { resourceVersion: `${this.#version}` } };
    for (const { response } of this.#watchers)
      response.write(`${JSON.stringify({ type: 'BOOKMARK', object })}\n`);
  }

  #write(object: KubeObject, deleted: boolean): string {
    const key = objectKey(object);
    const version = ++this.#version;
    const written = { ...object, metadata: { ...object.metadata, resourceVersion: String(version) } };
    const previous = this.#latest.get(key);
    const revision = { version, key, object: written, text: JSON.stringify(written), deleted, previous };
    if (previous === undefined) this.#sorted = undefined;
    this.#latest.set(key, revision);
    this.#history.push(revision);
    for (const watcher of this.#watchers) this.#send(watcher, revision);
    return String(version);
  }

  /** An object that begins or ceases to match is one that comes or goes. */
  #send({ response, matches, from }: Watcher, { version, deleted, previous, object, text }: Revision): void {
    if (version <= from) return;
    const was = previous !== undefined && !previous.deleted && matches(previous.object);
    const is = !deleted && matches(object);
    if (!was && !is) return;
    const type = !is ? 'DELETED' : was ? 'MODIFIED' : 'ADDED';
    response.write(`{"type":"${type}","object":${text}}\n`);
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? '', 'http://api');
    const matches = selector(url);
    if (!url.pathname.endsWith('/pods')) {
      json(response, 404, status(404, 'NotFound', 'the server could not find the requested resource'));
    } else if (url.searchParams.get('watch') === 'true') {
      this.#watch(url, matches, response);
    } else {
      this.#list(url, matches, response);
    }
  }

  #watch({ searchParams }: URL, matches: Watcher['matches'], response: ServerResponse): void {
    const from = Number(searchParams.get('resourceVersion'));
    response.writeHead(200, { 'content-type': 'application/json' });
    response.flushHeaders();
    if (from < this.#compacted) {
      const object = status(410, 'Expired', `too old resource version: ${from} (${this.#compacted})`);
      response.end(`${JSON.stringify({ type: 'ERROR', object })}\n`);
      return;
    }
    const watcher = { response, matches, from };
    for (const revision of this.#history) this.#send(watcher, revision);
    this.#watchers.add(watcher);
    const seconds = Number(searchParams.get('timeoutSeconds') ?? 3600);
    const timer = setTimeout(() => response.end(), seconds * 1000);
    response.on('close', () => {
      clearTimeout(timer);
      this.#watchers.delete(watcher);
    });
  }

  #list({ searchParams }: URL, matches: Watcher['matches'], response: ServerResponse): void {
    const token = searchParams.get('continue');
    const [version, after] = token === null ? [this.#version, ''] : readToken(token);
    if (version < this.#compacted) {
      json(response, 410, status(410, 'Expired', 'The provided continue parameter is too old'));
      return;
    }
    const limit = this.#options.ignoreLimit ? Infinity : Number(searchParams.get('limit')) || Infinity;
    this.#sorted ??= [...this.#latest.keys()].sort();
    const texts: string[] = [];
    let last = '';
    let more = false;
    for (let at = firstAfter(this.#sorted, after); at < this.#sorted.length; at++) {
      const key = this.#sorted[at] as string;
      let revision = this.#latest.get(key);
      while (revision !== undefined && revision.version > version) revision = revision.previous;
      if (revision === undefined || revision.deleted || !matches(revision.object)) continue;
      more = texts.length >= limit;
      if (more) break;
      texts.push(revision.text);
      last = key;
    }
    const metadata = JSON.stringify({
      resourceVersion: String(version),
      ...(more && { continue: Buffer.from(JSON.stringify([version, last])).toString('base64url') }),
    });
    response.writeHead(200, { 'content-type': 'application/json' });
    const { metadataLast = false } = this.#options;
    response.write(
      `{"kind":"PodList","apiVersion":"v1",${metadataLast ? '' : `"metadata":${metadata},`}"items":[`,
    );
    for (let at = 0; at < texts.length; at += 1000) {
      response.write(`${at > 0 ? ',' : ''}${texts.slice(at, at + 1000).join(',')}`);
    }
    response.end(`]${metadataLast ? `,"metadata":${metadata}` : ''}}\n`);
  }
}

/** A server on a free port of loopback; dispose it. */
export async function startCollectionServer(
  options: CollectionServerOptions = {},
): Promise<CollectionServer> {
  const server = new CollectionServer(options);
  await server.listen();
  return server;
}

function readToken(token: string): [number, string] {
  return JSON.parse(Buffer.from(token, 'base64url').toString()) as [number, string];
}

function firstAfter(sorted: readonly string[], key: string): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] as string) <= key) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Selects by the namespace of the path, and by labels that have to be equal. */
function selector({ pathname, searchParams }: URL): (object: KubeObject) => boolean {
  const namespace = /\/namespaces\/([^/]+)\//.exec(pathname)?.[1];
  const wanted = (searchParams.get('labelSelector') ?? '').split(',').filter((part) => part !== '');
  const pairs = wanted.map((part) => part.split('='));
  return ({ metadata }) =>
    (namespace === undefined || metadata.namespace === namespace) &&
    pairs.every(([name = '', value]) => metadata.labels?.[name] === value);
}
