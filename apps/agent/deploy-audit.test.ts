// Reads of policies while the operator of deploy/ audits: as the service account of their PolicyServer.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { runGivenCluster } from '../../guard/part.fixture.ts';
import { clusterAdmissionPolicyType, policyServerType } from '../../guards/policy-audit/api.ts';
import { policyAuditCluster } from '../../guards/policy-audit/cluster/run.ts';
import { policyAudit } from '../../guards/policy-audit/guard.ts';
import type { PolicyAuditOptions } from '../../guards/policy-audit/options.ts';
import { reportTypes } from '../../guards/policy-audit/reports/report.ts';
import { clusterPolicy } from '../../guards/policy-audit/scanner/scan.fixture.ts';
import { configMaps, type KubeObject, namespaces, pods, roleBindings } from '../../lib/kube/object/object.ts';
import { createLogger } from '../../lib/telemetry/log.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { AccountApi } from './account-tokens.fixture.ts';
import { applyManifest } from './apply.fixture.ts';
import { Cluster, deploy } from './deploy.fixture.ts';
import { overlay } from './overlay.fixture.ts';

const options: PolicyAuditOptions = {
  ...{ auditIntervalMs: 3_600_000, reports: 'all', reportKind: 'policyreport', reportsBy: 'object' },
  ...{ policyModules: undefined, policySources: undefined, policyVerification: undefined },
  ...{ sigstoreTrustConfig: undefined, policyServerImage: undefined, data: undefined },
};
const secret = "string(kw.k8s.apiVersion('v1').kind('ConfigMap').namespace('vault').get('keys').data.secret)";

suite('an audit by the operator of deploy/', () => {
  test('policies read what the account of their PolicyServer may read, and no more', async () => {
    using mine = overlay([policyAudit]);
    await using cluster = await Cluster.start(mine.path);
    await cluster.install();
    await cluster.install(join(deploy, 'policy-reports'));
    await using api = await AccountApi.start(cluster);
    const client = cluster.client();
    for (const name of ['vault', 'shop']) await client.create(namespaces, { metadata: { name } });
    await client.create(configMaps, {
      metadata: { namespace: 'vault', name: 'keys' },
      data: { secret: 'swordfish' },
    });
    await client.create(pods, {
      metadata: { namespace: 'shop', name: 'web' },
      spec: { containers: [{ name: 'main', image: 'none' }] },
    } as KubeObject);
    const policy = clusterPolicy('curious', { kinds: ['pods'] });
    await client.create(clusterAdmissionPolicyType, {
      ...policy,
      spec: {
        ...policy.spec,
        contextAwareResources: [{ apiVersion: 'v1', kind: 'ConfigMap' }],
        settings: { validations: [{ expression: `${secret} == ''`, messageExpression: secret }] },
      },
    });
    const setServer = (serviceAccountName?: string): Promise<unknown> =>
      client.apply(
        policyServerType,
        {
          metadata: { name: 'default' },
          spec: { image: 'registry.example/policy-server:v1', replicas: 0, serviceAccountName },
        } as KubeObject,
        { fieldManager: 'test', force: true },
      );
    const says = (result: string, message: RegExp): Promise<unknown> =>
      until(`${result} ${message}`, async () => {
        const { items } = await client.list(reportTypes.policyreport.namespaced, { namespace: 'shop' });
        const [only] = items.flatMap((report) => report.results);
        assert.equal(only?.result, result);
        assert.match(only.message ?? '', message);
        return true;
      });

    const stop = new AbortController();
    const running = runGivenCluster(policyAudit, (context) => policyAuditCluster(context, options), {
      client: api.clientOf('rampart-operator'),
      signal: stop.signal,
      logger: createLogger({ level: (process.env['RAMPART_LOG'] ?? 'silent') as 'silent' }),
    });
    try {
      await says('error', /there is no PolicyServer default/);
      await setServer();
      await says('error', /account rampart-system\/default .*cannot get configmaps vault\/keys.*bind a role/);
      cluster.allow('default', ['get configmaps. in vault']);
      const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'keys' };
      await client.create(roleBindings, { metadata: { namespace: 'vault', name: 'keys' }, roleRef });
      await says('fail', /^swordfish$/);
      // As the guide has it.
      const guide = readFileSync(join(deploy, '../docs/policy-audit.md'), 'utf8');
      const [, account = ''] = /```yaml\n(apiVersion: v1\nkind: ServiceAccount\n[^]*?)```/.exec(guide) ?? [];
      await applyManifest(client, account);
      await says('error', /account rampart-system\/policy-server .*cannot get configmaps vault\/keys/);
      await setServer('rampart-operator');
      await says('error', /account rampart-operator, .*Rampart's own/);
    } finally {
      stop.abort();
      await running;
    }
    assert.deepEqual(new Set(api.tokens.requested), new Set(['default', 'policy-server']));
    assert.deepEqual(
      cluster.refused.filter(
        (one) => !/^(default|policy-server): get configmaps\. \(vault\/keys\)$/.test(one),
      ),
      [],
    );
    for (const name of ['rampart-operator', 'rampart-agent'])
      assert.match(cluster.refusalOfToken('rampart-operator', name) ?? '', /only those that/);
  });
});
