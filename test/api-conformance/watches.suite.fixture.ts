// Watches: every change once and in order, from a version on; bookmarks; what selectors make of changes.
/* oxlint-disable typescript/no-misused-spread -- client-node's types are classes, its objects are plain */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';

import { CoreV1Api, makeInformer, Watch, type V1ConfigMap } from '@kubernetes/client-node';

import { type Cluster, eventually } from './cluster.fixture.ts';

export function watchCases(opened: () => Cluster): void {
  describe('watches', () => {
    let cluster: Cluster;
    let core: CoreV1Api;
    before(async () => {
      cluster = opened();
      core = cluster.config.makeApiClient(CoreV1Api);
    });

    interface Seen {
      readonly type: string;
      readonly object: {
        readonly kind?: string;
        readonly code?: number;
        readonly reason?: string;
        readonly metadata: {
          readonly name?: string;
          readonly resourceVersion: string;
          readonly annotations?: Record<string, string>;
        };
        readonly data?: Record<string, string>;
      };
    }

    /** A watch of the config maps of a namespace, with what it has seen. */
    class Watching implements AsyncDisposable {
      readonly seen: Seen[] = [];
      ended: unknown = 'not yet';
      #abort: AbortController | undefined;

      static async begin(
        namespace: string,
        query: Record<string, string | boolean | number>,
      ): Promise<Watching> {
        const watching = new Watching();
        watching.#abort = await new Watch(cluster.config).watch(
          `/api/v1/namespaces/${namespace}/configmaps`,
          query,
          (type, object: Seen['object']) => {
            // Real clusters put one into each namespace.
            if (object.metadata?.name !== 'kube-root-ca.crt') watching.seen.push({ type, object });
          },
          (error) => {
            watching.ended = error;
          },
        );
        return watching;
      }

      /** The observed events, as `ADDED a`, once there are `count` of them. */
      async first(count: number): Promise<string[]> {
        return await eventually(`${count} events`, async () => this.seen.length >= count && this.lines());
      }

      lines(): string[] {
        return this.seen.map(({ type, object }) => `${type} ${object.metadata?.name ?? ''}`.trim());
      }

      async [Symbol.asyncDispose](): Promise<void> {
        this.#abort?.abort();
        await delay(0);
      }
    }

    const make = (
      namespace: string,
      name: string,
      labels: Record<string, string> = {},
    ): Promise<V1ConfigMap> =>
      core.createNamespacedConfigMap({
        namespace,
        body: { metadata: { name, labels }, data: { step: '1' } },
      });

    async function change(namespace: string, name: string, to: Partial<V1ConfigMap>): Promise<V1ConfigMap> {
      const now = await core.readNamespacedConfigMap({ namespace, name });
      return await core.replaceNamespacedConfigMap({
        namespace,
        name,
        body: { ...now, ...to, metadata: { ...now.metadata, ...to.metadata } },
      });
    }

    describe('a watch', () => {
      test('from the version of a list sees what came after it, in order', async () => {
        const namespace = await cluster.namespace();
        await make(namespace, 'before');
        const list = await core.listNamespacedConfigMap({ namespace });
        await make(namespace, 'a');
        await change(namespace, 'before', { data: { step: '2' } });
        await core.deleteNamespacedConfigMap({ namespace, name: 'before' });
        await using watching = await Watching.begin(namespace, {
          resourceVersion: list.metadata?.resourceVersion ?? '',
        });
        await make(namespace, 'b');
        assert.deepEqual(await watching.first(4), [
          'ADDED a',
          'MODIFIED before',
          'DELETED before',
          'ADDED b',
        ]);
        const versions = watching.seen.map(({ object }) => BigInt(object.metadata.resourceVersion));
        assert.deepEqual(
          versions,
          versions.toSorted((x, y) => (x < y ? -1 : 1)),
        );
        assert.ok(versions.every((version) => version > BigInt(list.metadata?.resourceVersion ?? 0)));
        assert.equal(watching.seen[2]?.object.data?.['step'], '2');
      });

      test('without a version begins with what is there', async () => {
        const namespace = await cluster.namespace();
        await make(namespace, 'x');
        await make(namespace, 'y');
        await using watching = await Watching.begin(namespace, {});
        await watching.first(2);
        await make(namespace, 'z');
        const [one = '', two = '', ...rest] = await watching.first(3);
        assert.deepEqual([one, two].toSorted(), ['ADDED x', 'ADDED y']);
        assert.deepEqual(rest, ['ADDED z']);
      });

      test('sendInitialEvents: what is there, then a bookmark that says so', async () => {
        const namespace = await cluster.namespace();
        await make(namespace, 'x');
        await using watching = await Watching.begin(namespace, {
          sendInitialEvents: true,
          resourceVersionMatch: 'NotOlderThan',
          allowWatchBookmarks: true,
        });
        assert.deepEqual(await watching.first(2), ['ADDED x', 'BOOKMARK']);
        assert.equal(watching.seen[1]?.object.metadata.annotations?.['k8s.io/initial-events-end'], 'true');
        await make(namespace, 'y');
        assert.deepEqual((await watching.first(3))[2], 'ADDED y');
      });

      test('with a selector: an object that comes to match is ADDED, one that ceases to is DELETED', async () => {
        const namespace = await cluster.namespace();
        const { metadata } = await core.listNamespacedConfigMap({ namespace });
        await using watching = await Watching.begin(namespace, {
          labelSelector: 'watched=yes',
          resourceVersion: metadata?.resourceVersion ?? '',
        });
        await make(namespace, 'never');
        await make(namespace, 'comes');
        await change(namespace, 'comes', { metadata: { labels: { watched: 'yes' } } });
        await change(namespace, 'comes', { data: { step: '2' } });
        const left = await change(namespace, 'comes', { metadata: { labels: { watched: 'no' } } });
        await change(namespace, 'comes', { data: { step: '3' } });
        await make(namespace, 'last', { watched: 'yes' });
        assert.deepEqual(await watching.first(4), [
          'ADDED comes',
          'MODIFIED comes',
          'DELETED comes',
          'ADDED last',
        ]);
        assert.equal(watching.seen[2]?.object.metadata.resourceVersion, left.metadata?.resourceVersion);
      });

      test('a watch of one object by its name', async () => {
        const namespace = await cluster.namespace();
        const { metadata } = await core.listNamespacedConfigMap({ namespace });
        await using watching = await Watching.begin(namespace, {
          fieldSelector: 'metadata.name=mine',
          resourceVersion: metadata?.resourceVersion ?? '',
        });
        await make(namespace, 'other');
        await make(namespace, 'mine');
        assert.deepEqual(await watching.first(1), ['ADDED mine']);
      });

      test('ends after timeoutSeconds', async () => {
        const namespace = await cluster.namespace();
        await using watching = await Watching.begin(namespace, { timeoutSeconds: 1 });
        await eventually('the end', async () => watching.ended !== 'not yet');
      });

      test('from a version that has not come is refused, or an error event', async () => {
        const namespace = await cluster.namespace();
        const answer = await cluster.raw(
          `/api/v1/namespaces/${namespace}/configmaps?watch=true&timeoutSeconds=2&resourceVersion=999999999999`,
        );
        const line = answer.text.split('\n')[0] ?? '';
        const status = answer.status === 200 ? JSON.parse(line).object : answer.json();
        assert.equal(status.kind, 'Status');
        assert.ok([410, 504].includes(status.code), answer.text);
      });
    });

    test('many watches see the same', async () => {
      const namespace = await cluster.namespace();
      const { metadata } = await core.listNamespacedConfigMap({ namespace });
      const from = { resourceVersion: metadata?.resourceVersion ?? '' };
      await using stack = new AsyncDisposableStack();
      const watches = await Promise.all(Array.from({ length: 10 }, () => Watching.begin(namespace, from)));
      for (const watching of watches) stack.use(watching);
      await Promise.all(Array.from({ length: 30 }, (_, index) => make(namespace, `m${index}`)));
      const seen = await Promise.all(watches.map((watching) => watching.first(30)));
      for (const lines of seen) assert.deepEqual(lines, seen[0]);
      assert.equal(new Set(seen[0]).size, 30);
    });

    test("client-node's informer comes to the state of the cluster", async () => {
      const namespace = await cluster.namespace();
      await make(namespace, 'one');
      const informer = makeInformer(cluster.config, `/api/v1/namespaces/${namespace}/configmaps`, () =>
        core.listNamespacedConfigMap({ namespace }),
      );
      const held = new Map<string, string>();
      const keep = ({ metadata, data }: V1ConfigMap): void => {
        held.set(metadata?.name ?? '', data?.['step'] ?? '');
      };
      informer.on('add', keep);
      informer.on('update', keep);
      informer.on('delete', ({ metadata }: V1ConfigMap) => void held.delete(metadata?.name ?? ''));
      await informer.start();
      try {
        await make(namespace, 'two');
        await change(namespace, 'one', { data: { step: '2' } });
        await make(namespace, 'three');
        await core.deleteNamespacedConfigMap({ namespace, name: 'three' });
        await eventually('the state', async () => {
          held.delete('kube-root-ca.crt');
          return held.size === 2 && held.get('one') === '2' && held.get('two') === '1';
        });
      } finally {
        await informer.stop();
      }
    });
  });
}
