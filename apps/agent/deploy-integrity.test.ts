// The roles of deploy/ compared with the requests of file integrity, from the manifest to its deletion.
import assert from 'node:assert/strict';
import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { systemNamespace } from '../../guard/guard.ts';
import { noContainers } from '../../lib/cri/container-source.ts';
import { isNotFound } from '../../lib/kube/client/client-errors.ts';
import { configMaps, type KubeObject, namespaces, type ResourceType } from '../../lib/kube/object/object.ts';
import { createLogger } from '../../lib/telemetry/log.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { policyReportType } from '../../guard/reports/policy-reports.ts';
import { testMode } from '../../lib/sensor/sensor.fixture.ts';
import { type FileIntegrity, names, released } from '../../guards/file-integrity/api.ts';
import { nodes } from '../../lib/kube/object/object.ts';
import { Cluster, deploy, isOfIntegrity, isOfOthers, rightsOf } from './deploy.fixture.ts';
import { runClusterGuards, runNodeGuards } from '../../guard/part.fixture.ts';
import { fileIntegrity } from '../../guards/file-integrity/guard.ts';
import { guards } from '../guards.ts';

const roleName = 'rampart-agent-file-integrity';
const roleBindings: ResourceType<
  KubeObject & { readonly roleRef: object; readonly subjects: readonly unknown[] }
> = {
  group: 'rbac.authorization.k8s.io',
  version: 'v1',
  plural: 'rolebindings',
  kind: 'RoleBinding',
  namespaced: true,
};

suite('deploy/ for file integrity', () => {
  test('allows what is asked for and no more', async () => {
    await using cluster = await Cluster.start();
    await cluster.install();
    await cluster.install(join(deploy, 'policy-reports'));
    const client = cluster.client();
    const host = join(cluster.directory, 'host');
    mkdirSync(join(host, 'etc'), { recursive: true });
    writeFileSync(join(host, 'etc/passwd'), 'root\n');
    for (const name of ['guard', 'elsewhere']) await client.create(namespaces, { metadata: { name } });
    await client.create(nodes, { metadata: { name: 'here' } });
    const conf = { namespace: 'elsewhere', name: 'conf' };
    const data = (text: string): object => ({ data: { conf: text } });
    await client.create(configMaps, { metadata: conf, ...data('/etc p+s+sha256\n') });
    const target = { namespace: 'guard', name: 'machine' };
    await client.create(released.integrities, {
      metadata: target,
      spec: { config: { ...conf, key: 'conf', gracePeriod: 10 } },
    } as unknown as FileIntegrity);

    const stop = new AbortController();
    const common = { signal: stop.signal, logger: createLogger({ level: 'silent' }) };
    const running = Promise.all([
      runClusterGuards(guards, { ...common, client: cluster.client('rampart-operator') }),
      runNodeGuards(
        guards,
        { allowCallback: [], callbackSecret: [], mode: testMode() },
        {
          ...common,
          client: cluster.client('rampart-agent'),
          nodeName: 'here',
          containers: noContainers,
          hostRoot: host,
          directory: cluster.directory,
        },
      ),
    ]);
    const gone = async <T extends KubeObject>(
      type: ResourceType<T>,
      what: { namespace: string; name: string },
    ): Promise<boolean> =>
      await client.get(type, what).then(
        () => false,
        (error: unknown) => isNotFound(error),
      );
    const conditionIs = async (wanted: string): Promise<boolean> => {
      const status = await client
        .get(released.nodeStatuses, { namespace: 'guard', name: 'machine-here' })
        .catch(() => undefined);
      return status?.lastResult?.condition === wanted;
    };
    try {
      // As the agent has no right to ConfigMaps before the operator binds it, and the operator may bind this role alone.
      const binding = await until('the binding', async () =>
        client.get(roleBindings, { namespace: 'guard', name: roleName }),
      );
      assert.deepEqual(binding.roleRef, {
        apiGroup: 'rbac.authorization.k8s.io',
        kind: 'ClusterRole',
        name: roleName,
      });
      assert.deepEqual(binding.subjects, [
        { kind: 'ServiceAccount', name: 'rampart-agent', namespace: systemNamespace },
      ]);
      assert.ok(rightsOf('rampart-operator').has(`bind clusterroles.rbac.authorization.k8s.io ${roleName}`));
      for (const right of rightsOf(roleName)) cluster.granted.add(`${right} in guard`);

      await until('the first result', () => conditionIs('Succeeded'));
      const report = { namespace: 'guard', name: 'machine-here' };
      await until('a report', async () => (await client.get(policyReportType, report)).summary?.pass === 1);
      appendFileSync(join(host, 'etc/passwd'), 'eve\n');
      await until('the change', () => conditionIs('Failed'));
      await until(
        'the log',
        async () => !(await gone(configMaps, { ...target, name: 'aide-machine-here-failed' })),
      );
      await until('a finding', async () => (await client.get(policyReportType, report)).summary?.fail === 1);
      const annotate = (name: string): Promise<FileIntegrity> =>
        client.patch(released.integrities, target, {
          type: 'merge',
          body: { metadata: { annotations: { [name]: '' } } },
        });
      await annotate(names.reinit);
      await until('the new baseline', () => conditionIs('Succeeded'));
      await client.patch(configMaps, conf, { type: 'merge', body: data('/etc p+s+sha512\n') });
      await until('the other configuration', async () =>
        (await client.get(configMaps, target)).data?.['aide.conf']?.includes('sha512'),
      );
      await client.delete(released.integrities, target);
      await until('the binding to go', () => gone(roleBindings, { namespace: 'guard', name: roleName }));
    } finally {
      stop.abort();
      await running;
    }
    // Before the binding it asks in vain, and again.
    const early = /^rampart-agent: \w+ (configmaps|secrets)\. \(guard\//;
    assert.deepEqual(
      cluster.refused.filter((one) => !early.test(one)),
      [],
    );
    const ofAgent = [...rightsOf(roleName)].filter(
      (right) => cluster.used.get('rampart-agent')?.has(`${right} in guard`) !== true,
    );
    // By server-side apply, for which a cluster requires it if the object does not exist yet.
    assert.deepEqual(ofAgent, ['create configmaps.']);
    // Both groups are looked after alike, and the FileIntegrity here is of one.
    const unused = new Set(cluster.unused());
    const asReleased = (right: string): string =>
      right
        .replace('file-integrity.openshift.io', 'fileintegrity.openshift.io')
        .replace('nodeintegrities', 'fileintegrities')
        .replace('nodeintegritystatuses', 'fileintegritynodestatuses');
    const surplus = [...unused].filter(
      (right) =>
        isOfIntegrity(right) &&
        !isOfOthers(right, fileIntegrity) &&
        unused.has(asReleased(right)) &&
        !onlySometimes.has(asReleased(right)),
    );
    assert.deepEqual(surplus, []);
  });
});

/** Requests that this test does not cause, and further ones that a cluster requires. */
const onlySometimes: ReadonlySet<string> = new Set([
  // For a node that goes.
  'rampart-operator: delete fileintegritynodestatuses.fileintegrity.openshift.io',
  'rampart-operator: get policyreports.wgpolicyk8s.io',
  'rampart-operator: delete policyreports.wgpolicyk8s.io',
  // Admission and authorization of a real cluster.
  `rampart-operator: bind clusterroles.rbac.authorization.k8s.io ${roleName}`,
  'rampart-operator: create policyreports.wgpolicyk8s.io',
  // Without PolicyReports.
  ...['get', 'create', 'patch', 'delete'].map((verb) => `rampart-operator: ${verb} reports.openreports.io`),
]);
