// deploy/ with some of the guards: each has what its descriptor says, and nothing of another.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { suite, test } from 'node:test';

import type { V1PodSpec } from '@kubernetes/client-node';

import type { Guard } from '../../guard/guard.ts';
import { deepTest, isDeep, sampled } from '../../lib/testing/depth.fixture.ts';
import { guards } from '../guards.ts';
import { Cluster, deploy, namedRights, rightsOf } from './deploy.fixture.ts';
import { kubernetesPrograms } from '../../scripts/kubernetes-programs.ts';
import { kustomize, type Manifest, objectsIn } from '../../scripts/kustomize.ts';
import { crdManifest } from '../../lib/kube/crd/manifest.ts';
import { overlay } from './overlay.fixture.ts';

interface MetricsPolicySpec {
  readonly podSelector: {
    readonly matchExpressions: readonly [{ readonly key: string; readonly values: readonly string[] }];
  };
  readonly ingress: readonly {
    readonly from: readonly object[];
    readonly ports: readonly { readonly port: number }[];
  }[];
}

const nameOf = ({ kind, metadata }: Manifest): string =>
  `${kind} ${metadata.namespace ?? ''}/${metadata.name}`;

function podOf(manifests: readonly Manifest[], kind: 'DaemonSet' | 'Deployment'): V1PodSpec {
  const found = manifests.find((one) => one.kind === kind) as unknown as {
    readonly spec: { readonly template: { readonly spec: V1PodSpec } };
  };
  return found.spec.template.spec;
}

/** In one order, as lists in pods that are merged have none. */
function comparable(manifests: readonly Manifest[]): ReadonlyMap<string, Manifest> {
  const byName = manifests.map((manifest): [string, Manifest] => {
    if (manifest.kind !== 'DaemonSet') return [nameOf(manifest), manifest];
    const copy = structuredClone(manifest);
    const pod = podOf([copy], 'DaemonSet');
    pod.volumes?.sort((one, other) => (one.name < other.name ? -1 : 1));
    pod.containers[0]?.volumeMounts?.sort((one, other) => (one.name < other.name ? -1 : 1));
    return [nameOf(manifest), copy];
  });
  return new Map(byName.toSorted(([one], [other]) => (one < other ? -1 : 1)));
}

const programs = kubernetesPrograms();

/** Components are known from kubectl 1.21 on, labels from 1.22; Debian 12 has 1.20. */
function kustomizeObstacle(): string | undefined {
  return programs === undefined ? 'needs the kubectl that scripts/setup test fetches' : undefined;
}

/** Components that kubectl is asked for, too: each start of it takes a second of CPU time. */
const asked = sampled(['network-policy-iptables', 'bpf-verification', 'bpf-programs-csi'], 1);

function expectSameOfKubectl(directory: string): void {
  const ran = spawnSync(programs?.kubectl ?? '', ['kustomize', directory], {
    encoding: 'utf8',
    maxBuffer: 2 ** 27,
  });
  assert.equal(ran.status, 0, ran.stderr);
  assert.deepEqual(comparable(kustomize(directory)), comparable(objectsIn(ran.stdout)));
}

const sets = [[], ...guards.map((guard) => [guard]), guards];

