import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';

import { IndexedCache } from '../../../lib/kube/cache/indexed-cache.ts';
import { apiTime } from '../../../lib/kube/object/api-time.ts';
import { KubeClient } from '../../../lib/kube/client/client.ts';
import { anonymous } from '../../../lib/kube/access/credentials.ts';
import { keyQueue } from '../../../lib/kube/controller/key-queue.ts';
import { createLogger } from '../../../lib/telemetry/log.ts';
import type { AlertedFile } from '../alert/alerted-file.ts';
import { type KiveData, kiveDataNamespace } from '../api.ts';
import { dataQuery } from '../caches.ts';
import { kiveDataOf } from '../kive-data.ts';
import { Loader } from './loader.ts';
import { compilePolicy } from '../policy/matching.ts';
import { movedTo, nginxPod, policyOf, trapOn } from '../policy/policy.fixture.ts';
import { defaultScope } from '../policy/policy-scope.ts';

const [trap] = compilePolicy(policyOf('p', trapOn('/secret.txt'))).traps;
assert.ok(trap);
const container = { id: 'containerd://1', name: 'nginx', pod: nginxPod };

function dataOf(name: string, kernelId: string, nodeName: string, inode = 1n, of = trap!): KiveData {
  const identity = { inode, device: 3, generation: 1 };
  const data = kiveDataOf({ trap: of, container, identity, name }, { kernelId, nodeName });
  return { ...data, metadata: { ...data.metadata, resourceVersion: '1' } };
}

/** A loader on node `n1` of kernel `k`; nothing that it does here asks the API. */
class Scene implements Disposable {
  readonly found = new Map<string, AlertedFile>();
  readonly data = new IndexedCache(dataQuery(['kernel']));
  readonly loader: Loader;
  readonly #stack = new DisposableStack();
  readonly queue = this.#stack.use(keyQueue());

  constructor() {
    const access = { server: new URL('http://127.0.0.1:1'), credentials: anonymous, namespace: 'default' };
    const ignore = (): void => undefined;
    this.loader = this.#stack.use(
      new Loader({
        client: this.#stack.use(new KubeClient(access)),
        on: { kernelId: 'k', nodeName: 'n1' },
        data: this.data,
        policyScope: defaultScope,
        local: { found: (name) => this.found.get(name), names: () => this.found.keys() },
        queue: this.queue,
        apply: ignore,
        onPlanned: ignore,
        sensor: { attach: ignore, detach: ignore },
        onActive: ignore,
        logger: createLogger({ level: 'silent' }),
      }),
    );
  }

  /** This node finds a file, or finds it gone. */
  find(name: string, inode: bigint | undefined): void {
    const identity = inode === undefined ? undefined : { inode, device: 3, generation: 1 };
    if (identity === undefined) this.found.delete(name);
    else {
      const context = { ...emptyContext, path: `/${name}` };
      this.found.set(name, { name, identity, moved: [], context, callbackSecret: '' });
    }
    this.loader.found([name]);
  }

  get planned(): Record<string, bigint> {
    const plan = [...this.loader.plan.values()];
    return Object.fromEntries(plan.map(({ name, identity }) => [name, identity.inode]));
  }

  [Symbol.dispose](): void {
    this.#stack.dispose();
  }
}

const emptyContext = {
  policyName: 'p',
  kernelId: 'k',
  path: '',
  callback: '',
  customMetadata: {},
  pod: { name: '', namespace: '', ip: '', container: { id: '', name: '' } },
  nodeName: 'n1',
};

suite('the loader', () => {
  test('plans files that this node found and files that other nodes of its kernel report', () => {
    using scene = new Scene();
    for (const [name, kernelId, nodeName] of [
      ['other-node', 'k', 'n2'],
      ['other-kernel', 'other', 'n2'],
      // For this node, the files that it finds count, and not those written earlier.
      ['stale', 'k', 'n1'],
    ] as const) {
      scene.data.put(dataOf(name, kernelId, nodeName));
    }
    scene.data.put(dataOf('both', 'k', 'n1', 5n));
    scene.find('both', 6n);
    assert.deepEqual(scene.planned, {});
    scene.loader.setActive(true);
    assert.deepEqual(scene.planned, { 'other-node': 1n, both: 6n });
    scene.loader.setActive(false);
    assert.deepEqual(scene.planned, {});
  });

  test("another node cannot report files outside a policy's namespace, whatever its agent allows", () => {
    using scene = new Scene();
    scene.loader.setActive(true);
    for (const namespace of ['default', 'tenant']) {
      const [of] = compilePolicy(movedTo(namespace, policyOf('p', trapOn('/secret.txt')))).traps;
      scene.data.put(dataOf(`of-${namespace}`, 'k', 'n2', 1n, of));
    }
    scene.data.put(dataOf('of-system', 'k', 'n2', 2n));
    scene.loader.setActive(false);
    scene.loader.setActive(true);
    assert.deepEqual(scene.planned, { 'of-system': 2n, 'of-default': 1n });
  });

  test('a found file is planned once it was reported', () => {
    using scene = new Scene();
    scene.loader.setActive(true);
    scene.find('a', 1n);
    assert.deepEqual(scene.planned, { a: 1n });
    scene.find('a', 2n);
    assert.deepEqual(scene.planned, { a: 2n });
    scene.find('a', undefined);
    assert.deepEqual(scene.planned, {});
  });

  test('a KiveData that is of another kernel now is let go, and comes back with its kernel', async () => {
    using scene = new Scene();
    scene.loader.setActive(true);
    const put = async (version: string, kernelId: string, inode = 1n): Promise<void> => {
      const data = dataOf('other-node', kernelId, 'n2', inode);
      scene.data.put({ ...data, metadata: { ...data.metadata, resourceVersion: version } });
      await setImmediate();
    };
    await put('1', 'k');
    assert.deepEqual(scene.planned, { 'other-node': 1n });
    await put('2', 'other');
    assert.deepEqual(scene.planned, {});
    await put('3', 'other', 2n);
    await put('4', 'k', 3n);
    assert.deepEqual(scene.planned, { 'other-node': 3n });
  });

  test('the finalizer of what is of another kernel and node is not its own to take off', async () => {
    using scene = new Scene();
    scene.loader.setActive(true);
    const put = async (version: string, kernelId: string, nodeName: string): Promise<void> => {
      const data = dataOf('x', kernelId, nodeName);
      const metadata = { ...data.metadata, resourceVersion: version };
      scene.data.put(
        version === '1' ? data : { ...data, metadata: { ...metadata, deletionTimestamp: apiTime(0) } },
      );
      await setImmediate();
    };
    await put('1', 'k', 'n2');
    await put('2', 'other', 'n2');
    const key = `${kiveDataNamespace}/x`;
    assert.deepEqual([scene.planned, scene.queue.depth], [{}, 0]);
    // It would ask the API, which does not run.
    await scene.loader.reconcile(key, AbortSignal.timeout(10_000));
    await put('3', 'k', 'n2');
    assert.equal(scene.queue.depth, 1);
    await assert.rejects(scene.loader.reconcile(key, AbortSignal.timeout(10_000)), {
      code: 'RAMPART_API_UNREACHABLE',
    });
  });
});
