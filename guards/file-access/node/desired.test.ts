import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { compileSchema } from '../../../lib/apiserver/schema/compiled-schema.ts';
import { crdManifest } from '../../../lib/kube/crd/manifest.ts';
import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import { alertedOfData, alertedOfFound } from '../alert/alerted-file.ts';
import { type KiveData, kiveData } from '../api.ts';
import { desiredData, diffData, isOver } from './desired.ts';
import {
  alertContextOf,
  callbackSecretOf,
  identityOf,
  isInScope,
  kiveDataOf,
  movedFilesOf,
  nameFor,
  type NodeContainer,
  nodeItself,
  ourAnnotations,
} from '../kive-data.ts';
import { type CompiledTrap, compilePolicy, TrapIndex } from '../policy/matching.ts';
import { anyContainers, anyPolicies, nginxPod, policyOf, trapOn } from '../policy/policy.fixture.ts';
import { PolicyScope } from '../policy/policy-scope.ts';
import { type ClusterView, staleReason } from '../cluster/stale-data.ts';

const on = { kernelId: '2c147a95-23e5-4f99-a2de-67d5e9fdb502', nodeName: 'kive-worker' };
const identity = { inode: 13_667_586n, device: 3, generation: 7 };
const nginx: NodeContainer = { id: 'containerd://da9e46', name: 'nginx', pod: nginxPod };

function indexOf(...policies: Parameters<typeof compilePolicy>[0][]): TrapIndex {
  const index = new TrapIndex();
  for (const policy of policies) index.set(compilePolicy(policy));
  return index;
}

/** The files to look for: each trap with each running container it is for. */
interface WantedFile {
  readonly trap: CompiledTrap;
  readonly container: NodeContainer;
  readonly name: string;
}

function wantedFiles(index: TrapIndex, containers: readonly NodeContainer[]): WantedFile[] {
  return containers.flatMap((container) => {
    const traps = isOver(container.pod) ? [] : index.forPod(container.pod).for(container.name);
    return traps.map((trap) => ({ trap, container, name: nameFor(trap, container, on.nodeName) }));
  });
}

/** The desired objects when every wanted file is found. */
function desiredOf(index: TrapIndex, containers: readonly NodeContainer[], file = identity) {
  return desiredData(
    wantedFiles(index, containers).map((wanted) => ({ ...wanted, identity: file })),
    on,
  );
}

/** The content of the API after the changes. */
function applied(existing: readonly KiveData[], changes: ReturnType<typeof diffData>): KiveData[] {
  const stored = new Map(existing.map((data) => [data.metadata.name, data]));
  for (const data of [...changes.create, ...changes.update]) stored.set(data.metadata.name, data);
  for (const data of changes.remove) stored.delete(data.metadata.name);
  // Written objects come back as JSON.
  return JSON.parse(JSON.stringify([...stored.values()])) as KiveData[];
}

const trap = {
  ...trapOn('/secret.txt', { pod: 'nginx-pod' }),
  callback: 'http://sink/',
  metadata: { severity: 'critical' },
};

