// deploy/ as a user applies it, and what its roles allow held against what the agent and the operator ask for.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { parse } from 'yaml';

import { issueAuthority, issueServerCertificate } from '../../lib/x509/certificate.ts';
import { isNotFound } from '../../lib/kube/client/client-errors.ts';
import { events } from '../../lib/kube/events/event-object.ts';
import {
  type KubeObject,
  leases,
  nodes,
  pods,
  type RoleBinding,
  roleBindings,
} from '../../lib/kube/object/object.ts';
import { createLogger } from '../../lib/telemetry/log.ts';
import { sensorSkip, testMode } from '../../lib/sensor/sensor.fixture.ts';
import {
  kiveDataNamespace,
  kiveDataType,
  type KivePolicy,
  kivePolicyType,
} from '../../guards/file-access/api.ts';
import type { ContainerSource, SourceContainer } from '../../lib/cri/container-source.ts';
import { deepTest } from '../../lib/testing/depth.fixture.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { Receiver } from '../../guards/file-access/delivery/receiver.fixture.ts';
import { secrets } from '../../lib/kube/object/object.ts';
import { keepAgentLease } from '../../guard/agent-lease.ts';
import { GuardStates } from '../../guard/guard-states.ts';
import { systemNamespace } from '../../guard/guard.ts';
import { runClusterGuards, runNodeGuards } from '../../guard/part.fixture.ts';
import { agentWorkload, operatorWorkload } from '../../guard/removal.ts';
import { fileAccess } from '../../guards/file-access/guard.ts';
import { guards } from '../guards.ts';
import { askCluster } from '../status/ask.ts';
import { Cluster, deploy, isOfOthers, rightsOf } from './deploy.fixture.ts';
import { kustomize } from '../../scripts/kustomize.ts';

const namespace = systemNamespace;

