/** Writers, and caches that follow what they write. */
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';

import type { Http } from '../../apps/apiserver/rampart-process.fixture.ts';
import type { KubeClient } from '../../lib/kube/client/client.ts';
import { IndexedCache } from '../../lib/kube/cache/indexed-cache.ts';
import {
  configMaps,
  type KubeObject,
  objectKey,
  resourcePath,
  type ResourceType,
} from '../../lib/kube/object/object.ts';
import { runReflector } from '../../lib/kube/cache/reflector.ts';
import { isOlder } from '../../lib/kube/object/resource-version.ts';
import type { Random } from '../../lib/testing/depth.fixture.ts';
import { until } from '../../lib/testing/until.fixture.ts';

export const widgets: ResourceType = {
  group: 'follow.example.com',
  version: 'v1',
  plural: 'widgets',
  kind: 'Widget',
  namespaced: true,
};

export const widgetDefinition = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'widgets.follow.example.com' },
  spec: {
    group: 'follow.example.com',
    scope: 'Namespaced',
    names: { plural: 'widgets', kind: 'Widget' },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        subresources: { status: {} },
        schema: {
          openAPIV3Schema: {
            type: 'object',
            properties: {
              spec: { type: 'object', additionalProperties: { type: 'string' } },
              status: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
            },
          },
        },
      },
    ],
  },
};

/** Waits for a kind that was defined just now. */
export async function served(http: Http, type: ResourceType): Promise<void> {
  while ((await http.ask(resourcePath(type, {}))).status === 404) await delay(10);
}

/** One change at random; whether it is done or refused is all the same here. */
export async function change(http: Http, random: Random): Promise<void> {
  const type = random.pick([configMaps, widgets]);
  const name = `o${random.below(60)}`;
  const namespace = random.pick(['default', 'kube-system']);
  const path = resourcePath(type, { namespace, name });
  const labels = { half: random.pick(['a', 'b']) };
  const body = {
    apiVersion: type === widgets ? 'follow.example.com/v1' : 'v1',
    kind: type.kind,
    metadata: { name, labels },
    [type === widgets ? 'spec' : 'data']: { mark: String(random.next()) },
  };
  const kind = random.below(3);
  if (kind === 0) await http.ask(path, { method: 'DELETE' });
  else if (kind === 1) await http.ask(resourcePath(type, { namespace }), { method: 'POST', body });
  else await http.ask(path, { method: 'PATCH', body, type: 'application/merge-patch+json' });
}

interface Selection {
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly pageSize?: number;
}

/** A cache and its reflector, and whether an object ever went back. */
export class Followed {
  readonly cache: IndexedCache<KubeObject>;
  readonly backwards: string[] = [];
  readonly reflecting: Promise<void>;
  readonly #selection: Selection;

  constructor(client: KubeClient, type: ResourceType, selection: Selection, signal: AbortSignal) {
    this.#selection = selection;
    this.cache = new IndexedCache({
      type,
      indexes: { half: ({ metadata }) => [metadata.labels?.['half'] ?? ''] },
    });
    // Keyed by key: the newest reported version.
    const newest = new Map<string, string>();
    this.cache.subscribe(({ type: what, key, object }) => {
      const version = object.metadata.resourceVersion ?? '';
      const known = newest.get(key);
      if (known !== undefined && (isOlder(version, known) || (version === known && what !== 'deleted'))) {
        this.backwards.push(`${what} ${key} at ${version} after ${known}`);
      }
      newest.set(key, version);
    });
    this.reflecting = runReflector({
      client,
      cache: this.cache,
      signal,
      ...selection,
      idleTimeoutMs: 2000,
      answerTimeoutMs: 2000,
      healthyMs: 500,
      backoff: { baseMs: 10, maxMs: 200, jitter: 0.5 },
    });
  }

  /** The differences between the cache and the server; no client may write meanwhile. */
  async differences(http: Http): Promise<string[]> {
    const { namespace, labelSelector = '' } = this.#selection;
    const path = resourcePath(this.cache.type, { namespace });
    const { items } = await http.json<{ items: KubeObject[] }>(
      `${path}?labelSelector=${encodeURIComponent(labelSelector)}`,
    );
    const wanted = new Map(items.map((object) => [objectKey(object), object.metadata.resourceVersion]));
    const keys = new Set([...wanted.keys(), ...this.cache.keys()]);
    const different = [...keys]
      .filter((key) => wanted.get(key) !== this.cache.versionOf(key))
      .map(
        (key) => `${key}: server ${wanted.get(key) ?? 'none'}, cache ${this.cache.versionOf(key) ?? 'none'}`,
      );
    if (different.length > 0) return different;
    for (const half of ['a', 'b']) {
      const expected = items.filter(({ metadata }) => metadata.labels?.['half'] === half).map(objectKey);
      assert.deepEqual([...this.cache.keysByIndex('half', half)].sort(), expected.sort());
    }
    return [];
  }
}

/** Waits until all caches are as the server is. */
export async function converged(http: Http, all: readonly Followed[]): Promise<void> {
  let different: string[] = [];
  try {
    await until('the caches are as the server is', async () => {
      different = (await Promise.all(all.map((one) => one.differences(http)))).flat();
      return different.length === 0 && all.every(({ cache }) => cache.isSynced);
    });
  } catch (error) {
    assert.deepEqual(different, [], String(error));
    throw error;
  }
  for (const { backwards } of all) assert.deepEqual(backwards, []);
}