suite('the KiveData of a file', () => {
  const [data] = desiredOf(indexOf(policyOf('kive-sample-policy', trap)), [nginx]).values();
  assert.ok(data);

  test('has the names of Kive', () => {
    assert.equal(data.metadata.namespace, 'kivebpf-system');
    assert.match(data.metadata.name ?? '', /^kive-data-nginx-pod-default-/);
    assert.deepEqual(data.metadata.finalizers, ['kivedata.kivebpf.san7o.github.io/finalizer']);
    const { 'trap-id': _hash, ...labels } = data.metadata.labels ?? {};
    assert.deepEqual(labels, {
      'kernel-id': on.kernelId,
      'kivebpf.san7o.github.io/node': 'kive-worker',
    });
    assert.deepEqual(
      { ...data.metadata.annotations },
      {
        'kive-alert-version': 'v1',
        'kive-policy-name': 'kive-sample-policy',
        callback: 'http://sink/',
        'pod-name': 'nginx-pod',
        namespace: 'default',
        'pod-ip': '192.168.0.3',
        path: '/secret.txt',
        'container-id': 'containerd://da9e46',
        'container-name': 'nginx',
        'node-name': 'kive-worker',
        'kivebpf.san7o.github.io/file': '13667586:3:7',
        'kivebpf.san7o.github.io/policy-namespace': 'kivebpf-system',
        'kivebpf.san7o.github.io/pod-uid': 'b4a1',
      },
    );
    assert.deepEqual(data.spec, {
      inodeNo: 13_667_586,
      devId: 3,
      kernelId: on.kernelId,
      metadata: { severity: 'critical' },
    });
  });

  test('the API stores it unchanged', () => {
    const schema = compileSchema(crdManifest(kiveData).spec.versions[0]?.schema.openAPIV3Schema);
    assert.deepEqual(schema.validate(structuredClone(data)), []);
    assert.deepEqual(schema.prune(structuredClone(data)), []);
    assert.deepEqual(identityOf(data), identity);
    assert.deepEqual(alertContextOf(data), {
      alertVersion: 'v1',
      policyName: 'kive-sample-policy',
      policyNamespace: 'kivebpf-system',
      kernelId: on.kernelId,
      path: '/secret.txt',
      callback: 'http://sink/',
      customMetadata: { severity: 'critical' },
      pod: {
        name: 'nginx-pod',
        namespace: 'default',
        ip: '192.168.0.3',
        container: { id: 'containerd://da9e46', name: 'nginx' },
      },
      nodeName: 'kive-worker',
    });
  });

  test('says the same of alerts as what it is made from', () => {
    fc.assert(
      fc.property(anyPolicies, anyContainers, fc.boolean(), (policies, containers, isMoved) => {
        for (const wanted of wantedFiles(indexOf(...policies), containers)) {
          const found = {
            ...wanted,
            identity,
            ...(isMoved && { moved: [{ ...identity, inode: 2n }, identity] }),
          };
          const [stored] = applied([], diffData(desiredData([found], on), [], on.nodeName));
          assert.ok(stored);
          assert.deepEqual(alertedOfData(stored), structuredClone(alertedOfFound(found, on)));
        }
      }),
    );
  });

  test('keeps inode numbers that no JSON number of JavaScript holds', () => {
    for (const inode of [2n ** 53n + 1n, 2n ** 64n - 1n, 9_223_372_036_854_775_809n]) {
      const file = { inode, device: 0xffff_ffff, generation: 0xffff_ffff };
      const [stored] = desiredOf(indexOf(policyOf('p', trap)), [nginx], file).values();
      assert.deepEqual(identityOf(JSON.parse(JSON.stringify(stored)) as KiveData), file);
    }
  });

  test('edits of the spec are used', () => {
    const edited = { ...data, spec: { ...data.spec, inodeNo: 5 } };
    assert.deepEqual(identityOf(edited), { inode: 5n, device: 3, generation: 0 });
  });

  test('objects of older releases are read', () => {
    const older: KiveData = {
      metadata: { name: 'o', annotations: { pod_name: 'nginx-pod', pod_ip: '10.0.0.1', node_name: 'n' } },
      spec: { 'inode-no': 5, 'dev-id': 66_306, 'kernel-id': 'k' },
    };
    assert.deepEqual(identityOf(older), { inode: 5n, device: 66_306, generation: 0 });
    const context = alertContextOf(older);
    assert.deepEqual(
      [context.pod.name, context.pod.ip, context.nodeName, context.kernelId],
      ['nginx-pod', '10.0.0.1', 'n', 'k'],
    );
  });
});