suite('deploy/', () => {
  test('applies unmodified, changes nothing when applied again, and lets a viewer read all of rampart status', async () => {
    await using cluster = await Cluster.start();
    const objects = kustomize(deploy).length;
    const first = await cluster.apply();
    assert.deepEqual(first.filter((line) => line.endsWith(' created')).length, objects, first.join('\n'));
    const second = await cluster.apply();
    assert.deepEqual(second.filter((line) => line.endsWith(' unchanged')).length, objects, second.join('\n'));
    const { examined } = await askCluster({
      client: cluster.client('rampart-viewer'),
      guards,
      server: '',
      namespace: undefined,
      signal: AbortSignal.timeout(60_000),
    });
    assert.deepEqual(examined.report.notRead, []);
    assert.deepEqual(cluster.refused, []);
  });

  deepTest('applied by the server first, then by the client, then by the server again', async () => {
    await using cluster = await Cluster.start();
    await cluster.apply(deploy, '--server-side');
    const versions = await cluster.versions();
    await cluster.apply(deploy, '--server-side');
    assert.deepEqual(await cluster.versions(), versions);
    await cluster.apply();
    const again = await cluster.apply();
    assert.deepEqual(
      again.filter((line) => !line.endsWith(' unchanged')),
      [],
    );
    await cluster.apply(deploy, '--server-side');
    const last = await cluster.versions();
    await cluster.apply(deploy, '--server-side');
    assert.deepEqual(await cluster.versions(), last);
  });

  test('gives each container only listed capabilities, and no way to write to the image', () => {
    const owners = kustomize(deploy).filter(({ kind }) => kind === 'DaemonSet' || kind === 'Deployment');
    assert.equal(owners.length, 2);
    for (const pod of owners as unknown as { spec: { template: { spec: { containers: Container[] } } } }[]) {
      for (const { securityContext } of pod.spec.template.spec.containers) {
        const { privileged, allowPrivilegeEscalation, readOnlyRootFilesystem, capabilities } =
          securityContext;
        assert.deepEqual(
          [privileged, allowPrivilegeEscalation, readOnlyRootFilesystem],
          [false, false, true],
        );
        assert.deepEqual(capabilities.drop, ['ALL']);
      }
    }
  });

  test('allows what is asked for and no more', { skip: sensorSkip }, async () => {
    await using cluster = await Cluster.start();
    await cluster.install();
    const client = cluster.client();
    const root = join(cluster.directory, 'root');
    mkdirSync(root);
    writeFileSync(join(root, 'secret'), 'x');
    const pod = await client.create(pods, {
      metadata: { namespace: 'default', name: 'web' },
      spec: { nodeName: 'here', containers: [{ name: 'main', image: 'none' }] },
    } as KubeObject);
    const status = { phase: 'Running', podIP: '10.0.0.9', podIPs: [{ ip: '10.0.0.9' }] };
    await client.patch(
      pods,
      { namespace: 'default', name: 'web', subresource: 'status' },
      { type: 'merge', body: { status } },
    );
    const container: SourceContainer = {
      id: 'containerd://0123',
      name: 'main',
      podName: 'web',
      podNamespace: 'default',
      podUid: pod.metadata.uid ?? '',
      podIp: '10.0.0.9',
      pid: process.pid,
      root,
    };
    const containers: ContainerSource = {
      synced: Promise.resolve(),
      list: () => [container],
      get: (id) => (id === container.id ? container : undefined),
      reported: (id) => (id === container.id ? container : undefined),
      subscribe: () => ({ [Symbol.dispose]: () => undefined }),
    };
    const validity = { now: new Date(), days: 2 };
    const authority = issueAuthority('receivers', validity);
    await using receiver = await Receiver.start({
      tls: issueServerCertificate(authority, ['127.0.0.1'], validity),
    });
    const callback = receiver.url('/').replace('http:', 'https:');
    const tokens = (): (string | undefined)[] =>
      receiver.received.map(({ headers }) => headers.authorization);
    for (const where of ['default', namespace]) {
      const data = Object.entries({ token: `of-${where}`, 'ca.crt': authority.cert }).map(
        ([key, text]) => [key, Buffer.from(text).toString('base64')] as const,
      );
      await client.create(secrets, {
        metadata: { namespace: where, name: 'receiver' },
        data: Object.fromEntries(data),
      });
    }
    await client.create(nodes, { metadata: { name: 'here' } });
    const ofGoneNode = { namespace, name: 'rampart-agent-gone' };
    const annotations = { 'rampart.dev/node': 'gone' };
    await client.create(leases, {
      metadata: { ...ofGoneNode, labels: { 'rampart.dev/agent': 'gone' }, annotations },
      spec: { leaseDurationSeconds: 1 },
    });
    const stop = new AbortController();
    const common = { signal: stop.signal, logger: createLogger({ level: 'silent' }) };
    const running = Promise.all([
      keepAgentLease({
        ...common,
        client: cluster.client('rampart-agent'),
        nodeName: 'here',
        identity: 'here_1',
        states: new GuardStates(),
      }),
      runClusterGuards(guards, {
        ...common,
        client: cluster.client('rampart-operator'),
        workload: operatorWorkload,
      }),
      runNodeGuards(
        guards,
        { allowCallback: ['127.0.0.1'], callbackSecret: [], mode: testMode() },
        {
          ...common,
          client: cluster.client('rampart-agent'),
          workload: agentWorkload,
          nodeName: 'here',
          containers,
          hostRoot: root,
          directory: cluster.directory,
        },
      ),
    ]);
    try {
      const target = { namespace: 'default', name: 'p' };
      const data = async (count: number): Promise<boolean> =>
        (await client.list(kiveDataType, { namespace: kiveDataNamespace })).items.length === count;
      await client.create(kivePolicyType, {
        metadata: target,
        spec: {
          traps: [{ path: '/secret', matchAny: [{ pod: 'web' }], callback, callbackSecret: 'receiver' }],
        },
      });
      await until('KiveData', () => data(1));
      await until('the lease of a gone node to be deleted', () =>
        client.get(leases, ofGoneNode).then(() => false, isNotFound),
      );
      const isReady = ({ status: is }: KivePolicy): boolean =>
        is?.conditions?.some(({ type, status: value }) => type === 'Ready' && value === 'True') === true;
      await until('the policy to be ready', async () => isReady(await client.get(kivePolicyType, target)));
      await until('an event', async () => (await client.list(events)).items.length > 0);

      // Its own namespace has not given the agent the right to read its Secrets: alerts wait, and it is said.
      const reported = async (): Promise<boolean> => {
        spawnSync('cat', [join(root, 'secret')]);
        const { items } = await client.list(events);
        return items.some(({ note = '' }) => /not allowed to read the Secret default\/receiver/.test(note));
      };
      await until('an event about the right that is missing', reported);
      assert.ok(cluster.refused.includes(withoutBinding));
      assert.deepEqual(tokens(), []);
      // As the guide has it.
      const guide = readFileSync(join(deploy, 'README.md'), 'utf8');
      const binding = parse(
        /```yaml\n(apiVersion: rbac.*\nkind: RoleBinding\n[^]*?)```/.exec(guide)?.[1] ?? '',
      ) as RoleBinding;
      assert.equal(binding.kind, 'RoleBinding');
      assert.deepEqual(binding.subjects, [{ kind: 'ServiceAccount', name: 'rampart-agent', namespace }]);
      await client.create(roleBindings, {
        ...binding,
        metadata: { ...binding.metadata, namespace: 'default' },
      });
      for (const right of rightsOf(binding.roleRef.name)) cluster.granted.add(`${right} in default`);
      await until('the alerts that waited', async () => tokens().length > 0);
      assert.ok(tokens().every((token) => token === 'Bearer of-default'));
      // In the namespace of the agent it is the same, and one Secret is enough.
      cluster.granted.add(`get secrets. receiver in ${namespace}`);
      const own = { namespace, name: 'own' };
      await client.create(kivePolicyType, {
        metadata: own,
        spec: {
          traps: [{ path: '/secret', matchAny: [{ pod: 'web' }], callback, callbackSecret: 'receiver' }],
        },
      });
      await until('an alert with the token of the namespace of the agent', async () => {
        spawnSync('cat', [join(root, 'secret')]);
        return tokens().includes(`Bearer of-${namespace}`);
      });
      await client.delete(kivePolicyType, own);
      await client.delete(kivePolicyType, target);
      await until('the policy to go', () =>
        client.get(kivePolicyType, target).then(
          () => false,
          (error: unknown) => isNotFound(error),
        ),
      );
      await until('no KiveData', () => data(0));
    } finally {
      stop.abort();
      await running;
    }
    assert.deepEqual(
      cluster.refused.filter((one) => one !== withoutBinding),
      [],
    );
    const surplus = cluster
      .unused()
      .filter((right) => !onlySometimes.has(right) && !isOfOthers(right, fileAccess));
    assert.deepEqual(surplus, []);
  });
});