suite('deploy/ with some guards', () => {
  for (const of of sets) {
    const title = of.map(({ name }) => name).join(', ') || 'none';
    test(`${title}: rights, flags, capabilities and mounts of those and the base`, () => {
      using mine = overlay(of);
      const manifests = kustomize(mine.path);
      const base = join(deploy, 'base');
      for (const who of ['agent', 'operator', 'viewer'] as const) {
        const wanted = [
          ...rightsOf(`rampart-${who}`, base),
          ...of.flatMap((guard) => namedRights(guard, who)),
        ];
        assert.deepEqual(rightsOf(`rampart-${who}`, mine.path), new Set(wanted));
      }
      const crds = manifests.filter(({ kind }) => kind === 'CustomResourceDefinition');
      assert.deepEqual(
        crds.map(({ metadata }) => metadata.name).toSorted(),
        of.flatMap(({ resources }) => resources.map(({ plural, group }) => `${plural}.${group}`)).toSorted(),
      );
      const flags = of.map(({ name }) => `--guards=${name}`);
      for (const kind of ['DaemonSet', 'Deployment'] as const) {
        const [{ args = [] } = {}] = podOf(manifests, kind).containers;
        assert.deepEqual(
          args.filter((arg) => arg.startsWith('--guards')),
          flags,
        );
      }
      const pod = podOf(manifests, 'DaemonSet');
      const [agent] = pod.containers;
      assert.equal(pod.hostPID, of.some((guard) => guard.pod?.hostPID !== undefined) || undefined);
      const { capabilities, appArmorProfile } = agent?.securityContext ?? {};
      assert.equal(
        appArmorProfile?.type,
        of.some((guard) => guard.pod?.appArmorUnconfined !== undefined) ? 'Unconfined' : undefined,
      );
      assert.deepEqual(capabilities?.drop, ['ALL']);
      assert.deepEqual(
        new Set(capabilities?.add),
        new Set(of.flatMap((guard) => (guard.pod?.capabilities ?? []).map(({ name }) => name))),
      );
      // A name or a path twice is refused by the API.
      const mounts = (guard: Guard): string[] => (guard.pod?.mounts ?? []).map(({ mountPath }) => mountPath);
      const shared = ['/run/rampart', '/tmp', '/var/lib/rampart'];
      assert.deepEqual(
        agent?.volumeMounts?.map(({ mountPath }) => mountPath).toSorted(),
        [...new Set([...shared, ...of.flatMap(mounts)])].toSorted(),
      );
      assert.deepEqual(
        pod.volumes?.map(({ name }) => name).toSorted(),
        agent?.volumeMounts?.map(({ name }) => name).toSorted(),
      );
      for (const { metadata } of manifests) {
        assert.equal(metadata.labels?.['app.kubernetes.io/part-of'], 'rampart');
      }
    });
  }

  test("iptables costs one more capability and the lock of the node's iptables, if it is requested", () => {
    using mine = overlay(guards.filter(({ name }) => name === 'network-policy'));
    const costs = () => {
      const { containers, volumes = [] } = podOf(kustomize(mine.path), 'DaemonSet');
      const [agent] = containers;
      const mounted = agent?.volumeMounts?.find(({ mountPath }) => mountPath === '/run/xtables.lock')?.name;
      return {
        capabilities: agent?.securityContext?.capabilities?.add,
        lock: volumes.find(({ name }) => name === mounted)?.hostPath,
      };
    };
    assert.deepEqual(costs(), { capabilities: ['NET_ADMIN'], lock: undefined });
    const file = join(mine.path, 'kustomization.yaml');
    const own = '../rampart/deploy/network-policy-iptables';
    writeFileSync(file, readFileSync(file, 'utf8').replace(/^components:(.*)\]$/m, `components:$1, ${own}]`));
    assert.deepEqual(costs(), {
      capabilities: ['NET_ADMIN', 'NET_RAW'],
      lock: { path: '/run/xtables.lock', type: 'FileOrCreate' },
    });
    if (asked.includes('network-policy-iptables') && kustomizeObstacle() === undefined)
      expectSameOfKubectl(mine.path);
  });

  test('the component for signatures of bytecode gives the agents a configuration, from a ConfigMap', () => {
    using mine = overlay(guards.filter(({ name }) => name === 'bpf-programs'));
    const file = join(mine.path, 'kustomization.yaml');
    const own = '../rampart/deploy/bpf-verification';
    writeFileSync(file, readFileSync(file, 'utf8').replace(/^components:(.*)\]$/m, `components:$1, ${own}]`));
    const { containers, volumes = [] } = podOf(kustomize(mine.path), 'DaemonSet');
    const [{ args = [], volumeMounts = [] } = {}] = containers;
    const path = args.find((arg) => arg.startsWith('--bpf-verification-config='))?.split('=')[1] ?? '';
    const mount = volumeMounts.find(({ mountPath }) => dirname(path) === mountPath);
    assert.equal(mount?.readOnly, true);
    assert.deepEqual(volumes.find(({ name }) => name === mount.name)?.configMap, {
      name: 'rampart-bpf-verification',
    });
    if (asked.includes('bpf-verification') && kustomizeObstacle() === undefined)
      expectSameOfKubectl(mine.path);
  });

  test('volumes with maps cost two capabilities and a CSIDriver, and neither mounts nor a privileged container', () => {
    using mine = overlay(guards.filter(({ name }) => name === 'bpf-programs'));
    const before = podOf(kustomize(mine.path), 'DaemonSet');
    const file = join(mine.path, 'kustomization.yaml');
    const own = '../rampart/deploy/bpf-programs-csi';
    writeFileSync(file, readFileSync(file, 'utf8').replace(/^components:(.*)\]$/m, `components:$1, ${own}]`));
    const manifests = kustomize(mine.path);
    const pod = podOf(manifests, 'DaemonSet');
    const [[agent], [agentBefore]] = [pod.containers, before.containers];
    assert.deepEqual(pod.volumes, before.volumes);
    assert.deepEqual(agent?.volumeMounts, agentBefore?.volumeMounts);
    assert.notEqual(agent?.securityContext?.privileged, true);
    assert.deepEqual(agent?.securityContext?.capabilities?.add, [
      ...(agentBefore?.securityContext?.capabilities?.add ?? []),
      'SYS_CHROOT',
      'CHOWN',
    ]);
    assert.deepEqual(
      manifests.filter(({ kind }) => kind === 'CSIDriver').map(({ metadata: { name } }) => name),
      ['csi.bpfman.io'],
    );
    assert.deepEqual(
      agent?.args?.filter((arg) => !agentBefore?.args?.includes(arg)),
      ['--bpf-csi=/var/lib/kubelet'],
    );
    if (asked.includes('bpf-programs-csi') && kustomizeObstacle() === undefined)
      expectSameOfKubectl(mine.path);
  });

  test('the component for metrics restricts the ports that the agent and the operator have', () => {
    const [policy] = kustomize(join(deploy, 'metrics-network-policy'));
    const { podSelector, ingress } = (policy as unknown as { spec: MetricsPolicySpec }).spec;
    const [{ key, values }] = podSelector.matchExpressions;
    const manifests = kustomize(deploy);
    for (const kind of ['DaemonSet', 'Deployment'] as const) {
      const workload = manifests.find((one) => one.kind === kind);
      assert.equal(policy?.metadata.namespace, workload?.metadata.namespace);
      assert.ok(values.includes(workload?.metadata.labels?.[key] ?? ''));
      assert.deepEqual(
        ingress.flatMap(({ ports }) => ports.map(({ port }) => port)),
        podOf(manifests, kind).containers[0]?.ports?.map(({ containerPort }) => containerPort),
      );
    }
    // Without peers, a rule is for all.
    assert.ok(ingress.every(({ from }) => from.length > 0));
  });

  test('every guard is the same as deploy/, except for the name of the image', () => {
    using mine = overlay(guards);
    const withoutImage = (directory: string): unknown =>
      JSON.parse(
        JSON.stringify([...comparable(kustomize(directory))]).replaceAll(/"image":"[^"]*"/g, '"image":""'),
      );
    assert.deepEqual(withoutImage(mine.path), withoutImage(deploy));
    const images = new Set(
      (['DaemonSet', 'Deployment'] as const).map(
        (kind) => podOf(kustomize(mine.path), kind).containers[0]?.image,
      ),
    );
    assert.deepEqual(images, new Set(['REGISTRY/rampart:0.1.0']));
  });

  test('a component beside that of a guard makes a definition that of another version of its API', () => {
    const others = guards.flatMap(({ name, variants }) =>
      Object.entries(variants?.resources ?? {})
        .slice(1)
        .map(([value, resource]) => ({ name, value, resource })),
    );
    assert.ok(others.length > 0);
    for (const { name, value, resource } of others) {
      const chosen = guards.filter((guard) => guard.name === name);
      using mine = overlay(chosen, [value]);
      const { metadata, spec } = crdManifest(resource);
      const found = kustomize(mine.path).filter((one) => one.metadata.name === metadata.name);
      assert.deepEqual(
        found.map((one) => one['spec']),
        [JSON.parse(JSON.stringify(spec))],
      );
    }
  });

  for (const of of sets) {
    const title = of.map(({ name }) => name).join(', ') || 'none';
    const skip = kustomizeObstacle() ?? false;
    const compare = (): void => {
      using mine = overlay(of);
      // That of all guards is deploy/: tested above.
      for (const directory of of !== guards ? [mine.path] : isDeep ? [mine.path, deploy] : [deploy])
        expectSameOfKubectl(directory);
    };
    if (of === guards) test('all: kubectl makes the same of it', { skip }, compare);
    else deepTest(`${title}: kubectl makes the same of it`, { skip }, compare);
  }

  test('another set is applied over the previous one: removed guards have no rights left', async () => {
    const [first, ...others] = guards;
    assert.ok(first);
    using all = overlay(guards);
    using one = overlay([first]);
    await using cluster = await Cluster.start(all.path);
    await cluster.apply();
    const said = await cluster.apply(one.path);
    assert.deepEqual(
      said.filter((line) => line.endsWith(' created')),
      [],
    );
    const type = {
      group: 'rbac.authorization.k8s.io',
      version: 'v1',
      kind: 'ClusterRole',
      namespaced: false,
    };
    const role = await cluster.client().get({ ...type, plural: 'clusterroles' }, { name: 'rampart-agent' });
    const text = JSON.stringify(role);
    for (const { group } of others.flatMap(({ resources }) => resources)) assert.ok(!text.includes(group));
    assert.ok(first.resources.every(({ group }) => text.includes(group)));
  });
});