suite('the difference', () => {
  test('one application leaves nothing to change, whatever there was', () => {
    fc.assert(
      fc.property(
        anyPolicies,
        anyContainers,
        anyPolicies,
        anyContainers,
        (before, old, policies, containers) => {
          const stored = applied([], diffData(desiredOf(indexOf(...before), old), [], on.nodeName));
          const desired = desiredOf(indexOf(...policies), containers, { ...identity, inode: 99n });
          const after = applied(stored, diffData(desired, stored, on.nodeName));
          assert.deepEqual(new Set(after.map(({ metadata }) => metadata.name)), new Set(desired.keys()));
          assert.deepEqual(diffData(desired, after, on.nodeName), {
            create: [],
            update: [],
            remove: [],
            blocked: [],
          });
        },
      ),
    );
  });

  test('one for each trap and container, also of pods whose other containers are not ready', () => {
    const index = indexOf(policyOf('p', trap, trapOn('/b')), policyOf('q', trap));
    const containers = ['nginx', 'init-perms', 'debugger'].map((name) => ({ ...nginx, id: name, name }));
    const pending = { ...nginx, id: 'other', pod: { ...nginxPod, status: { phase: 'Pending' } } };
    const over = { ...nginx, id: 'over', pod: { ...nginxPod, status: { phase: 'Failed' } } };
    assert.equal(desiredOf(index, [...containers, pending, over]).size, 4 * 3);
  });

  const index = indexOf(policyOf('p', trap));
  const desired = desiredOf(index, [nginx]);
  const stored = applied([], diffData(desired, [], on.nodeName));

  test('a file that is replaced, an edited trap and a new pod address change the object in place', () => {
    for (const next of [
      desiredOf(index, [nginx], { ...identity, inode: 14n }),
      desiredOf(index, [nginx], { ...identity, generation: 8 }),
      desiredOf(indexOf(policyOf('p', { ...trap, callback: '' })), [nginx]),
      desiredOf(indexOf(policyOf('p', { ...trap, metadata: {} })), [nginx]),
      desiredOf(index, [
        { ...nginx, pod: { ...nginxPod, status: { phase: 'Running', podIP: '192.168.0.9' } } },
      ]),
    ]) {
      const { create, update, remove } = diffData(next, stored, on.nodeName);
      assert.deepEqual([create.length, update.length, remove.length], [0, 1, 0]);
    }
  });

  test("names the Secret while there is one, in the policy's namespace", () => {
    const withSecret = { ...trap, callback: 'https://sink/', callbackSecret: 'hook' };
    const secretOf = (objects: readonly KiveData[]): (string | undefined)[] =>
      objects.map((data) => data.metadata.annotations?.[ourAnnotations.callbackSecret]);
    let now = stored;
    for (const [next, expected] of [
      [withSecret, 'kivebpf-system/hook'],
      [{ ...withSecret, callbackSecret: 'other' }, 'kivebpf-system/other'],
      [trap, undefined],
    ] as const) {
      const wanted = desiredOf(indexOf(policyOf('p', next)), [nginx]);
      const { create, update, remove } = diffData(wanted, now, on.nodeName);
      assert.deepEqual([create.length, update.length, remove.length], [0, 1, 0]);
      now = applied(now, { create, update, remove, blocked: [] });
      assert.deepEqual(secretOf(now), [expected]);
      assert.equal(callbackSecretOf(now[0] as KiveData), expected ?? '');
      assert.deepEqual(diffData(wanted, now, on.nodeName).update, []);
    }
    // An object that another client has written there goes, too.
    const [first] = stored;
    assert.ok(first);
    const annotations = {
      ...first.metadata.annotations,
      [ourAnnotations.callbackSecret]: 'kivebpf-system/hook',
    };
    const { update } = diffData(
      desired,
      [{ ...first, metadata: { ...first.metadata, annotations } }],
      on.nodeName,
    );
    assert.deepEqual(secretOf(update), [undefined]);
  });

  test('a relabelled pod, a gone trap, a restarted container and an earlier boot leave nothing', () => {
    const relabelled = indexOf(policyOf('p', trapOn('/secret.txt', { matchLabels: { app: 'api' } })));
    for (const next of [
      desiredOf(relabelled, [nginx]),
      desiredOf(indexOf(), [nginx]),
      desiredOf(index, []),
    ]) {
      assert.deepEqual(diffData(next, stored, on.nodeName).remove, stored);
    }
    const restarted = diffData(desiredOf(index, [{ ...nginx, id: 'containerd://new' }]), stored, on.nodeName);
    assert.deepEqual([restarted.create.length, restarted.remove.length], [1, 1]);
    const rebooted = desiredData(
      wantedFiles(index, [nginx]).map((wanted) => ({ ...wanted, identity })),
      { ...on, kernelId: 'new' },
    );
    const { update } = diffData(rebooted, stored, on.nodeName);
    assert.equal(update[0]?.spec.kernelId, 'new');
    const [first] = stored;
    assert.ok(first);
    const earlier = {
      ...first,
      metadata: { ...first.metadata, name: 'x' },
      spec: { ...first.spec, kernelId: 'old' },
    };
    assert.deepEqual(diffData(desired, [first, earlier], on.nodeName).remove, [earlier]);
  });

  test('objects of other nodes are left alone, and what others added to ours is kept', () => {
    assert.deepEqual(diffData(new Map(), stored, 'another-node').remove, []);
    const [first] = stored;
    assert.ok(first);
    const labelled = {
      ...first,
      metadata: { ...first.metadata, labels: { ...first.metadata.labels, mine: '1' } },
    };
    assert.deepEqual(diffData(desired, [labelled], on.nodeName).update, []);
    const { update } = diffData(
      desiredOf(index, [nginx], { ...identity, inode: 2n }),
      [labelled],
      on.nodeName,
    );
    assert.equal(update[0]?.metadata.labels?.['mine'], '1');
  });

  test('reports moved files one after the other', () => {
    const files = wantedFiles(index, [nginx]).map((wanted) => ({ ...wanted, identity }));
    const moved = [identity, { ...identity, inode: 9_007_199_254_740_993n }];
    const reported = applied(
      stored,
      diffData(
        desiredData(
          files.map((file) => ({ ...file, moved })),
          on,
        ),
        stored,
        'kive-worker',
      ),
    );
    assert.ok(reported[0]);
    assert.equal(
      reported[0].metadata.annotations?.[ourAnnotations.movedFiles],
      '13667586:3:7,9007199254740993:3:7',
    );
    assert.deepEqual(movedFilesOf(reported[0]), moved);
    assert.equal(reported[0].metadata.name, stored[0]?.metadata.name);
    const { update } = diffData(desired, reported, on.nodeName);
    assert.equal(update.length, reported.length);
    assert.ok(!Object.hasOwn(update[0]?.metadata.annotations ?? {}, ourAnnotations.movedFiles));
    assert.deepEqual(
      diffData(desired, applied(reported, { ...diffData(desired, reported, on.nodeName) }), on.nodeName)
        .update,
      [],
    );
  });

  test('a name is taken again when the object that is being deleted is gone', () => {
    const [first] = stored;
    assert.ok(first);
    const going = { ...first, metadata: { ...first.metadata, deletionTimestamp: '2026-01-01T00:00:00Z' } };
    const changes = diffData(desired, [going], on.nodeName);
    assert.deepEqual([changes.create, changes.update, changes.remove], [[], [], []]);
    assert.deepEqual(changes.blocked, [first.metadata.name]);
    assert.deepEqual(diffData(new Map(), [going], on.nodeName).remove, []);
  });
});

