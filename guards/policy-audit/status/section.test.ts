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
