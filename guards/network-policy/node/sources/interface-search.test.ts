import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { ManualClock } from '../../../../lib/time/clock.fixture.ts';
import { NetworkNamespace, namespaceObstacle } from '../../../../test/network-policy/namespaces.fixture.ts';
import type { LocalPod, PodKey } from '../../engine/rules.ts';
import { nodeRules } from '../../dataplane/rules.fixture.ts';
import { InterfaceSearch } from './interface-search.ts';

const addresses = {
  'x/a': { 4: '10.1.0.10', 6: 'fd00:1::10' },
  'x/b': { 4: '10.1.0.11', 6: 'fd00:1::11' },
} as const;
type Name = keyof typeof addresses;

/**
 * A node, and pods whose interfaces stay down: the kernel reports nothing about them after their creation.
 */
class Scene implements Disposable {
  readonly node = new NetworkNamespace();
  readonly clock = new ManualClock();
  readonly search: InterfaceSearch;
  readonly #stack = new DisposableStack();

  constructor() {
    this.#stack.use(this.node);
    this.search = this.#stack.use(
      new InterfaceSearch({
        known: new Map(),
        inNetwork: (work) => this.node.run(work),
        clock: this.clock,
      }),
    );
  }

  attach(device: string, pod?: Name): NetworkNamespace {
    const namespace = this.#stack.use(new NetworkNamespace());
    this.node.ip(`link add ${device} type veth peer name eth0 netns ${namespace.path}`);
    if (pod !== undefined) this.give(namespace, pod);
    return namespace;
  }

  give(namespace: NetworkNamespace, pod: Name): void {
    namespace.ip(`addr add ${addresses[pod][4]}/32 dev eth0`);
  }

  [Symbol.dispose](): void {
    this.#stack.dispose();
  }
}

function pods(...names: readonly Name[]): ReadonlyMap<PodKey, LocalPod> {
  return nodeRules(
    names.map((name) => ({ name, addresses: addresses[name] })),
    [],
  ).pods;
}

suite('the interfaces of pods that come and go', { skip: namespaceObstacle() ?? false }, () => {
  test('are found with their pods, and forgotten with them', () => {
    using scene = new Scene();
    const { search } = scene;
    scene.attach('pod0', 'x/a');
    assert.deepEqual([...search.searchAll(pods('x/a'))], ['x/a']);
    scene.attach('pod1', 'x/b');
    assert.deepEqual([...search.search(pods('x/a', 'x/b'), ['x/b'])], ['x/b']);
    assert.deepEqual(
      (['x/a', 'x/b'] as const).map((name) => search.linkOf(name)?.name),
      ['pod0', 'pod1'],
    );
    assert.equal(search.linkLocal.length, 2);
    assert.deepEqual([...search.search(pods('x/a', 'x/b'), ['x/a'])], []);
    assert.deepEqual([...search.search(pods('x/b'), ['x/a'])], ['x/a']);
    assert.equal(search.linkOf('x/a'), undefined);
    assert.deepEqual([...search.searchAll(pods('x/b'))], []);
  });

  test('are looked for again when another one comes, or else after a second', async () => {
    using scene = new Scene();
    const { search } = scene;
    const all = pods('x/a', 'x/b');
    const namespace = scene.attach('pod0');
    assert.deepEqual([...search.search(all, ['x/a', 'x/b'])], []);
    // Events at the other end are not reported.
    scene.give(namespace, 'x/a');
    assert.deepEqual([...search.search(all, [])], []);
    await scene.clock.advance(1000);
    assert.deepEqual([...search.search(all, [])], ['x/a']);
    scene.attach('pod1', 'x/b');
    assert.deepEqual([...search.search(all, [])], ['x/b']);
  });

  test('change with a pod that is made anew under its name, and when they are deleted', () => {
    using scene = new Scene();
    const { search } = scene;
    const all = pods('x/a');
    scene.attach('pod0', 'x/a');
    search.searchAll(all);
    scene.node.ip('link del pod0');
    scene.attach('pod1', 'x/a');
    assert.deepEqual([...search.search(all, ['x/a'])], ['x/a']);
    assert.equal(search.linkOf('x/a')?.name, 'pod1');
    scene.node.ip('link del pod1');
    assert.deepEqual([...search.search(all, [])], ['x/a']);
    assert.equal(search.linkOf('x/a'), undefined);
  });

  test('the addresses of the node are read again when the kernel reports a change', () => {
    using scene = new Scene();
    const { search, node } = scene;
    search.searchAll(pods());
    const before = search.nodeAddresses;
    search.search(pods(), []);
    assert.equal(search.nodeAddresses, before);
    node.ip('addr add 10.7.0.1/24 dev lo');
    search.search(pods(), []);
    assert.ok(search.nodeAddresses.includes('10.7.0.1'));
  });
});
