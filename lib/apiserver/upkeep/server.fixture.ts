// A server without HTTP: the real store and the real verbs, the built-in kinds, custom resources and upkeep.
import { setTimeout as delay } from 'node:timers/promises';

import { builtinResources, customResourceDefinitions } from '../builtin/builtin.ts';
import { crdStatus, crdStrategy } from '../custom/crd-strategy.ts';
import { CustomResources } from '../custom/custom-resources.ts';
import type { Clock } from '../../time/clock.ts';
import { ApiError, type StatusFailure } from '../resources/api-error.ts';
import type { Item } from '../resources/item.ts';
import { Registry } from '../resources/registry.ts';
import type { Resource } from '../resources/resource.ts';
import type { JsonObject } from '../../json/json.ts';
import { openStore, type Store } from '../store/store.ts';
import type { StoreOptions } from '../store/store-options.ts';
import type { ResourceRequest } from '../verbs/request.ts';
import { Verbs } from '../verbs/verbs.ts';
import { Upkeep } from './upkeep.ts';
import { VerbCalls } from './verb-calls.ts';

const sets = [...builtinResources(), [customResourceDefinitions(crdStrategy, crdStatus)]];

function kindStored(storeName: string): Resource {
  const found = sets.flat().find((resource) => resource.storeName === storeName);
  if (found === undefined) throw new Error(`there are no ${storeName}`);
  return found;
}

export const kinds = {
  configMaps: kindStored('configmaps'),
  events: kindStored('events'),
  nodes: kindStored('nodes'),
  namespaces: kindStored('namespaces'),
  crds: kindStored('customresourcedefinitions.apiextensions.k8s.io'),
};

export interface ServerOptions {
  readonly store?: StoreOptions;
  readonly eventTtlMs?: number;
  readonly clock?: Clock;
  /** Default: both run. */
  readonly upkeep?: boolean;
}

/** Started by {@link startServer}; disposing it stops it and closes the store. */
export class TestServer implements AsyncDisposable {
  readonly store: Store;
  readonly registry = new Registry();
  readonly verbs: Verbs;
  readonly custom: CustomResources;
  readonly upkeep: Upkeep;
  readonly calls: VerbCalls;
  readonly #stop = new AbortController();
  #running: Promise<unknown> = Promise.resolve();

  constructor({ store = { path: ':memory:' }, eventTtlMs, clock }: ServerOptions) {
    this.store = openStore(store);
    for (const versions of sets) this.registry.add(versions);
    this.verbs = new Verbs({ store: this.store, registry: this.registry });
    const common = { store: this.store, registry: this.registry, verbs: this.verbs };
    this.custom = new CustomResources(common);
    this.upkeep = new Upkeep({
      ...common,
      ...(eventTtlMs === undefined ? {} : { eventTtlMs }),
      ...(clock === undefined ? {} : { clock }),
    });
    this.calls = new VerbCalls(this.verbs, 'admin');
  }

  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  async start(withUpkeep: boolean): Promise<void> {
    await this.custom.start(this.signal);
    await this.upkeep.prepare(this.signal);
    if (withUpkeep) this.#running = this.upkeep.run(this.signal);
  }

  create(resource: Resource, object: JsonObject): Promise<Item> {
    const { namespace } = object['metadata'] as { namespace?: string };
    return this.calls.create(
      resource,
      resource.namespaced ? (namespace ?? 'default') : '',
      object,
      this.signal,
    );
  }

  /** The object as shown; `undefined` if it does not exist. */
  async get(resource: Resource, name: string, namespace = 'default'): Promise<JsonObject | undefined> {
    try {
      const answer = await this.verbs.handle(
        this.request({ verb: 'get', resource, name, namespace: resource.namespaced ? namespace : '' }),
      );
      return answer.kind === 'item' ? (JSON.parse(answer.item.text) as JsonObject) : undefined;
    } catch (error) {
      if (error instanceof ApiError && error.status.code === 404) return undefined;
      throw error;
    }
  }

  delete(
    resource: Resource,
    name: string,
    propagationPolicy: 'Background' | 'Foreground' | 'Orphan' = 'Background',
    namespace = 'default',
  ): Promise<void> {
    const place = { name, namespace: resource.namespaced ? namespace : '' };
    return this.calls.delete(resource, place, { propagationPolicy }, this.signal);
  }

  request(parts: Pick<ResourceRequest, 'resource' | 'verb'> & Partial<ResourceRequest>): ResourceRequest {
    return {
      subresource: undefined,
      namespace: '',
      name: '',
      query: new URLSearchParams(),
      body: undefined,
      patchType: undefined,
      user: { name: 'admin', groups: [] },
      userAgent: undefined,
      warnings: [],
      signal: this.signal,
      ...parts,
    };
  }

  /** Resolves when `check` gives something; fails with `what` after 10 s. */
  async until<T>(
    what: string,
    check: () => T | undefined | false | Promise<T | undefined | false>,
  ): Promise<T> {
    for (let tries = 0; tries < 2_000; tries++) {
      const found = await check();
      if (found !== undefined && found !== false) return found;
      await delay(5);
    }
    throw new Error(`waited in vain: ${what}`);
  }

  /** Creates a definition and waits until its kind is served; the preferred version. */
  async define(crd: JsonObject): Promise<Resource> {
    await this.create(kinds.crds, crd);
    const { name } = crd['metadata'] as { name: string };
    return this.until(`${name} is served`, () => this.registry.findStored(name));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await Promise.all([this.#running, this.custom.ended]);
    this.verbs[Symbol.dispose]();
    await this.store[Symbol.asyncDispose]();
  }
}

export async function startServer(options: ServerOptions = {}): Promise<TestServer> {
  const server = new TestServer(options);
  await server.start(options.upkeep ?? true);
  return server;
}

/** The Status that a call is refused with. */
export async function refusal(call: Promise<unknown>): Promise<StatusFailure> {
  try {
    await call;
  } catch (error) {
    if (error instanceof ApiError) return error.status;
    throw error;
  }
  throw new Error('it was not refused');
}

export function configMap(name: string, metadata: JsonObject = {}): JsonObject {
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, ...metadata } };
}

/** An owner reference to what was stored. */
export function ownerOf(item: Item, more: JsonObject = {}): JsonObject {
  const { apiVersion, kind, metadata } = item.object as {
    apiVersion: string;
    kind: string;
    metadata: JsonObject;
  };
  return { apiVersion, kind, name: metadata['name'], uid: metadata['uid'], ...more };
}
