import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { StatusContext } from '../../../guard/status-section.ts';
import { type AnyKubewardenPolicy, clusterAdmissionPolicyType } from '../api.ts';
import { activeStatus, withAnswers } from '../policies/policy-status.ts';
import { policyAuditStatus } from './section.ts';

test('a webhook that is not answered is named, with what happens and since when', async () => {
  const object = {
    apiVersion: 'policies.kubewarden.io/v1',
    kind: 'ClusterAdmissionPolicy',
    metadata: { name: 'root', generation: 1 },
    spec: { policyServer: 'default', mode: 'protect', failurePolicy: 'Fail' },
  } as unknown as AnyKubewardenPolicy;
  const read = async (isAnswering: boolean, laterMs = 0) => {
    const status = withAnswers(object, activeStatus(object), isAnswering);
    return policyAuditStatus.read({
      namespace: undefined,
      timeMs: Date.now() + laterMs,
      list: async (type, onItem) => {
        if (type.plural === clusterAdmissionPolicyType.plural) onItem({ ...object, status } as never);
      },
      orForbidden: (_, ask) => ask(),
    } as StatusContext);
  };
  const well = await read(true);
  assert.ok(well.guarded);
  const away = await read(false, 4 * 3600_000);
  assert.ok(!away.guarded);
  assert.match(
    away.table({ colour: false, width: 400 } as never),
    /webhook clusterwide-root is not answered, because the PolicyServer default has no ready pod: .* refused \(4 h ago\)/,
  );
});

test('kinds that could not be listed are named, so that nobody takes them for audited', async () => {
  const pass = { endedMs: 0, objects: 1, failing: 0, errored: 0, seconds: 1, missed: 0, unread: ['secrets'] };
  const read = async (summary: object) =>
    policyAuditStatus.read({
      namespace: undefined,
      timeMs: 0,
      list: async (type, onItem) => {
        if (type.plural === clusterAdmissionPolicyType.plural)
          onItem({ metadata: { name: 'all' }, spec: { mode: 'protect' } } as never);
        if (type.plural === 'configmaps')
          onItem({ metadata: {}, data: { 'summary.json': JSON.stringify(summary) } } as never);
      },
      orForbidden: (_, ask) => ask(),
    } as StatusContext);
  assert.match((await read(pass)).foot.join('\n'), /^Not audited: secrets \(.*Custom resources in audits/);
  assert.deepEqual((await read({ ...pass, unread: [] })).foot, []);
});