const withoutBinding = 'rampart-agent: get secrets. (default/receiver)';

interface Container {
  readonly securityContext: {
    readonly privileged: boolean;
    readonly allowPrivilegeEscalation: boolean;
    readonly readOnlyRootFilesystem: boolean;
    readonly capabilities: { readonly drop: readonly string[] };
  };
}

/**
 * Requests that this test does not cause: server-side apply that creates (only Kubernetes requires that
 * right), conflicts, series of events, files that are replaced, pods and nodes that go.
 */
const nodeStatuses = 'kivenodestatuses.kivebpf.san7o.github.io';
const kiveDataOf = 'kivedata.kivebpf.san7o.github.io';
const onlySometimes: ReadonlySet<string> = new Set([
  `rampart-agent: get ${kiveDataOf}`,
  `rampart-agent: update ${kiveDataOf}`,
  `rampart-agent: create ${nodeStatuses}`,
  `rampart-agent: delete ${nodeStatuses}`,
  'rampart-agent: patch events.events.k8s.io',
  `rampart-operator: delete ${nodeStatuses}`,
  `rampart-operator: get ${kiveDataOf}`,
  `rampart-operator: patch ${kiveDataOf}`,
  `rampart-operator: delete ${kiveDataOf}`,
  'rampart-operator: get kivepolicies.kivebpf.san7o.github.io',
  'rampart-operator: get pods.',
  'rampart-operator: get nodes.',
  'rampart-operator: create events.events.k8s.io',
  'rampart-operator: patch events.events.k8s.io',
]);