test('finds KiveData without a policy', () => {
  const [data] = desiredOf(indexOf(policyOf('p', trap)), [nginx]).values();
  assert.ok(data);
  const here: ClusterView = {
    pod: (namespace, name) => (namespace === 'default' && name === 'nginx-pod' ? nginxPod : undefined),
    bootId: (node) => (node === 'kive-worker' ? on.kernelId : undefined),
    mayMatch: () => true,
    hasTrap: (id) => id === data.metadata.labels?.['trap-id'],
  };
  const withPhase = (phase: string) => ({ ...nginxPod, status: { phase } });
  assert.equal(staleReason(data, here), undefined);
  assert.equal(staleReason(data, { ...here, bootId: () => '' }), undefined);
  for (const [reason, cluster] of [
    ['PodGone', { ...here, pod: () => undefined }],
    ['PodOver', { ...here, pod: () => withPhase('Failed') }],
    ['PodOver', { ...here, pod: () => withPhase('Succeeded') }],
    ['PodReplaced', { ...here, pod: () => ({ ...nginxPod, metadata: { ...nginxPod.metadata, uid: 'x' } }) }],
    ['NodeGone', { ...here, bootId: () => undefined }],
    ['KernelGone', { ...here, bootId: () => 'other' }],
    ['OutsideNamespace', { ...here, mayMatch: () => false }],
    ['TrapGone', { ...here, hasTrap: () => false }],
  ] as const) {
    assert.equal(staleReason(data, cluster), reason);
  }
  assert.ok(data.metadata.annotations?.[ourAnnotations.podUid]);
});

test('KiveData of files of the node itself: each node its own, of no pod', () => {
  const [compiled] = compilePolicy(policyOf('p', trapOn('/etc/shadow', { host: true }))).traps;
  assert.ok(compiled);
  const dataOn = (nodeName: string): KiveData => {
    const name = nameFor(compiled, nodeItself, nodeName);
    return kiveDataOf({ trap: compiled, container: nodeItself, identity, name }, { ...on, nodeName });
  };
  const data = dataOn('kive-worker');
  assert.match(data.metadata.name ?? '', /^kive-data-kive-worker-[0-9a-f]{16}$/);
  assert.notEqual(dataOn('kive-worker2').metadata.name, data.metadata.name);
  assert.deepEqual(alertContextOf(data).pod, {
    name: '',
    namespace: '',
    ip: '',
    container: { id: '', name: '' },
  });
  const cluster: ClusterView = {
    pod: () => undefined,
    bootId: () => on.kernelId,
    mayMatch: (one) => isInScope(one, new PolicyScope(['*'])),
    hasTrap: () => true,
  };
  assert.equal(staleReason(data, cluster), undefined);
  assert.equal(staleReason(data, { ...cluster, bootId: () => undefined }), 'NodeGone');
  const forged = kiveDataOf(
    { trap: { ...compiled, policyNamespace: 'tenant' }, container: nodeItself, identity, name: 'd' },
    on,
  );
  assert.equal(staleReason(forged, cluster), 'OutsideNamespace');
});
